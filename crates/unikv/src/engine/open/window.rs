//! What an opening finds of the change window, and the incarnation that it begins.
//!
//! Every opening that writes is a new incarnation. What an earlier one has given up to the last
//! number that is found is the same here; what it may have given beyond that is not, for numbers
//! are given again after a crash. So its tokens hold up to there.

use super::{Opening, recovery};
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::seeded::seeded;
use crate::engine::window::Kept;
use crate::engine::write::wal_sync::{Segment, WalSync};
use crate::error::{Error, ErrorKind, Result};
use crate::key_table::ReadCache;
use crate::log::replay::{Linked, last_logged, linked_before};
use crate::log::{ReplayOutcome, SegmentEnd};
use crate::record::External;
use crate::version::Version;
use crate::version::edit::history::History;
use crate::version::file_names;
use crate::vfs::file_store::FileStore;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Window {
    /// After which number it begins.
    pub(super) from: SeqNo,
    /// All segments, those that recovery needs among them, oldest first.
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) files: Vec<Kept>,
}

impl Window {
    /// The numbers of its segments, and of the files of large values.
    pub(super) fn numbers(&self) -> (Vec<FileNumber>, Vec<FileNumber>) {
        let segments = self.segments.iter().map(|segment| segment.number);
        let files = self.files.iter().map(|kept| kept.file.meta().number);
        (segments.collect(), files.collect())
    }
}

/// Where a window is looked for.
struct Found<'a> {
    store: &'a Arc<FileStore>,
    cache: &'a Arc<ReadCache>,
    outcome: &'a ReplayOutcome,
    /// The segments that there are.
    present: &'a [FileNumber],
    last_seq: SeqNo,
}

impl Found<'_> {
    /// Recovers the window, and has the version begin the incarnation with this id.
    fn recover(&self, version: &mut Version, mut incarnation: u64) -> Result<Window> {
        let before = version.counters.history.take().map(|before| {
            let mut before = Arc::unwrap_or_clone(before);
            // Nothing that is here has a number between.
            before.from = before.from.min(self.last_seq);
            before
        });
        let is_there = |number| self.present.contains(&number);
        let (linked, begun) = match self.outcome.last {
            Some(last) => linked_before(self.store, last, SeqNo(0), is_there)?,
            None => (Vec::new(), None),
        };
        let logged = self.last_logged(&linked)?;
        let segments = self.segments(linked);
        let mut window = Window {
            // Without a window before, nobody has noted what is not in the log.
            from: match (&before, segments.first()) {
                (Some(before), Some(_)) if self.lacks(before, logged) => self.last_seq,
                (Some(before), Some(_)) if begun.is_some() => before.from,
                (Some(before), Some(oldest)) => before.from.max(oldest.base),
                _ => self.last_seq,
            },
            segments,
            files: Vec::new(),
        };
        let mut history = before.unwrap_or_default();
        self.recover_files(version, &history, &mut window)?;
        history.forget_until(window.from);
        // A simulated machine may draw the same numbers again.
        while history
            .incarnations
            .iter()
            .any(|(id, _)| *id == incarnation)
        {
            incarnation = incarnation.wrapping_add(1);
        }
        if !seeded!(IncarnationForgotten) || history.incarnations.is_empty() {
            history.incarnations.push((incarnation, self.last_seq));
        }
        version.counters.history = Some(Arc::new(history));
        Ok(window)
    }

    /// The last write that the log has.
    fn last_logged(&self, newest_first: &[Linked]) -> Result<SeqNo> {
        if self.outcome.last_seq >= self.last_seq {
            return Ok(self.last_seq);
        }
        // Recovery has not read what it does not need.
        let last = last_logged(self.store, newest_first)?;
        Ok(last.unwrap_or_default().max(self.outcome.last_seq))
    }

    /// Whether writes are neither in the log nor among the changes of the history: tables have
    /// them, and a power cut has taken the end of the log.
    fn lacks(&self, history: &History, logged: SeqNo) -> bool {
        history.lacks(logged, self.last_seq) && !seeded!(WindowWithGap)
    }

    fn segments(&self, newest_first: Vec<Linked>) -> Vec<Arc<Segment>> {
        let mut base = self.last_seq;
        let segment = |linked: Linked| {
            let before = linked.first.map(|first| SeqNo(first.0.saturating_sub(1)));
            base = before.unwrap_or(base);
            Segment::recovered(linked.end, base, linked.path)
        };
        let mut segments: Vec<_> = newest_first.into_iter().map(segment).collect();
        segments.reverse();
        segments
    }

    /// Files that are gone or damaged end the window where they were needed last.
    fn recover_files(
        &self,
        version: &Version,
        history: &History,
        window: &mut Window,
    ) -> Result<()> {
        let needed = history
            .files
            .iter()
            .filter(|(until, _)| *until > window.from);
        for (until, number) in needed.copied().collect::<Vec<_>>() {
            let listed = version.record_file(number);
            let file = match listed {
                Some(file) => Ok(Arc::clone(file)),
                None => External::open_unlisted(self.store, self.cache, number),
            };
            match file {
                Ok(file) => window.files.push(Kept {
                    until,
                    file,
                    is_orphan: listed.is_none(),
                }),
                Err(error) if error.kind() == ErrorKind::OutOfMemory => return Err(error),
                Err(_) => window.from = window.from.max(until),
            }
        }
        let from = window.from;
        window.files.retain(|kept| kept.until > from);
        Ok(())
    }
}

impl Opening<'_> {
    /// What is there for those that follow the changes, if anybody may.
    pub(super) fn window(
        &self,
        store: &Arc<FileStore>,
        cache: &Arc<ReadCache>,
        version: &mut Version,
        outcome: &ReplayOutcome,
        last_seq: SeqNo,
    ) -> Result<Window> {
        if self.options.change_window_bytes == 0 {
            version.counters.history = None;
            return Ok(Window::default());
        }
        let found = Found {
            store,
            cache,
            outcome,
            present: &recovery::wal_segments(&self.survey),
            last_seq,
        };
        found.recover(version, self.env.runtime.random_u64())
    }

    /// Puts the recovered segments before the new one, so that it is never synced before them.
    pub(super) fn keep_segments(
        &self,
        store: &FileStore,
        wal_sync: &WalSync,
        low_water: FileNumber,
        outcome: &ReplayOutcome,
        window: &Window,
    ) -> Result<()> {
        let mut kept = recovery::wal_segments(&self.survey);
        kept.retain(|n| *n >= low_water && !outcome.abandoned.contains(n));
        for number in kept {
            let path = store.dir().join(file_names::wal(number));
            let vfs = &self.env.vfs;
            // The last one counts up to where its records end, not to the end of the junk after.
            let end = match outcome.last.filter(|last| last.number == number) {
                Some(last) => last.end,
                None => vfs.len(&path).map_err(|e| Error::io("look at", &path, e))?,
            };
            let found = window.segments.iter().find(|found| found.number == number);
            // Without a window nobody asks for its uid, nor for what was before it.
            let end = SegmentEnd {
                number,
                uid: FileUid(0),
                end,
                chain: 0,
            };
            let new = || Segment::recovered(end, SeqNo(0), path);
            wal_sync.push(found.map_or_else(new, Arc::clone));
        }
        let past = window.segments.iter().filter(|it| it.number < low_water);
        let most_bytes = self.options.change_window_bytes;
        wal_sync.open_window(most_bytes, window.from, past.cloned().collect());
        Ok(())
    }
}
