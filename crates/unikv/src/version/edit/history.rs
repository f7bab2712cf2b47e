//! What the manifest holds for the change feed: the incarnations of the database, the changes that
//! are no records of the log, and the files of large values that the window of the log names.
//!
//! Invariants: incarnations are in the order in which they began; each begins with the last number
//! of the one before that this history has. Changes ascend by number, and so do files. Everything
//! after [`History::from`] is here, as far as it is of these kinds; the last change is here however
//! old it is, so that its number is never given again. No locks.

use super::super::tagged::{FieldWriter, Fields, Place};
use super::entries::seq;
use crate::base::keys::{FileNumber, SeqNo};
use crate::error::Result;

/// Changes that are kept; of more, the oldest go.
const MOST_CHANGES: usize = 4096;
/// Incarnations that are kept.
const MOST_INCARNATIONS: usize = 256;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// What came up to this number may be missing here.
    pub(crate) from: SeqNo,
    /// Each with the last number before it.
    pub(crate) incarnations: Vec<(u64, SeqNo)>,
    pub(crate) changes: Vec<LoggedChange>,
    /// Record files that only the window may need, with the last write that may name it.
    pub(crate) files: Vec<(SeqNo, FileNumber)>,
}

/// A change that is no record of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedChange {
    pub(crate) seq: SeqNo,
    pub(crate) kind: ChangeKind,
    /// What stands before the keys of the keyspace that has changed.
    pub(crate) keyspace: u32,
    /// What stands there from now on, where that is something else.
    pub(crate) now: Option<u32>,
    /// The name of the keyspace, where it has got one.
    pub(crate) name: Option<Vec<u8>>,
    /// The least and the greatest key of an ingest, without keyspace.
    pub(crate) keys: Option<(Vec<u8>, Vec<u8>)>,
    /// The commit tag of an ingest.
    pub(crate) commit_tag: Option<Vec<u8>>,
}

/// The numbers are in the files and never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ChangeKind {
    #[default]
    Ingest = 1,
    Made = 2,
    Renamed = 3,
    Options = 4,
    Emptied = 5,
    Dropped = 6,
}

