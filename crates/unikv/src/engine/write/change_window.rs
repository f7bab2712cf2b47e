//! The part of the log that is kept for those that follow the changes.
//!
//! When a segment is needed by recovery no more, it comes to the window, whose oldest segments go
//! while it has more bytes than it may. What it begins with is a number: everything after it is in
//! the segments of the window and in those that are needed, in order and without a gap but for what
//! the manifest has ([`crate::version::edit::history`]).
//!
//! Invariants: a segment of the window is never written to or over. A failed append or sync ends
//! the window: what it may have left in the log is no change that anybody has seen. Locks: that of
//! the segments.

use super::wal_sync::{Segment, Segments, WalSync, Window};
use super::{Commit, WritePath};
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::partition::MemtableHandle;
use crate::version::edit::history::{History, LoggedChange};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the next records for a reader of the feed stand.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) number: FileNumber,
    pub(crate) uid: FileUid,
    pub(crate) path: PathBuf,
    /// Where its records end so far.
    pub(crate) end: u64,
    /// That is not known: they end before the first that is not whole.
    pub(crate) is_open: bool,
    /// What stands below is durable.
    pub(crate) durable: u64,
    /// Nothing is written to it any more: another segment follows.
    pub(crate) is_complete: bool,
    /// It is of an earlier process: a power cut may have taken a part of it, whose writes are in
    /// tables.
    pub(crate) is_recovered: bool,
}

impl Window {
    /// Ends it: it begins again after `last`. Returns its segments.
    pub(super) fn clear(&mut self, last: SeqNo) -> VecDeque<Arc<Segment>> {
        self.from = self.from.max(last);
        std::mem::take(&mut self.past)
    }
}

impl Segments {
    /// Takes segments that recovery does not need, and returns those that go.
    pub(super) fn pass_window(&mut self, retired: Vec<Arc<Segment>>) -> Vec<Arc<Segment>> {
        if self.window.most_bytes == 0 {
            return retired;
        }
        let mut gone = Vec::new();
        // Nothing that recovery does not need is synced any more.
        retired.iter().for_each(|segment| segment.close());
        self.window.past.extend(retired);
        loop {
            let past = self.window.past.iter();
            let bytes: u64 = past.map(|segment| segment.file_bytes()).sum();
            let is_full = bytes + self.window.file_bytes > self.window.most_bytes;
            let is_full = is_full || seeded!(WindowRecycled);
            let Some(oldest) = is_full.then(|| self.window.past.pop_front()).flatten() else {
                return gone;
            };
            gone.push(oldest);
            let next = self.window.past.front().or(self.list.front());
            if !seeded!(WindowRecycled)
                && let Some(next) = next
            {
                self.window.from = self.window.from.max(next.base);
            }
        }
    }
}

impl WritePath {
    /// What the manifest is to hold when the window ends with this number.
    pub(crate) fn window_ends(&self, last: SeqNo) -> Option<Box<History>> {
        let has_window = self.core.options.change_window_bytes > 0;
        has_window.then(|| {
            Box::new(History {
                from: last,
                ..History::default()
            })
        })
    }

    /// Makes what is about to come to the window durable, so that a power cut leaves it there. What
    /// an earlier process has written cannot be made so.
    pub(crate) fn sync_for_window(&self) {
        let is_off = self.core.options.change_window_bytes == 0;
        if is_off || self.wal_sync.has_recovered() || self.core.health.is_suspended() {
            return;
        }
        let visible = SeqNo(self.read.visible_seq.load(Ordering::Acquire));
        if let Err(error) = self.sync_log(visible) {
            self.poison_wal(&error);
        }
    }

    /// The segment that the log may begin with from now on, which is being written: if everything
    /// written is in tables, and nothing in the log is needed any more. It may be said in an edit,
    /// which puts the memtable there, and then [`WritePath::retire_below`] it.
    pub(crate) fn low_water_of_nothing(&self, commit: &Commit) -> Option<FileNumber> {
        let (_, segment) = commit.wal.as_ref()?;
        let is_in_tables =
            commit.memtable.table.is_empty() && self.read.view.load().sealed.is_empty();
        let may_begin = is_in_tables && self.wal_sync.may_begin_with(segment.number);
        may_begin.then_some(segment.number)
    }

