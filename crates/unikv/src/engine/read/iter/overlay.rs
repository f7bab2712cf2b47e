//! A transaction's own writes over what an iterator reads.
//!
//! Both are in key order, and the merge of them goes from both ends. An entry of the iterator that
//! comes after an own one is kept until its turn; either end may take what the other has kept, for
//! it may be the last that is left. Own deletes hide entries: a range that was deleted is passed by
//! one seek, and so is one where an iterator has found nothing before ([`Emptied`]). What has been
//! passed over is noted for the comparison at the commit.
//!
//! No locks but those of the [`ReadSet`] and of [`Emptied`].

use super::emptied::Emptied;

use super::toward::Toward;
use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::base::seeded::seeded;
use crate::engine::recent::own_writes::OwnWrites;
use crate::engine::recent::reads::ReadSet;
use crate::error::Result;
use bytes::Bytes;
use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

/// A user key and its value, where that has been fetched.
pub(super) type Found = (Bytes, Option<Bytes>);

/// After this many hidden entries in a row an iterator asks where it may go on, and notes where
/// there was nothing.
const HIDDEN_AT_ONCE: u32 = 8;

/// The iterator over which own writes are laid.
pub(super) trait Base {
    /// Its next entry this way.
    fn next(&mut self, toward: Toward) -> Result<Option<Found>>;

    /// Goes on at the engine key `to`, or before it going back, unless it is past that already.
    fn skip(&mut self, toward: Toward, to: &[u8]);
}

/// What a transaction has written at some moment, where it shows nothing, and where what it reads
/// is noted, if it is.
#[derive(Clone)]
pub(crate) struct OfTransaction {
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) emptied: Arc<Emptied>,
    pub(crate) reads: Option<Arc<ReadSet>>,
}

impl OfTransaction {
    pub(crate) fn overlay(&self) -> Overlay {
        Overlay::new(self.clone())
    }
}

/// Own writes over an iterator.
pub(crate) struct Overlay {
    of: OfTransaction,
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
    /// It has looked whether it begins where nothing is shown.
    has_begun: bool,
}

/// What is hidden before the next entry.
#[derive(Default)]
struct Hidden {
    /// Own deletes, and entries and ranges of the iterator below that own ranges hide.
    count: u32,
    /// Where the first own delete was met.
    from: Option<Vec<u8>>,
}

impl Hidden {
    /// One more. Whether it is time to ask where nothing is.
    fn step(&mut self) -> bool {
        self.count += 1;
        self.count.is_multiple_of(HIDDEN_AT_ONCE)
    }

    fn is_long(&self) -> bool {
        self.count >= HIDDEN_AT_ONCE
    }
}

