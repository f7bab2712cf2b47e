//! A transaction's own writes over what an iterator reads.
//!
//! Both are in key order, and the merge of them goes from both ends. An entry of the iterator that
//! comes after an own one is kept until its turn; either end may take what the other has kept, for
//! it may be the last that is left. Own deletes hide entries. What has been passed over is noted
//! for the comparison at the commit.
//!
//! No locks but that of the [`ReadSet`].

use super::own_writes::OwnWrites;
use super::toward::Toward;
use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::base::seeded::seeded;
use crate::engine::recent::reads::ReadSet;
use crate::error::Result;
use bytes::Bytes;
use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

/// A user key and its value, where that has been fetched.
pub(super) type Found = (Bytes, Option<Bytes>);

/// What a transaction has written at some moment, and where what it reads is noted, if it is.
#[derive(Clone)]
pub(crate) struct OfTransaction {
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) reads: Option<Arc<ReadSet>>,
}

impl OfTransaction {
    pub(crate) fn overlay(&self) -> Overlay {
        Overlay::new(Arc::clone(&self.own), self.reads.clone())
    }
}

/// Own writes over an iterator, and where what is read is noted.
pub(crate) struct Overlay {
    own: Arc<OwnWrites>,
    reads: Option<Arc<ReadSet>>,
    /// What stands before the user keys.
    prefix: Vec<u8>,
    /// The engine keys between which own writes are left.
    lower: Vec<u8>,
    upper: Vec<u8>,
    front: End,
    back: End,
}

#[derive(Default)]
struct End {
    /// An entry of the iterator that has not had its turn.
    kept: Option<Found>,
    /// The number of the range that has been passed over.
    range: Option<u64>,
    /// The iterator has nothing more this way.
    is_done: bool,
}

impl Overlay {
    fn new(own: Arc<OwnWrites>, reads: Option<Arc<ReadSet>>) -> Overlay {
        Overlay {
            own,
            reads,
            prefix: Vec::new(),
            lower: Vec::new(),
            upper: Vec::new(),
            front: End::default(),
            back: End::default(),
        }
    }

    /// The iterator reads between these engine keys.
    pub(super) fn begin(&mut self, lower: &[u8], upper: &[u8]) {
        let prefix = lower.get(..KEYSPACE_PREFIX_LEN).unwrap_or_default();
        self.prefix = prefix.to_vec();
        self.lower = lower.to_vec();
        self.upper = upper.to_vec();
    }

    /// The front begins again at this engine key. What the back has read stays read. Returns the
    /// first engine key that the back has handed out: the iterator is to read up to there again,
    /// for either end may have taken what the other one has read.
    pub(super) fn seek(&mut self, lower: &[u8]) -> Vec<u8> {
        self.lower = lower.to_vec();
        self.end_range(Toward::Upper);
        self.front = End::default();
        self.back.kept = None;
        self.back.is_done = false;
        self.upper.clone()
    }

    /// The next entry this way; `base` is the next one of the iterator.
    pub(super) fn next(
        &mut self,
        toward: Toward,
        mut base: impl FnMut() -> Result<Option<Found>>,
    ) -> Result<Option<Found>> {
        loop {
            let theirs = match self.take_kept(toward) {
                Some(found) => Some(found),
                None if self.end(toward).is_done => None,
                None => {
                    let found = self.undeleted(&mut base)?;
                    self.end(toward).is_done = found.is_none();
                    found.map(|found| (toward, found))
                }
            };
            let theirs = theirs.or_else(|| self.take_kept(toward.other()));
            let own = self.own_next(toward);
            let Some(order) = self.order(toward, own.as_ref(), theirs.as_ref()) else {
                self.note_end(toward);
                return Ok(None);
            };
            match (order, theirs) {
                (Ordering::Greater, Some((_, found))) => {
                    self.pass(toward, &found.0);
                    return Ok(Some(found));
                }
                (Ordering::Less, Some((side, found))) => self.end(side).kept = Some(found),
                _ => {}
            }
            let Some((key, value)) = own else {
                return Ok(None);
            };
            self.pass(toward, &key);
            if let Some(value) = value {
                return Ok(Some((key, Some(value))));
            }
            if seeded!(OwnDeletesEnd) {
                return Ok(None);
            }
        }
    }

