//! What a writer publishes for secondaries: the page `VISIBLE` (`docs/format.md`, "Visible
//! numbers").
//!
//! Invariants:
//! - Each opening makes a page before it changes anything else that a secondary reads, and holds it
//!   as long as it may write. Until it is done the page says that nothing is published.
//! - What stands in a page that nobody holds means nothing.
//! - An edit is stored when it is durable and its view is published; a number after that of the
//!   writer, and the edits on which it depends. So the tables of a secondary that reads the edits,
//!   and then a number, hold no write that is not visible.
//! - Files that an edit drops, segments of the log among them, go after it is published.
//! - Stores are made under the commit lock (numbers) and the catalog's (edits).

use crate::base::file_header::{FileHeader, FileKind};
use crate::base::file_names;
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::sync::{Mutex, OnceLock};
use crate::error::{Error, Result};
use crate::vfs::SharedPage;
use crate::vfs::file_store::FileStore;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// The words: the visible number and one, 0 while the database is being opened; the edits of the
/// manifest that are in force, counted from the first on; the last visible number that is in no
/// record of the log; the visible number before those up to it; and the last number up to which the
/// log is durable, 0 if that is not known.
const VISIBLE: usize = 0;
const EDITS: usize = 1;
const UNLOGGED: usize = 2;
const LOGGED: usize = 3;
const DURABLE: usize = 4;

/// The page of this opening.
#[derive(Debug, Default)]
pub(crate) struct VisiblePage {
    /// `None`: nobody asks for one. Not set: it could not be made yet, as the disk is full, and
    /// nothing has been changed.
    page: OnceLock<Option<Arc<dyn SharedPage>>>,
    /// What is to stand in a page that is made later.
    first: Mutex<Option<First>>,
    /// What is said to be durable.
    durable: Mutex<SeqNo>,
}

/// What an opening has found.
#[derive(Clone, Copy, Debug)]
struct First {
    seq: SeqNo,
    logged: SeqNo,
    edits: u64,
}

impl VisiblePage {
    /// Makes the page in which an opening publishes if there is none, before anything is changed
    /// that a secondary reads.
    pub(crate) fn make_up(&self, store: &FileStore) -> Result<()> {
        if self.page.get().is_some() {
            return Ok(());
        }
        let page = create_page(store)?;
        let _there_is_one_caller = self.page.set(page);
        let first = *self.first.lock();
        if let Some(First { seq, logged, edits }) = first {
            self.begin(seq, logged, edits);
        }
        Ok(())
    }

    fn page(&self) -> Option<&Arc<dyn SharedPage>> {
        self.page.get()?.as_ref()
    }
}

fn create_page(store: &FileStore) -> Result<Option<Arc<dyn SharedPage>>> {
    let vfs = &store.env().vfs;
    let temp = store.dir().join(file_names::VISIBLE_TEMP);
    let path = store.dir().join(file_names::VISIBLE);
    let header = FileHeader {
        kind: FileKind::Visible,
        database: store.database(),
        uid: store.new_uid(),
        number: FileNumber(0),
        required: 0,
    };
    // What earlier openings have left: on a full disk there is no room for both.
    for old in [&temp, &path] {
        let _absent_at_first = vfs.remove(old);
    }
    let create = || vfs.create_page(&temp, &header.encode());
    let page = create().map_err(|e| Error::io("write this file", &temp, e))?;
    if page.is_some() {
        let renamed = vfs.rename(&temp, &path);
        renamed.map_err(|e| {
            let _swept_later = vfs.remove(&temp);
            Error::io("replace this file", &path, e)
        })?;
    }
    Ok(page)
}

impl VisiblePage {
    /// The opening is done: what is up to `seq` is visible. Up to `logged` it is in records of the
    /// log or in tables; the rest are changes of keyspaces.
    pub(crate) fn begin(&self, seq: SeqNo, logged: SeqNo, edits: u64) {
        *self.first.lock() = Some(First { seq, logged, edits });
        self.edits(edits);
        if let Some(page) = self.page().filter(|_| logged < seq) {
            page.store(LOGGED, logged.0);
            page.store(UNLOGGED, seq.0);
        }
        self.seq(seq);
    }

    /// The writes up to `seq` are visible; the last of them is in the log.
    #[inline]
    pub(crate) fn seq(&self, seq: SeqNo) {
        if let Some(page) = self.page() {
            page.store(VISIBLE, seq.0 + 1);
        }
    }

