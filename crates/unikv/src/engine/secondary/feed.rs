//! What a secondary knows of the log, as a source of changes ([`crate::engine::changes`]).
//!
//! Invariants:
//! - Nothing is shown beyond the state that the secondary shows.
//! - The segments are linked, back from the newest, which is looked for after the state was made:
//!   they have all that the state has, down to the oldest that is there. One that begins a log
//!   counts once the state has the edits before it, which say what is given up.
//! - A segment ends where its successor says; the newest, before the first record that is not whole
//!   in a file that still has the header that it had.
//! - Durable is what tables have, what the writer's page says, and what log and manifest claim.
//! - Once another process writes, or none, what was read is dropped ([`Source::is_same`]).

use super::Follow;
use super::shared::{LogOf, ShownLog};
use crate::base::file_header::{FileHeader, FileKind};
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::engine::changes::{ChangeToken, Changes, ChangesOptions};
use crate::engine::changes::{Look, Source, Verdict, is_off, position};
use crate::engine::core::Core;
use crate::engine::open::recovery::wal_segments;
use crate::engine::write::change_window::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::log::replay::{Linked, last_logged, linked_before, newest};
use crate::log::{LogReader, SegmentEnd};
use crate::version::edit::history::History;
use crate::version::file_names;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A reader that waits looks again after this time.
const POLL_PERIOD: Duration = Duration::from_millis(20);
/// How often what could not be read is read again.
const MOST_TRIES: u32 = 8;

impl Follow {
    /// The changes after a token.
    pub(crate) fn changes(
        self: &Arc<Self>,
        token: ChangeToken,
        options: ChangesOptions,
    ) -> Result<Changes> {
        self.core().check_open()?;
        let begin = || {
            let feed = Feed::of(self);
            let known = feed.known()?;
            let seq = position(&known.history.incarnations, token, known.visible)?;
            Changes::begin(Box::new(feed), seq, options)
        };
        match begin() {
            // The token may be of what the writer has made visible since.
            Err(error) if error.kind() == ErrorKind::HistoryGone => {
                self.refresh()?;
                begin()
            }
            begun => begun,
        }
    }

    /// The token of all that is shown.
    pub(crate) fn change_token(self: &Arc<Self>) -> Result<ChangeToken> {
        self.core().check_open()?;
        let feed = Feed::of(self);
        Ok(feed.token(feed.known()?.visible))
    }

    /// The token after which all is kept that is.
    pub(crate) fn oldest_change_token(self: &Arc<Self>) -> Result<ChangeToken> {
        self.core().check_open()?;
        let mut tries = 0;
        loop {
            let mut feed = Feed::of(self);
            let found = feed.place(SeqNo(0), None);
            if !feed.is_same()? && tries < MOST_TRIES {
                self.refresh()?;
                tries += 1;
                continue;
            }
            match found {
                Ok((from, _)) => return Ok(feed.token(from)),
                Err(error) if tries == MOST_TRIES => return Err(error),
                Err(error) => match feed.judge(error, SeqNo::MAX, None, tries) {
                    Verdict::Failed(error) => return Err(error),
                    Verdict::Later | Verdict::Gone => self.refresh()?,
                    Verdict::Again => {}
                },
            }
            tries += 1;
        }
    }
}

/// A segment of the log.
struct Segment {
    number: FileNumber,
    uid: FileUid,
    path: PathBuf,
    /// Everything up to this number was before it. The greatest: neither it nor one after it has a
    /// write.
    base: SeqNo,
    /// `None`: it is being written.
    end: Option<u64>,
}

/// The segments, oldest first, as they are linked.
struct Chain {
    /// The names in the directory by which they were found. `None`: another is just being begun.
    names: Option<Vec<FileNumber>>,
    /// For whom they were found: for one who has seen everything up to here.
    reader: SeqNo,
    /// After which number everything is there.
    from: SeqNo,
    /// The log was given up and begun again since the state was made.
    is_later: bool,
    segments: Vec<Segment>,
}

/// What a reader of the feed of a secondary reads.
struct Feed {
    follow: Arc<Follow>,
    /// Of the state that was looked at last.
    log: Arc<ShownLog>,
    incarnation: u64,
    chain: Option<Chain>,
    /// Whether the chain was compared with the directory since the last look.
    is_compared: bool,
}