    /// The next entry of the iterator that is in no range which has been deleted.
    fn undeleted(&self, mut base: impl FnMut() -> Result<Option<Found>>) -> Result<Option<Found>> {
        let mut engine_key = self.prefix.clone();
        loop {
            let found = base()?;
            if let Some((key, _)) = &found {
                engine_key.truncate(self.prefix.len());
                engine_key.extend_from_slice(key);
                if self.own.deletes(&engine_key) {
                    continue;
                }
            }
            return Ok(found);
        }
    }

    fn take_kept(&mut self, side: Toward) -> Option<(Toward, Found)> {
        self.end(side).kept.take().map(|found| (side, found))
    }

    /// `Less` if the own entry comes first, `Equal` if it hides the other; `None`: there is none.
    fn order(
        &self,
        toward: Toward,
        own: Option<&Found>,
        theirs: Option<&(Toward, Found)>,
    ) -> Option<Ordering> {
        let theirs = theirs.map(|(_, (key, _))| key);
        match (own.map(|(key, _)| key), theirs) {
            (None, None) => None,
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (Some(own), Some(theirs)) if toward == Toward::Upper => Some(own.cmp(theirs)),
            (Some(own), Some(theirs)) => Some(theirs.cmp(own)),
        }
    }

    /// The next own write this way.
    fn own_next(&self, toward: Toward) -> Option<Found> {
        let mut left = self.own.ends(&self.lower, &self.upper);
        let (key, value) = match toward {
            Toward::Upper => left.next(),
            Toward::Lower => left.next_back(),
        }?;
        let key = key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
        Some((Bytes::copy_from_slice(key), value.cloned()))
    }

    /// This end has come to a user key, and has read all before it.
    fn pass(&mut self, toward: Toward, key: &[u8]) {
        let mut at = self.prefix.clone();
        at.extend_from_slice(key);
        if toward == Toward::Upper {
            at.push(0);
        }
        self.note(toward, &at);
        match toward {
            Toward::Upper => self.lower = at,
            Toward::Lower => self.upper = at,
        }
    }

    /// There is nothing left between the ends.
    fn note_end(&mut self, toward: Toward) {
        let end = match toward {
            Toward::Upper => mem::take(&mut self.upper),
            Toward::Lower => mem::take(&mut self.lower),
        };
        self.note(toward, &end);
        match toward {
            Toward::Upper => self.upper = end,
            Toward::Lower => self.lower = end,
        }
    }

    fn note(&mut self, toward: Toward, to: &[u8]) {
        let Some(reads) = self.reads.clone() else {
            return;
        };
        let begin = match toward {
            Toward::Upper => &self.lower,
            Toward::Lower => &self.upper,
        };
        let begin = || reads.begin_range(begin);
        match toward {
            Toward::Upper => {
                let range = *self.front.range.get_or_insert_with(begin);
                reads.extend_up(range, to);
            }
            Toward::Lower => {
                let range = *self.back.range.get_or_insert_with(begin);
                reads.extend_down(range, to);
            }
        }
    }

    fn end_range(&mut self, side: Toward) {
        if let (Some(range), Some(reads)) = (self.end(side).range.take(), self.reads.clone()) {
            reads.end_range(range);
        }
    }

    fn end(&mut self, toward: Toward) -> &mut End {
        match toward {
            Toward::Upper => &mut self.front,
            Toward::Lower => &mut self.back,
        }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.end_range(Toward::Upper);
        self.end_range(Toward::Lower);
    }
}