    /// The changes up to `seq` are visible; those after the number that was visible before are in
    /// no record of the log. Their edits are published.
    pub(crate) fn unlogged_seq(&self, seq: SeqNo) {
        let Some(page) = self.page() else {
            return;
        };
        let before = page.load(VISIBLE).saturating_sub(1);
        if page.load(UNLOGGED) != before {
            page.store(LOGGED, before);
        }
        page.store(UNLOGGED, seq.0);
        page.store(VISIBLE, seq.0 + 1);
    }

    /// What the log has of the writes up to `seq` is durable.
    pub(crate) fn durable(&self, seq: SeqNo) {
        let Some(page) = self.page() else {
            return;
        };
        let mut durable = self.durable.lock();
        if seq > *durable {
            *durable = seq;
            page.store(DURABLE, seq.0);
        }
    }

    /// This many edits are in force.
    pub(crate) fn edits(&self, edits: u64) {
        if let Some(page) = self.page() {
            page.store(EDITS, edits);
        }
    }

    /// Nothing more will be published.
    pub(crate) fn release(&self) {
        if let Some(page) = self.page() {
            page.release();
        }
    }
}

/// What a secondary finds in the page of an opening.
#[derive(Clone, Debug)]
pub(crate) struct FollowedPage {
    page: Arc<dyn SharedPage>,
    uid: FileUid,
}

/// A number that is visible, and where the log has to lead for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleSeq {
    pub(crate) seq: SeqNo,
    /// The last write up to it that is in a record of the log or in tables.
    pub(crate) logged: SeqNo,
}

impl FollowedPage {
    /// Opens the page in the directory of `store`, if there is one.
    pub(crate) fn open(store: &FileStore) -> Result<Option<FollowedPage>> {
        let path = store.dir().join(file_names::VISIBLE);
        let page = match store.env().vfs.open_page(&path) {
            Ok(page) => page,
            Err(e) => return nothing_or(&path, e),
        };
        // A header that a crash has taken is that of nobody who lives.
        let database = Some(store.database());
        let header = FileHeader::decode(page.header(), FileKind::Visible, database, &path);
        Ok(header.ok().map(|header| FollowedPage {
            page,
            uid: header.uid,
        }))
    }

    /// Which opening it is of.
    pub(crate) fn uid(&self) -> FileUid {
        self.uid
    }

    /// Whether the opening lives.
    ///
    /// # Errors
    /// `Incompatible` if it lives where processes cannot share memory.
    pub(crate) fn is_held(&self, dir: &Path) -> Result<bool> {
        let path = dir.join(file_names::VISIBLE);
        let held = self.page.is_held();
        let held = held.map_err(|e| Error::io("look at the lock of", &path, e))?;
        if held && !self.page.is_shared() {
            let what = "a writer has the database open, on a file system on which it cannot share \
                        a page with secondaries";
            let remedy = "follow it while nobody has it open, or keep it on ext4, XFS or tmpfs";
            return Err(Error::incompatible(&path, what, remedy));
        }
        Ok(held)
    }

    /// The edits that are in force.
    pub(crate) fn edits(&self) -> u64 {
        self.page.load(EDITS)
    }

    /// What the log has up to here is durable. True also when the opening is over.
    pub(crate) fn durable(&self) -> SeqNo {
        SeqNo(self.page.load(DURABLE))
    }

    /// What is visible; `None` while the database is being opened.
    pub(crate) fn visible(&self) -> Option<VisibleSeq> {
        let seq = SeqNo(self.page.load(VISIBLE).checked_sub(1)?);
        let logged = if self.page.load(UNLOGGED) == seq.0 {
            SeqNo(self.page.load(LOGGED))
        } else {
            seq
        };
        Some(VisibleSeq { seq, logged })
    }
}

/// A page that is missing, or too short to be one, is nobody's.
fn nothing_or(path: &Path, error: io::Error) -> Result<Option<FollowedPage>> {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::UnexpectedEof => Ok(None),
        ErrorKind::Unsupported => {
            let what = "the file system has no memory that a writer could share with secondaries";
            let remedy = "read from a snapshot of the database that is open";
            Err(Error::incompatible(path, what, remedy))
        }
        _ => Err(Error::io("map this page of the writer", path, error)),
    }
}