/// The segments, oldest first, of those that are linked, newest first. `is_open`: the newest is
/// being written.
fn segments_of(linked: Vec<Linked>, is_open: bool) -> Vec<Segment> {
    let mut base = SeqNo::MAX;
    let newest_first = linked.into_iter().enumerate().map(|(nth, linked)| {
        let before = linked.first.map(|first| SeqNo(first.0.saturating_sub(1)));
        base = before.unwrap_or(base);
        let SegmentEnd {
            number, uid, end, ..
        } = linked.end;
        Segment {
            number,
            uid,
            path: linked.path,
            base,
            end: (nth > 0 || !is_open).then_some(end),
        }
    });
    let mut segments: Vec<_> = newest_first.collect();
    segments.reverse();
    segments
}

/// What a state says of its changes.
struct Known {
    history: Arc<History>,
    visible: SeqNo,
}

impl Feed {
    fn of(follow: &Arc<Follow>) -> Feed {
        let log = Arc::clone(&follow.shown().log);
        Feed {
            follow: Arc::clone(follow),
            incarnation: incarnation_of(&log).unwrap_or_default(),
            log,
            chain: None,
            is_compared: false,
        }
    }

    fn known(&self) -> Result<Known> {
        let history = self.log.history.clone().ok_or_else(is_off)?;
        // As an opening does: numbers of changes that no record of the log has.
        let vouched = match &self.log.of {
            LogOf::Writer(_) => SeqNo(0),
            LogOf::Nobody(..) => history.vouched(),
        };
        Ok(Known {
            visible: self.log.seq.max(vouched),
            history,
        })
    }

    fn token(&self, seq: SeqNo) -> ChangeToken {
        ChangeToken {
            incarnation: self.incarnation,
            seq: seq.0,
        }
    }

    /// The segments as they are now, back to the one that has what comes after `seq`.
    fn chain(&mut self, seq: SeqNo) -> Result<&Chain> {
        let is_known = |chain: &Chain| self.is_compared && chain.reader <= seq;
        if !self.chain.as_ref().is_some_and(is_known) {
            let store = &self.follow.core().store;
            let names = wal_segments(&file_names::survey(&*store.env().vfs, store.dir())?);
            let is_same = |it: &Chain| it.reader <= seq && it.names.as_ref() == Some(&names);
            if !self.chain.as_ref().is_some_and(is_same) {
                self.chain = Some(self.find_chain(names, seq)?);
            }
            self.is_compared = true;
        }
        let none = || Error::internal("a log that was not looked for");
        self.chain.as_ref().ok_or_else(none)
    }

    fn find_chain(&self, names: Vec<FileNumber>, seq: SeqNo) -> Result<Chain> {
        let store = &self.follow.core().store;
        let Known { history, visible } = self.known()?;
        let log = &self.log;
        let (last, is_settled, is_open) = match &log.of {
            LogOf::Writer(_) => {
                let (last, is_settled) = newest(store, &names)?;
                (last, is_settled, true)
            }
            LogOf::Nobody(_, last) => (*last, true, false),
        };
        let (mut segments, mut begun) = (Vec::new(), None);
        let mut lacks = last.is_none();
        if let Some(last) = last {
            let linked;
            (linked, begun) = linked_before(store, last, seq, |n| names.contains(&n))?;
            if !is_open {
                let logged = last_logged(store, &linked)?.unwrap_or_default();
                lacks = history.lacks(logged.max(log.last), visible);
            }
            segments = segments_of(linked, is_open);
        }
        let oldest = segments.first().filter(|_| !lacks);
        let base = oldest.map(|it| it.base).filter(|base| *base < SeqNo::MAX);
        let base = history.before_changes(base.unwrap_or(visible));
        // What will come before its first write is not known of a newer segment than the state.
        let is_known = segments.last().is_some_and(|it| it.base < SeqNo::MAX);
        let is_later = is_open && begun.is_some_and(|edits| edits > log.edits);
        Ok(Chain {
            names: (is_settled && is_known && !is_later).then_some(names),
            reader: seq,
            from: match oldest {
                Some(_) if begun.is_some() => history.from,
                Some(_) => history.from.max(base),
                None => visible,
            },
            is_later,
            segments,
        })
    }
}