impl Overlay {
    fn new(of: OfTransaction) -> Overlay {
        Overlay {
            of,
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

    /// The next entry this way.
    pub(super) fn next(&mut self, toward: Toward, base: &mut impl Base) -> Result<Option<Found>> {
        if !mem::replace(&mut self.end(toward).has_begun, true) {
            self.pass_emptied(toward, base);
        }
        let mut hidden = Hidden::default();
        loop {
            #[cfg(test)]
            STEPPED.set(STEPPED.get() + 1);
            let theirs = match self.take_kept(toward) {
                Some(found) => Some(found),
                None if self.end(toward).is_done => None,
                None => {
                    let found = self.undeleted(toward, base, &mut hidden)?;
                    self.end(toward).is_done = found.is_none();
                    found.map(|found| (toward, found))
                }
            };
            let theirs = theirs.or_else(|| self.take_kept(toward.other()));
            let own = self.own_next(toward);
            let Some(order) = self.order(toward, own.as_ref(), theirs.as_ref()) else {
                self.note_end(toward, &hidden);
                return Ok(None);
            };
            match (order, theirs) {
                (Ordering::Greater, Some((_, found))) => {
                    self.pass(toward, &found.0, Some(&hidden));
                    return Ok(Some(found));
                }
                (Ordering::Less, Some((side, found))) => self.end(side).kept = Some(found),
                _ => {}
            }
            let Some((key, value)) = own else {
                return Ok(None);
            };
            if let Some(value) = value {
                self.pass(toward, &key, Some(&hidden));
                return Ok(Some((key, Some(value))));
            }
            if hidden.from.is_none() {
                hidden.from = Some(self.place(toward).to_vec());
            }
            self.pass(toward, &key, None);
            if seeded!(OwnDeletesEnd) {
                return Ok(None);
            }
            if hidden.step() {
                self.pass_emptied(toward, base);
            }
        }
    }

    /// The next entry of the iterator that is in no range which has been deleted.
    fn undeleted(
        &self,
        toward: Toward,
        base: &mut impl Base,
        hidden: &mut Hidden,
    ) -> Result<Option<Found>> {
        let mut engine_key = self.prefix.clone();
        loop {
            #[cfg(test)]
            STEPPED.set(STEPPED.get() + 1);
            let found = base.next(toward)?;
            let Some((key, _)) = &found else {
                return Ok(None);
            };
            engine_key.truncate(self.prefix.len());
            engine_key.extend_from_slice(key);
            let Some((start, end)) = self.of.own.deleted_with(&engine_key) else {
                return Ok(found);
            };
            let past = match toward {
                Toward::Upper => end,
                Toward::Lower => start,
            };
            base.skip(toward, past);
            // Own writes of these keys may still have their turn: only the iterator goes past.
            if hidden.step()
                && let Some(past) = self.past_emptied(toward, past)
            {
                base.skip(toward, &past);
            }
        }
    }

    /// Where this end may go on, having come to `at`, if nothing is shown from there on.
    fn past_emptied(&self, toward: Toward, at: &[u8]) -> Option<Bytes> {
        self.of.emptied.past(self.of.own.changes(), at, toward)
    }

    /// This end and the iterator go past what is known to be empty.
    fn pass_emptied(&mut self, toward: Toward, base: &mut impl Base) {
        let Some(past) = self.past_emptied(toward, self.place(toward)) else {
            return;
        };
        let past = match toward {
            Toward::Upper => past.to_vec().min(self.upper.clone()),
            Toward::Lower => past.to_vec().max(self.lower.clone()),
        };
        base.skip(toward, &past);
        for side in [toward, toward.other()] {
            let prefix = self.prefix.len();
            let bound = past.get(prefix..).unwrap_or_default();
            // Past the end of the keyspace, all of its keys are before it.
            let is_in = past.starts_with(&self.prefix);
            let is_left = |found: &Found| match toward {
                Toward::Upper => is_in && found.0[..] >= *bound,
                Toward::Lower => found.0[..] < *bound,
            };
            let end = self.end(side);
            end.kept = end.kept.take().filter(is_left);
        }
        self.note(toward, &past);
        *self.place_mut(toward) = past;
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
        let (lower, upper) = (&self.lower, &self.upper);
        let (key, value) = match toward {
            Toward::Upper => self.of.own.first(lower, upper),
            Toward::Lower => self.of.own.last(lower, upper),
        }?;
        let place = KEYSPACE_PREFIX_LEN.min(key.len());
        Some((Bytes::copy_from_slice(&key[place..]), value.cloned()))
    }

    /// Up to where this end has read.
    fn place(&self, toward: Toward) -> &[u8] {
        match toward {
            Toward::Upper => &self.lower,
            Toward::Lower => &self.upper,
        }
    }

    fn place_mut(&mut self, toward: Toward) -> &mut Vec<u8> {
        match toward {
            Toward::Upper => &mut self.lower,
            Toward::Lower => &mut self.upper,
        }
    }

    /// This end has come to a user key, and has read all before it: the key is shown after what is
    /// hidden, or is itself hidden.
    fn pass(&mut self, toward: Toward, key: &[u8], shown_after: Option<&Hidden>) {
        let mut at = self.prefix.clone();
        at.extend_from_slice(key);
        match toward {
            Toward::Upper => {
                self.note_emptied(toward, shown_after, &at);
                at.push(0);
            }
            Toward::Lower if shown_after.is_some_and(Hidden::is_long) => {
                let after = [&at, &[0][..]].concat();
                self.note_emptied(toward, shown_after, &after);
            }
            Toward::Lower => {}
        }
        self.note(toward, &at);
        *self.place_mut(toward) = at;
    }

    /// There is nothing left between the ends.
    fn note_end(&mut self, toward: Toward, hidden: &Hidden) {
        let other = self.place_mut(toward.other());
        let end = mem::take(other);
        self.note_emptied(toward, Some(hidden), &end);
        self.note(toward, &end);
        *self.place_mut(toward.other()) = end;
    }

    /// If much was hidden up to the engine key `to`, later iterators need not see that again.
    fn note_emptied(&self, toward: Toward, hidden: Option<&Hidden>, to: &[u8]) {
        if let Some(hidden) = hidden.filter(|hidden| hidden.is_long()) {
            let from = hidden.from.as_deref().unwrap_or(self.place(toward));
            let (from, to) = match toward {
                Toward::Upper => (from, to),
                Toward::Lower => (to, from),
            };
            self.of.emptied.note(self.of.own.changes(), from, to);
        }
    }

    fn note(&mut self, toward: Toward, to: &[u8]) {
        let Some(reads) = self.of.reads.clone() else {
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
        if let (Some(range), Some(reads)) = (self.end(side).range.take(), self.of.reads.clone()) {
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

#[cfg(test)]
thread_local! {
    /// Steps that overlays of this thread have taken.
    pub(crate) static STEPPED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
