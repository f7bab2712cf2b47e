//! Following the changes from a token on.
//!
//! What is visible is looked at first, then what is durable, and then the log is read. So each
//! number up to the first look is in the log below the second, in the manifest, or nowhere. Where a
//! record may not be shown yet, nothing that comes after it is, of the manifest neither.

use super::decode::{Change, bytes_of, of_logged, of_write};
use super::feed::ChangeFeed;
use super::token::ChangeToken;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::engine::write::change_window::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::log::wal::KIND_WRITE;
use crate::log::{LogItem, LogReader, WalWrite};
use crate::version::edit::history::LoggedChange;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// Changes are read from the log until they have this many bytes, and one more.
const BATCH_BYTES: usize = 256 << 10;

/// Which changes [`Db::changes_since`](crate::Db::changes_since) shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesOptions {
    include_unsynced: bool,
}

impl ChangesOptions {
    /// Shows what is visible at once, and not only what a power cut cannot take any more. After one
    /// that has taken something, the token is refused. Default: no.
    #[must_use]
    pub fn include_unsynced(mut self, yes: bool) -> ChangesOptions {
        self.include_unsynced = yes;
        self
    }
}

/// The changes of a database from a token on, in their order: see
/// [`Db::changes_since`](crate::Db::changes_since).
///
/// It keeps nothing of the database. If it lags by more than
/// [`Options::change_window_bytes`](crate::Options::change_window_bytes), it fails with
/// [`HistoryGone`](crate::ErrorKind::HistoryGone). It holds about 256 KiB of changes, and a batch
/// or a large value more.
pub struct Changes {
    feed: Arc<ChangeFeed>,
    options: ChangesOptions,
    /// Everything up to this has been handed out.
    handed_out: SeqNo,
    /// Everything up to this has been read.
    read: SeqNo,
    queue: VecDeque<Change>,
    /// The segment that is read.
    current: Option<(Place, LogReader)>,
}

/// What comes next in the log.
enum Next {
    Record(Change),
    /// A record that may not be shown yet. What is not in the log may be shown up to this number.
    NotYet(SeqNo),
    /// There is no more.
    End,
}

impl ChangeFeed {
    /// The changes after a token.
    pub(crate) fn since(
        self: &Arc<Self>,
        token: ChangeToken,
        options: ChangesOptions,
    ) -> Result<Changes> {
        let seq = self.position(token)?;
        let mut changes = Changes {
            feed: Arc::clone(self),
            options,
            handed_out: seq,
            read: seq,
            queue: VecDeque::new(),
            current: None,
        };
        // What is not there any more is said at once.
        changes.find_place()?;
        Ok(changes)
    }
}

impl Changes {
    /// The next change, if there is one now.
    ///
    /// # Errors
    /// `HistoryGone` if the changes after [`Changes::token`] are not kept any more; `Corruption` or
    /// `Io` if the log or a large value cannot be read; `Closed`. It may be tried again.
    pub fn try_next(&mut self) -> Result<Option<Change>> {
        self.feed.core.check_open()?;
        if self.queue.is_empty() {
            let feed = Arc::clone(&self.feed);
            let filled = self.fill();
            filled.map_err(|error| feed.core.unless_closed(error))?;
        }
        let next = self.queue.pop_front();
        if let Some(next) = &next {
            self.handed_out = SeqNo(next.token.seq);
        }
        Ok(next)
    }

