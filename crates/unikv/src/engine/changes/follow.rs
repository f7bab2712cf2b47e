//! Following the changes from a token on.
//!
//! What is visible is looked at first, then the log is read, by the rules of [`super::source`]. So
//! each number up to the look is in the log, in the manifest, or nowhere. Where a record may not be
//! shown yet, nothing that comes after it is, of the manifest neither.

use super::decode::{Change, bytes_of, of_logged, of_write};
use super::records::{Found, open_end, torn, within};
use super::source::{Look, Source, Verdict, gone};
use super::token::ChangeToken;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::engine::write::change_window::Place;
use crate::error::{Error, Result};
use crate::log::wal::KIND_WRITE;
use crate::log::{LogReader, WalWrite};
use crate::version::edit::history::LoggedChange;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// Changes are read from the log until they have this many bytes, and one more.
const BATCH_BYTES: usize = 256 << 10;
/// How often a wait looks again at once for what is read: writers may come and go all the time.
const MOST_REFRESHES: u32 = 16;
/// By how much each of these comes later than the one before: a writer may just be opening.
const REST: Duration = Duration::from_micros(100);

/// Which changes [`Db::changes_with`](crate::Db::changes_with) shows.
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
    source: Box<dyn Source>,
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

impl Changes {
    /// The changes of `source` after `seq`.
    pub(crate) fn begin(
        source: Box<dyn Source>,
        seq: SeqNo,
        options: ChangesOptions,
    ) -> Result<Changes> {
        let mut changes = Changes {
            source,
            options,
            handed_out: seq,
            read: seq,
            queue: VecDeque::new(),
            current: None,
        };
        // What is not there any more is said at once.
        changes.check_kept()?;
        Ok(changes)
    }

    /// The next change, if there is one now.
    ///
    /// # Errors
    /// `HistoryGone` if the changes after [`Changes::token`] are not kept any more; `Corruption` or
    /// `Io` if the log or a large value cannot be read; `Closed`. It may be tried again.
    pub fn try_next(&mut self) -> Result<Option<Change>> {
        self.next(0)
    }

