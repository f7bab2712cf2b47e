//! The files of large values that the change window keeps: those that its part of the log names.
//!
//! Invariant: a file that is kept is not unlinked when the version drops it, or never lists it. It
//! is then an *orphan*, and unlinked when the window has passed the last write that may name it.
//! One lock, a leaf.

use crate::base::keys::{FileNumber, SeqNo};
use crate::base::sync::Mutex;
use crate::record::RecordFile;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct WindowFiles(Mutex<Vec<Kept>>);

pub(crate) struct Kept {
    /// The last write that may name it.
    pub(crate) until: SeqNo,
    pub(crate) file: Arc<RecordFile>,
    pub(crate) is_orphan: bool,
}

impl WindowFiles {
    /// Keeps files that writes up to `until` name.
    pub(crate) fn keep(&self, until: SeqNo, files: &[Arc<RecordFile>]) {
        let mut all = self.0.lock();
        // A flush that failed has kept them already.
        let is_new = |file: &&Arc<RecordFile>| !all.iter().any(|k| is(k, file.meta().number));
        let new: Vec<_> = files.iter().filter(is_new).collect();
        all.extend(new.into_iter().map(|file| Kept {
            until,
            file: Arc::clone(file),
            is_orphan: false,
        }));
    }

    /// Adds what an opening has found.
    pub(crate) fn recover(&self, kept: Vec<Kept>) {
        self.0.lock().extend(kept);
    }

    /// No version lists the file any more: it is unlinked as soon as nobody needs it.
    pub(crate) fn mark_obsolete(&self, file: &RecordFile) {
        let mut all = self.0.lock();
        let number = file.meta().number;
        let found = all.iter_mut().find(|kept| is(kept, number));
        match found {
            Some(kept) => kept.is_orphan = true,
            None => {
                drop(all);
                file.mark_obsolete();
            }
        }
    }

    /// The window begins after `from`.
    pub(crate) fn forget_until(&self, from: SeqNo) {
        let mut all = self.0.lock();
        let (gone, kept): (Vec<_>, Vec<_>) = all.drain(..).partition(|kept| kept.until <= from);
        *all = kept;
        drop(all);
        for kept in gone.iter().filter(|kept| kept.is_orphan) {
            kept.file.mark_obsolete();
        }
    }

    /// Bytes of the files, those apart that only the window keeps.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let all = self.0.lock();
        let bytes = |kept: &Kept| kept.file.meta().len;
        let orphans = all.iter().filter(|kept| kept.is_orphan).map(bytes).sum();
        (all.iter().map(bytes).sum(), orphans)
    }
}

fn is(kept: &Kept, number: FileNumber) -> bool {
    kept.file.meta().number == number
}