    /// The next change; waits for one, but not longer than `timeout`. `None`: there was none. A
    /// write that a power cut could still take is none yet, unless
    /// [`ChangesOptions::include_unsynced`] asks for it: with
    /// [`Durability::Buffered`](crate::Durability::Buffered) it shows after the next sync or flush.
    /// Errors as [`Changes::try_next`]; closing the database ends the wait with `Closed`.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Change>> {
        let feed = Arc::clone(&self.feed);
        feed.core.follow(Some(timeout), || self.try_next())
    }

    /// The next change, however long that takes. What shows, and errors, as
    /// [`Changes::next_timeout`].
    pub fn wait_next(&mut self) -> Result<Change> {
        let feed = Arc::clone(&self.feed);
        let next = feed.core.follow(None, || self.try_next())?;
        next.ok_or_else(Error::closed)
    }

    /// Everything up to this token has been handed out.
    pub fn token(&self) -> ChangeToken {
        ChangeToken {
            incarnation: self.feed.incarnation().unwrap_or_default(),
            seq: self.handed_out.0,
        }
    }

    /// Reads the next changes into the queue.
    fn fill(&mut self) -> Result<()> {
        let visible = self.feed.visible();
        let view = self.feed.read.view.load_full();
        let history = view.version.counters.history.as_ref();
        if history.is_some_and(|history| self.read < history.from) {
            return Err(gone());
        }
        let logged = history
            .map(|history| &history.changes[..])
            .unwrap_or_default();
        let flushed = view.version.counters.flushed_seq;
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let next = match self.next_record(visible, flushed) {
                Err(error) => {
                    // What was read before it is handed out first.
                    return if self.queue.is_empty() {
                        Err(self.or_gone(error))
                    } else {
                        Ok(())
                    };
                }
                Ok(next) => next,
            };
            let until = match &next {
                Next::Record(change) => SeqNo(change.token.seq),
                Next::NotYet(before) => visible.min(*before),
                Next::End => visible,
            };
            for change in between(logged, self.read, until) {
                bytes += self.push(of_logged(self.token_at(change.seq), change));
            }
            let Next::Record(record) = next else {
                return Ok(());
            };
            bytes += self.push(record);
        }
        Ok(())
    }

    fn push(&mut self, change: Change) -> usize {
        self.read = SeqNo(change.token.seq);
        let bytes = bytes_of(&change);
        self.queue.push_back(change);
        bytes
    }

    fn token_at(&self, seq: SeqNo) -> ChangeToken {
        ChangeToken {
            seq: seq.0,
            ..self.token()
        }
    }

    /// The next record of the log.
    fn next_record(&mut self, visible: SeqNo, flushed: SeqNo) -> Result<Next> {
        loop {
            let Some((place, mut reader)) = self.find_place()? else {
                return Ok(Next::End);
            };
            reader.read_until(place.end);
            let (begin, read) = match reader.next()? {
                LogItem::Record {
                    offset,
                    end,
                    kind,
                    payload,
                    ..
                } => {
                    let is_durable = end <= place.durable || self.options.include_unsynced;
                    (offset, Some((kind, payload, is_durable)))
                }
                LogItem::Bad { offset, reason } => return Err(torn(&place, offset, reason)),
                LogItem::End { offset } if offset < place.end => {
                    return Err(torn(&place, offset, "the log ends early"));
                }
                LogItem::End { offset } => (offset, None),
            };
            let Some((kind, payload, is_durable)) = read else {
                self.current = Some((place, reader));
                if !self.go_on()? {
                    return Ok(Next::End);
                }
                continue;
            };
            if kind != KIND_WRITE {
                self.current = Some((place, reader));
                continue;
            }
            let write = WalWrite::decode(payload).map_err(|bad| bad.at(&place.path, begin))?;
            let (before, last) = (SeqNo(write.base_seq.0.saturating_sub(1)), write.last_seq());
            let is_durable = is_durable || last <= flushed || seeded!(FeedShowsUnsynced);
            if last > visible || !is_durable {
                reader.go_back_to(begin);
                self.current = Some((place, reader));
                return Ok(Next::NotYet(before));
            }
            let change = if last > self.read {
                Some(of_write(
                    &self.feed.core,
                    &place.path,
                    self.token_at(last),
                    &write,
                ))
            } else {
                None
            };
            if matches!(change, Some(Err(_))) {
                reader.go_back_to(begin);
            }
            self.current = Some((place, reader));
            if let Some(change) = change {
                return change.map(Next::Record);
            }
        }
    }

    /// The segment to read on in, as it is now. `None`: there is none.
    fn find_place(&mut self) -> Result<Option<(Place, LogReader)>> {
        let wal_sync = &self.feed.write.wal_sync;
        let found = self.current.as_ref();
        let (mut from, mut place) = found.map_or((SeqNo(0), None), |(place, _)| {
            wal_sync.place_of(place.number)
        });
        if place.is_none() {
            // At first, or the window has gone on since all of the segment was read.
            self.current = None;
            (from, place) = wal_sync.place(self.read, None);
        }
        if self.read < from {
            return Err(gone());
        }
        // None while the log begins again: then nothing has been written since.
        let Some(place) = place else {
            return Ok(None);
        };
        let reader = match self.current.take() {
            Some((_, reader)) => reader,
            None => self.open(&place)?,
        };
        Ok(Some((place, reader)))
    }

    fn open(&self, place: &Place) -> Result<LogReader> {
        let vfs = &*self.feed.core.store.env().vfs;
        let file = (place.number, place.uid);
        LogReader::open_at(vfs, &place.path, file, HEADER_LEN as u64)
    }

    /// Goes on in the next segment, if the one that is read has ended.
    fn go_on(&mut self) -> Result<bool> {
        let Some((place, _)) = &self.current else {
            return Ok(false);
        };
        if !place.is_complete {
            return Ok(false);
        }
        let wal_sync = &self.feed.write.wal_sync;
        let (from, next) = wal_sync.place(self.read, Some(place.number));
        if self.read < from {
            return Err(gone());
        }
        let Some(next) = next else {
            return Ok(false);
        };
        let reader = self.open(&next)?;
        self.current = Some((next, reader));
        Ok(true)
    }

    /// What has failed because the window has gone on meanwhile.
    fn or_gone(&mut self, error: Error) -> Error {
        let current = mem::take(&mut self.current);
        let wal_sync = &self.feed.write.wal_sync;
        let is_damage = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io);
        let is_there = |place: &Place| wal_sync.place_of(place.number).1.is_some();
        let has_gone = self.read < wal_sync.window_from()
            || current.as_ref().is_some_and(|(place, _)| !is_there(place));
        if is_damage && has_gone { gone() } else { error }
    }
}

fn gone() -> Error {
    Error::history_gone("the changes after the token are not kept any more")
}

/// What stands at `offset` is no record.
fn torn(place: &Place, offset: u64, reason: &str) -> Error {
    if place.is_recovered {
        Error::history_gone("a crash has taken a part of the log after the token")
    } else {
        Error::corruption(&place.path, offset, reason)
    }
}

/// Those after `from`, up to `until`.
fn between(all: &[LoggedChange], from: SeqNo, until: SeqNo) -> &[LoggedChange] {
    let start = all.partition_point(|change| change.seq <= from);
    let end = all.partition_point(|change| change.seq <= until);
    all.get(start..end).unwrap_or_default()
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