    /// The next change. It refreshes the source so often at most, where that has moved on.
    fn next(&mut self, refreshes: u32) -> Result<Option<Change>> {
        self.source.core().check_open()?;
        if self.queue.is_empty() {
            let core = Arc::clone(self.source.core());
            let filled = self.fill(refreshes);
            filled.map_err(|error| core.unless_closed(error))?;
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
    /// Errors as [`Changes::try_next`]; closing the database ends the wait with `Closed`. The wait
    /// of a secondary refreshes it, and fails where that fails.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Change>> {
        self.wait(Some(timeout))
    }

    /// The next change, however long that takes. What shows, and errors, as
    /// [`Changes::next_timeout`].
    pub fn wait_next(&mut self) -> Result<Change> {
        self.wait(None)?.ok_or_else(Error::closed)
    }

    fn wait(&mut self, most: Option<Duration>) -> Result<Option<Change>> {
        let core = Arc::clone(self.source.core());
        let period = self.source.poll_period();
        core.follow(most, period, || {
            let next = self.next(0)?;
            if next.is_some() || period.is_none() {
                return Ok(next);
            }
            self.source.refresh()?;
            self.next(MOST_REFRESHES)
        })
    }

    /// Everything up to this token has been handed out.
    pub fn token(&self) -> ChangeToken {
        self.token_at(self.handed_out)
    }

    /// Fails if what follows is not kept any more.
    fn check_kept(&mut self) -> Result<()> {
        self.trying(|it| {
            it.source.look(it.read)?;
            it.find_place().map(drop)
        })
    }

    /// Reads the next changes into the queue.
    fn fill(&mut self, refreshes: u32) -> Result<()> {
        let mut left = refreshes;
        loop {
            let filled = self.trying(|it| match it.read_on() {
                // What was read before it is handed out first.
                Err(_) if !it.queue.is_empty() => Ok(()),
                read => read,
            });
            if self.source.is_same()? {
                return filled;
            }
            // Another log has perhaps taken the place of the one that was looked at.
            self.queue.clear();
            (self.read, self.current) = (self.handed_out, None);
            let Some(fewer) = left.checked_sub(1) else {
                return Ok(());
            };
            let rest = REST * (refreshes - left);
            self.source.core().store.env().runtime.delay(rest);
            left = fewer;
            self.source.refresh()?;
        }
    }

    /// Calls `step`, again where files have moved on meanwhile.
    fn trying(&mut self, mut step: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let mut tries = 0;
        loop {
            let Err(error) = step(self) else {
                return Ok(());
            };
            let current = mem::take(&mut self.current);
            let place = current.as_ref().map(|(place, _)| place);
            match self.source.judge(error, self.read, place, tries) {
                Verdict::Gone => return Err(gone()),
                Verdict::Failed(error) => return Err(error),
                Verdict::Again => tries += 1,
                Verdict::Later => return Ok(()),
            }
        }
    }

    fn read_on(&mut self) -> Result<()> {
        let look = self.source.look(self.read)?;
        let history = look.history.as_ref();
        if history.is_some_and(|history| self.read < history.from) {
            return Err(gone());
        }
        if let Some((_, reader)) = self.current.as_mut().filter(|(place, _)| place.is_open) {
            reader.reload()?;
        }
        let logged = history
            .map(|history| &history.changes[..])
            .unwrap_or_default();
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let next = self.next_record(&look)?;
            let until = match &next {
                Next::Record(change) => SeqNo(change.token.seq),
                Next::NotYet(before) => look.visible.min(*before),
                Next::End => look.visible,
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
            incarnation: self.source.incarnation(),
            seq: seq.0,
        }
    }

    /// The next record of the log.
    fn next_record(&mut self, look: &Look) -> Result<Next> {
        loop {
            if self.read >= look.logged {
                return Ok(Next::End);
            }
            let Some((place, mut reader)) = self.find_place()? else {
                return Ok(Next::End);
            };
            let read = if place.is_open {
                open_end(&mut reader)?
            } else {
                reader.read_until(place.end);
                within(&mut reader, &place)?
            };
            let Some(Found {
                begin,
                end,
                kind,
                payload,
            }) = read
            else {
                if place.is_open {
                    self.check_end(look, &place, &mut reader)?;
                }
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
            let is_durable = end <= place.durable || last <= look.flushed.max(look.durable);
            let is_shown = is_durable || self.options.include_unsynced;
            if last > look.logged || !(is_shown || seeded!(FeedShowsUnsynced)) {
                reader.go_back_to(begin);
                self.current = Some((place, reader));
                return Ok(Next::NotYet(before));
            }
            let change = if last > self.read {
                let core = self.source.core();
                Some(of_write(core, &place.path, self.token_at(last), &write))
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

    /// Fails unless the log ends where `reader` stands, for now.
    fn check_end(&self, look: &Look, place: &Place, reader: &mut LogReader) -> Result<()> {
        let at = reader.offset();
        if self.read < look.last || !self.source.has_ended(reader)? {
            return Err(torn(place, at, "the log ends early"));
        }
        Ok(())
    }

    /// The segment to read on in, as it is now. `None`: there is none.
    fn find_place(&mut self) -> Result<Option<(Place, LogReader)>> {
        let found = self.current.as_ref().map(|(place, _)| place.number);
        let (mut from, mut place) = match found {
            Some(number) => self.source.place_of(self.read, number)?,
            None => (SeqNo(0), None),
        };
        if place.is_none() {
            // At first, or the window has gone on since all of the segment was read.
            self.current = None;
            (from, place) = self.source.place(self.read, None)?;
        }
        if self.read < from {
            return Err(gone());
        }
        // None while the log begins again: then nothing has been written since.
        let Some(place) = place else {
            return Ok(None);
        };
        let reader = match self.current.take() {
            Some((_, reader)) if reader.uid() == place.uid => reader,
            _ => self.open(&place)?,
        };
        Ok(Some((place, reader)))
    }

    fn open(&self, place: &Place) -> Result<LogReader> {
        let vfs = &*self.source.core().store.env().vfs;
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
        let (from, next) = self.source.place(self.read, Some(place.number))?;
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