impl ChangeKind {
    fn of(number: u64) -> Option<ChangeKind> {
        use ChangeKind::{Dropped, Emptied, Ingest, Made, Options, Renamed};
        let all = [Ingest, Made, Renamed, Options, Emptied, Dropped];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

mod tag {
    pub(super) const FROM: u16 = 1;
    pub(super) const INCARNATION: u16 = 2;
    pub(super) const CHANGE: u16 = 3;
    pub(super) const FILE: u16 = 4;
    pub(super) const LAST: u16 = FILE;
}

mod change {
    pub(super) const SEQ: u16 = 1;
    pub(super) const KIND: u16 = 2;
    pub(super) const KEYSPACE: u16 = 3;
    pub(super) const NOW: u16 = 4;
    pub(super) const NAME: u16 = 5;
    pub(super) const FIRST: u16 = 6;
    pub(super) const LAST_KEY: u16 = 7;
    pub(super) const COMMIT_TAG: u16 = 8;
    pub(super) const LAST: u16 = COMMIT_TAG;
}

impl History {
    /// Adds what came later, and forgets what the later one does not promise.
    pub(crate) fn add(&mut self, later: &History) {
        self.from = self.from.max(later.from);
        self.incarnations.extend_from_slice(&later.incarnations);
        self.changes.extend_from_slice(&later.changes);
        self.files.extend_from_slice(&later.files);
        self.shorten();
    }

    /// Forgets what came up to `from`.
    pub(crate) fn forget_until(&mut self, from: SeqNo) {
        self.from = self.from.max(from);
        self.shorten();
    }

    fn shorten(&mut self) {
        if let Some(more) = self.changes.len().checked_sub(MOST_CHANGES)
            && let Some(last) = self.changes.iter().take(more).next_back()
        {
            self.from = self.from.max(last.seq);
        }
        let from = self.from;
        // The last one stays for its number, which nothing else may have on the disk.
        let last = self.changes.last().map(|last| last.seq);
        self.changes
            .retain(|change| change.seq > from || Some(change.seq) == last);
        self.files.retain(|(seq, _)| *seq > from);
        let more = self.incarnations.len().saturating_sub(MOST_INCARNATIONS);
        self.incarnations.drain(..more);
    }

    /// The last number that is vouched for here: of a change, or where an edit of the last
    /// incarnation had the window begin. The numbers of incarnations may be of writes that were
    /// found in the log once and are lost since.
    pub(crate) fn vouched(&self) -> SeqNo {
        let change = self.changes.last().map(|change| change.seq);
        let begun = self.incarnations.last().map(|(_, before)| *before);
        let moved = begun.is_some_and(|begun| begun < self.from);
        let from = if moved { self.from } else { SeqNo(0) };
        change.unwrap_or_default().max(from)
    }

    /// Whether numbers up to `last` are neither of the log, whose last write is `logged`, nor of
    /// changes that are here.
    pub(crate) fn lacks(&self, logged: SeqNo, last: SeqNo) -> bool {
        let logged = logged.max(self.from);
        let after = self.changes.iter().rev();
        let unlogged = after.take_while(|change| change.seq > logged).count();
        last.0.saturating_sub(logged.0) > unlogged as u64
    }

    /// The number before the changes that end with `last` and stand here without a gap.
    pub(crate) fn before_changes(&self, last: SeqNo) -> SeqNo {
        let up_to = self.changes.iter().rev().skip_while(|it| it.seq > last);
        let run = (0..)
            .zip(up_to)
            .take_while(|(nth, it)| it.seq.0 + nth == last.0);
        SeqNo(last.0 - run.count() as u64)
    }

    pub(super) fn put(&self, out: &mut FieldWriter) {
        out.put_u64(tag::FROM, self.from.0);
        for (id, from) in &self.incarnations {
            out.put(tag::INCARNATION, &pair(*id, from.0));
        }
        for change in &self.changes {
            out.nested(tag::CHANGE, |out| change.put(out));
        }
        for (seq, file) in &self.files {
            out.put(tag::FILE, &pair(seq.0, file.0));
        }
    }

    pub(super) fn decode(bytes: &[u8], place: Place<'_>) -> Result<History> {
        let fields = Fields::read(bytes, "history of changes", 1..=tag::LAST, place)?;
        let pairs = |tag| -> Result<Vec<(u64, u64)>> {
            let pairs = fields.all(tag).map(|bytes| {
                let both: [u8; 16] = bytes
                    .try_into()
                    .map_err(|_| fields.corrupt(tag, "has a wrong length"))?;
                let both = u128::from_le_bytes(both);
                Ok((both as u64, (both >> 64) as u64))
            });
            pairs.collect()
        };
        let number = |tag, number| seq(&fields, tag, number);
        let incarnations = pairs(tag::INCARNATION)?.into_iter();
        let files = pairs(tag::FILE)?.into_iter();
        Ok(History {
            from: number(tag::FROM, fields.required_u64(tag::FROM)?)?,
            incarnations: incarnations
                .map(|(id, from)| Ok((id, number(tag::INCARNATION, from)?)))
                .collect::<Result<_>>()?,
            changes: fields
                .all(tag::CHANGE)
                .map(|bytes| LoggedChange::decode(bytes, place))
                .collect::<Result<_>>()?,
            files: files
                .map(|(seq, file)| {
                    let file = fields.checked_number(tag::FILE, file)?;
                    Ok((number(tag::FILE, seq)?, FileNumber(file)))
                })
                .collect::<Result<_>>()?,
        })
    }
}

impl LoggedChange {
    fn put(&self, out: &mut FieldWriter) {
        out.put_u64(change::SEQ, self.seq.0);
        out.put_u64(change::KIND, self.kind as u64);
        out.put_u64(change::KEYSPACE, self.keyspace.into());
        if let Some(now) = self.now {
            out.put_u64(change::NOW, now.into());
        }
        if let Some(name) = &self.name {
            out.put(change::NAME, name);
        }
        if let Some((first, last)) = &self.keys {
            out.put(change::FIRST, first);
            out.put(change::LAST_KEY, last);
        }
        if let Some(commit_tag) = &self.commit_tag {
            out.put(change::COMMIT_TAG, commit_tag);
        }
    }

    fn decode(bytes: &[u8], place: Place<'_>) -> Result<LoggedChange> {
        let f = Fields::read(bytes, "a change", 1..=change::LAST, place)?;
        let owned = |tag| Ok(f.bytes(tag)?.map(<[u8]>::to_vec));
        let keyspace = |number: u64| {
            u32::try_from(number).map_err(|_| f.corrupt(change::KEYSPACE, "is no keyspace"))
        };
        let kind = ChangeKind::of(f.required_u64(change::KIND)?);
        let (first, last) = (owned(change::FIRST)?, owned(change::LAST_KEY)?);
        Ok(LoggedChange {
            seq: seq(&f, change::SEQ, f.required_u64(change::SEQ)?)?,
            kind: kind.ok_or_else(|| f.corrupt(change::KIND, "is unknown"))?,
            keyspace: keyspace(f.required_u64(change::KEYSPACE)?)?,
            now: f.u64(change::NOW)?.map(keyspace).transpose()?,
            name: owned(change::NAME)?,
            keys: first.zip(last),
            commit_tag: owned(change::COMMIT_TAG)?,
        })
    }
}

fn pair(a: u64, b: u64) -> [u8; 16] {
    (u128::from(a) | u128::from(b) << 64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn change(seq: u64) -> LoggedChange {
        LoggedChange {
            seq: SeqNo(seq),
            ..LoggedChange::default()
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_bad_ones_are_refused() {
        let place = Place {
            path: Path::new("MANIFEST"),
            offset: 7,
        };
        let full = LoggedChange {
            seq: SeqNo(9),
            kind: ChangeKind::Emptied,
            keyspace: 3,
            now: Some(7),
            name: Some(b"name".to_vec()),
            keys: Some((b"a".to_vec(), b"b".to_vec())),
            commit_tag: Some(b"mark".to_vec()),
        };
        let history = History {
            from: SeqNo(4),
            incarnations: vec![(u64::MAX, SeqNo(0)), (7, SeqNo(8))],
            changes: vec![change(8), full],
            files: vec![(SeqNo(5), FileNumber(9))],
        };
        let mut out = FieldWriter::default();
        history.put(&mut out);
        let bytes = out.finish();
        assert_eq!(History::decode(&bytes, place).unwrap(), history);
        for len in 0..bytes.len() {
            if let Ok(less) = History::decode(&bytes[..len], place) {
                assert_ne!(less, history);
            }
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            let _no_panic = History::decode(&bad, place);
        }
    }

    #[test]
    fn what_is_too_old_or_too_much_is_forgotten() {
        let mut history = History::default();
        for seq in 1..=MOST_CHANGES as u64 + 10 {
            history.add(&History {
                changes: vec![change(seq)],
                files: vec![(SeqNo(seq), FileNumber(seq))],
                ..History::default()
            });
        }
        assert_eq!(
            (history.from, history.changes.len()),
            (SeqNo(10), MOST_CHANGES)
        );
        assert_eq!(history.files.first(), Some(&(SeqNo(11), FileNumber(11))));
        history.forget_until(SeqNo(100));
        assert_eq!(history.changes.first(), Some(&change(101)));
        assert_eq!(history.files.len(), history.changes.len());
    }
}