    /// Gives up the segments below `low_water`, which is durable, but for a spare and the window.
    pub(crate) fn retire_below(&self, low_water: FileNumber) {
        let spare_bytes = self.space.full_disk.spare_bytes();
        let retired = self.wal_sync.retire_below(low_water, spare_bytes);
        self.core.store.remove_files(retired);
        if self.core.options.change_window_bytes > 0 {
            let files = &self.core.window_files;
            files.forget_until(self.wal_sync.window_from());
            self.wal_sync.note_window_files(files.bytes().0);
        }
    }

    /// What the manifest is to hold of a change, for those that follow them.
    pub(crate) fn later(&self, changes: Vec<LoggedChange>) -> Option<Box<History>> {
        if self.core.options.change_window_bytes == 0 {
            return None;
        }
        Some(Box::new(History {
            from: self.wal_sync.window_from(),
            changes,
            ..History::default()
        }))
    }

    /// Keeps the files of large values for those that follow the changes; what the manifest is to
    /// hold of them. Newest first, as the memtables are sealed.
    pub(crate) fn keep_for_feed(&self, memtables: &[MemtableHandle]) -> Option<Box<History>> {
        if self.core.options.change_window_bytes == 0 {
            return None;
        }
        let mut files = Vec::new();
        for memtable in memtables.iter().rev() {
            let large = memtable.large.all();
            let Some(until) = memtable.table.max_seq() else {
                continue;
            };
            self.core.window_files.keep(until, &large);
            files.extend(large.iter().map(|file| (until, file.meta().number)));
        }
        let (until, _) = *files.last()?;
        Some(Box::new(History {
            // No further than the tables reach: a crash may take the rest.
            from: self.wal_sync.window_from().min(until),
            files,
            ..History::default()
        }))
    }
}

impl WalSync {
    /// Opens a window of this many bytes, which has these segments, oldest first, and begins after
    /// `from`.
    pub(crate) fn open_window(&self, most_bytes: u64, from: SeqNo, past: Vec<Arc<Segment>>) {
        let mut segments = self.segments.lock();
        segments.window.most_bytes = most_bytes;
        segments.window.from = from;
        segments.window.past = past.into();
    }

    /// After which number the window begins.
    pub(crate) fn window_from(&self) -> SeqNo {
        self.segments.lock().window.from
    }

    /// The files of large values that the window keeps have this many bytes.
    pub(crate) fn note_window_files(&self, bytes: u64) {
        self.segments.lock().window.file_bytes = bytes;
    }

    /// The segment that has what comes after `seq`: the last that begins at or before it. Others
    /// that begin there have nothing that comes after it, and may be damaged. `after`: the one that
    /// follows that segment instead. With it, after which number the window begins.
    pub(crate) fn place(&self, seq: SeqNo, after: Option<FileNumber>) -> (SeqNo, Option<Place>) {
        let segments = self.segments.lock();
        let all = || segments.window.past.iter().chain(&segments.list);
        let found = match after {
            Some(number) => all().find(|segment| segment.number > number),
            None => {
                let begins = all().filter(|segment| segment.base <= seq);
                // After a failure of the log, numbers are left out that nothing has.
                begins.max_by_key(|it| it.base).or(all().next())
            }
        };
        let place = found.map(|segment| {
            let newest = segments.list.back();
            let is_past = segments
                .list
                .front()
                .is_none_or(|s| segment.number < s.number);
            let end = segment.end.load(Ordering::Acquire);
            Place {
                number: segment.number,
                uid: segment.uid,
                path: segment.path().to_owned(),
                end,
                is_open: false,
                durable: if is_past {
                    end
                } else {
                    segment.durable.load(Ordering::Relaxed)
                },
                is_recovered: segment.is_recovered,
                is_complete: newest.is_some_and(|newest| newest.number != segment.number),
            }
        });
        (segments.window.from, place)
    }

    /// The same of a segment by its number, if it is there.
    pub(crate) fn place_of(&self, number: FileNumber) -> (SeqNo, Option<Place>) {
        let before = FileNumber(number.0.saturating_sub(1));
        let (from, place) = self.place(SeqNo(0), Some(before));
        (from, place.filter(|place| place.number == number))
    }
}