impl Source for Feed {
    fn core(&self) -> &Arc<Core> {
        self.follow.core()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn look(&mut self, read: SeqNo) -> Result<Look> {
        let log = Arc::clone(&self.follow.shown().log);
        self.is_compared = false;
        if !Arc::ptr_eq(&log, &self.log) && !is_same_log(&log.of, &self.log.of) {
            self.chain = None;
        }
        self.log = log;
        let Known { history, visible } = self.known()?;
        // The numbers of another incarnation are the same only up to where the two part.
        let of_read = self.token(read);
        position(&history.incarnations, of_read, visible)?;
        self.incarnation = incarnation_of(&self.log).unwrap_or_default();
        let log = &self.log;
        let durable = match &log.of {
            LogOf::Writer(page) => page.durable(),
            LogOf::Nobody(..) => SeqNo(0),
        };
        Ok(Look {
            visible,
            logged: log.logged,
            flushed: log.flushed,
            durable,
            last: log.last,
            history: Some(history),
        })
    }

    fn place(&mut self, seq: SeqNo, after: Option<FileNumber>) -> Result<(SeqNo, Option<Place>)> {
        let log = Arc::clone(&self.log);
        let chain = self.chain(seq)?;
        if chain.is_later {
            let what = "the log was begun again";
            return Err(Error::corruption(self.core().store.dir(), 0, what));
        }
        let from = chain.from;
        let all = &chain.segments;
        let at = match after {
            Some(number) => all.partition_point(|segment| segment.number <= number),
            // The last that begins at or before it.
            None => all.partition_point(|it| it.base <= seq).saturating_sub(1),
        };
        let place = all.get(at).map(|segment| Place {
            number: segment.number,
            uid: segment.uid,
            path: segment.path.clone(),
            end: segment.end.unwrap_or(u64::MAX),
            is_open: segment.end.is_none(),
            durable: durable(&log, segment),
            is_complete: at + 1 < all.len(),
            // What that means here, `judge` knows.
            is_recovered: false,
        });
        Ok((from, place))
    }

    fn has_ended(&self, reader: &mut LogReader) -> Result<bool> {
        let store = &self.follow.core().store;
        reader.reload()?;
        let (number, uid) = (reader.number(), reader.uid());
        let header = reader.header_bytes()?;
        let database = Some(store.database());
        let header = FileHeader::decode(header, FileKind::Wal, database, store.dir());
        Ok(header.is_ok_and(|header| (header.number, header.uid) == (number, uid)))
    }

    fn is_same(&self) -> Result<bool> {
        self.follow.is_of(&self.log)
    }

    fn judge(&mut self, error: Error, read: SeqNo, _: Option<&Place>, tries: u32) -> Verdict {
        let is_damage = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io);
        if !is_damage {
            return Verdict::Failed(error);
        }
        let vfs = &self.follow.core().store.env().vfs;
        let is_missing =
            |path| matches!(vfs.len(path), Err(e) if e.kind() == io::ErrorKind::NotFound);
        let is_log = |path: &Path| path.extension().is_some_and(|it| it == "wal");
        let of_large = error.file().filter(|path| !is_log(path));
        if of_large.is_some_and(is_missing) {
            return Verdict::Gone;
        }
        let is_torn = error.kind() == ErrorKind::Corruption && of_large.is_none();
        self.chain = None;
        match self.chain(read) {
            Ok(chain) if chain.is_later => return Verdict::Later,
            Ok(chain) if read < chain.from => return Verdict::Gone,
            _ if tries < MOST_TRIES => return Verdict::Again,
            _ => {}
        }
        // A power cut may have taken a part of what recovery does not need.
        let low_water = self.log.low_water;
        let segments = self.chain.iter().flat_map(|chain| &chain.segments);
        let mut unneeded = segments.take_while(|segment| segment.number < low_water);
        if is_torn && unneeded.any(|segment| error.file() == Some(&*segment.path)) {
            return Verdict::Gone;
        }
        Verdict::Failed(error)
    }

    fn refresh(&mut self) -> Result<()> {
        self.follow.refresh()
    }

    fn poll_period(&self) -> Option<Duration> {
        Some(POLL_PERIOD)
    }
}

/// The incarnation of the state, which a later opening knows.
fn incarnation_of(log: &ShownLog) -> Option<u64> {
    let newest = log.history.as_ref()?.incarnations.last();
    newest.map(|(id, _)| *id)
}

/// What is known to be durable of a segment.
fn durable(log: &ShownLog, segment: &Segment) -> u64 {
    match log.claimed {
        Some(point) if point.file > segment.number => u64::MAX,
        Some(point) if point.file == segment.number => point.offset,
        _ => 0,
    }
}

/// Whether segments that were found for one are those of the other.
fn is_same_log(one: &LogOf, other: &LogOf) -> bool {
    match (one, other) {
        (LogOf::Writer(one), LogOf::Writer(other)) => one.uid() == other.uid(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
