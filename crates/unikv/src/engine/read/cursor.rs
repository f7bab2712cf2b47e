//! A position that moves both ways, and the keys of a range alone.
//!
//! A [`Cursor`] walks with an [`Iter`] that goes its way, and begins another when it turns round;
//! the old one has released its memory by then. Without that it is a key and a registered moment.
//!
//! Values stay where they are until the caller has asked for one. Then the batches that follow
//! fetch theirs, until none has been asked for over [`STEPS_WITHOUT_VALUE`] steps. No locks.

use crate::base::bounds::{engine_bounds, engine_key};
use crate::base::keys::KeyspaceId;
use crate::base::seeded::slip;
use crate::engine::read::iter::overlay::OfTransaction;
use crate::engine::read::iter::{Iter, Toward};
use crate::engine::read::moment::Registered;
use crate::error::Result;
use crate::key_table::read_terms::ReadTerms;
use crate::options::ReadOptions;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// After this many steps without a look at a value, values are left where they are again.
const STEPS_WITHOUT_VALUE: u32 = 64;

/// The keys of a range in order, from both ends, without their values: see
/// [`Db::keys`](crate::Db::keys).
///
/// It shows the database as it was when it was made. An error ends the iteration.
pub struct Keys(Iter);

impl Keys {
    pub(crate) fn new(mut iter: Iter) -> Keys {
        iter.leave_values(true);
        Keys(iter)
    }

    /// Moves the front to the first key of the range at or after `key`, as [`Iter::seek`] does.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek(key);
    }

    /// Releases the files that this keeps on disk, as [`Iter::release`] does.
    pub fn release(&mut self) {
        self.0.release();
    }
}

impl Iterator for Keys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next_key(Toward::Upper)?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_key(Toward::Lower)?.map(|(key, _)| key))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.0).finish()
    }
}

/// A position among the entries of the database, which moves in any order: see
/// [`Db::cursor`](crate::Db::cursor).
///
/// It shows the database as it was when it was made, until [`Cursor::refresh`]. It is on an entry,
/// before the first one (as a new cursor is), or after the last one. Each move says whether it has
/// come to an entry. A move that fails leaves the position as it was; it may be tried again. It
/// keeps the database open as a [`Snapshot`](crate::Snapshot) does.
pub struct Cursor {
    moment: Arc<Registered>,
    keyspace: KeyspaceId,
    /// What a transaction has written and reads.
    over: Option<OfTransaction>,
    place: Place,
    options: ReadOptions,
    terms: Option<ReadTerms>,
    /// What goes on from the place, and which way. Boxed: each step takes it and puts it back.
    walk: Option<(Toward, Box<Iter>)>,
    /// The value at the place, once it has been fetched.
    value: Option<Bytes>,
    /// Steps since the caller has asked for a value; none before the first time.
    since_value: Option<u32>,
}

enum Place {
    BeforeFirst,
    On(Bytes),
    AfterLast,
}

impl Cursor {
    pub(crate) fn new(moment: Arc<Registered>, keyspace: KeyspaceId) -> Cursor {
        Cursor {
            moment,
            keyspace,
            over: None,
            options: ReadOptions::default(),
            terms: None,
            place: Place::BeforeFirst,
            walk: None,
            value: None,
            since_value: None,
        }
    }

    /// The same with a transaction's own writes over it.
    pub(crate) fn over(mut self, transaction: OfTransaction) -> Cursor {
        self.over = Some(transaction);
        self
    }

    /// The same, as `options` say.
    pub(crate) fn reading(mut self, options: &ReadOptions, terms: Option<ReadTerms>) -> Cursor {
        self.options = ReadOptions {
            keys_only: false,
            ..options.clone()
        };
        self.terms = terms;
        self
    }

    /// Moves to the first entry. Errors as [`Db::get`](crate::Db::get).
    pub fn first(&mut self) -> Result<bool> {
        self.go_from(Toward::Upper, None)
    }

    /// Moves to the last entry. Errors as [`Db::get`](crate::Db::get).
    pub fn last(&mut self) -> Result<bool> {
        self.go_from(Toward::Lower, None)
    }

    /// Moves to the first entry at or after `key`, else after the last one. Errors as
    /// [`Db::get`](crate::Db::get).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.go_from(Toward::Upper, Some(key.as_ref()))
    }

    /// Moves to the last entry at or before `key`, else before the first one. Errors as
    /// [`Db::get`](crate::Db::get).
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.go_from(Toward::Lower, Some(&after(key.as_ref())))
    }

    /// Moves to the next entry. After the last one there is none. Errors as
    /// [`Db::get`](crate::Db::get).
    #[expect(clippy::should_implement_trait, reason = "a move, whose entry is lent")]
    pub fn next(&mut self) -> Result<bool> {
        self.step(Toward::Upper)
    }

    /// Moves to the entry before. Before the first one there is none. Errors as
    /// [`Db::get`](crate::Db::get).
    pub fn prev(&mut self) -> Result<bool> {
        self.step(Toward::Lower)
    }

    /// The key of the entry; `None` before the first and after the last one.
    pub fn key(&self) -> Option<&[u8]> {
        match &self.place {
            Place::On(key) => Some(key),
            Place::BeforeFirst | Place::AfterLast => None,
        }
    }

    /// The value of the entry, read now unless it has been fetched with others; `None` where there
    /// is no key, and where a [`Cursor::refresh`] has shown that the key has no value any more.
    /// Errors as [`Db::get`](crate::Db::get).
    pub fn value(&mut self) -> Result<Option<Bytes>> {
        self.moment.read().core.check_open()?;
        let Place::On(key) = &self.place else {
            return Ok(None);
        };
        if self.since_value.replace(0).is_none()
            && let Some((_, iter)) = &mut self.walk
        {
            iter.leave_values(false);
        }
        if self.value.is_none() {
            let source = self.moment.source(self.keyspace);
            let read = || self.moment.read().get(source, key);
            self.value = ReadTerms::within(self.terms.as_ref(), read)?;
        }
        Ok(self.value.clone())
    }

    /// The key and the value of the entry, lent until the next call; `None` where
    /// [`Cursor::value`] is. Errors as there.
    pub fn entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let has_value = self.value()?.is_some();
        Ok(match (&self.place, &self.value) {
            (Place::On(key), Some(value)) if has_value => Some((key, value)),
            _ => None,
        })
    }

    /// Moves to the next entry and lends it until the next call; `None` after the last one. To
    /// begin with the entry that a [`Cursor::seek`] has found, take [`Cursor::entry`] first. Errors
    /// as [`Db::get`](crate::Db::get).
    ///
    /// ```
    /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
    /// db.put("apple", "red")?;
    /// db.put("banana", "yellow")?;
    /// let (mut cursor, mut bytes) = (db.cursor(), 0);
    /// while let Some((key, value)) = cursor.next_entry()? {
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 20);
    /// # unikv::Result::Ok(())
    /// ```
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.next()? { self.entry() } else { Ok(None) }
    }

    /// Moves to the entry before and lends it until the next call; `None` before the first one.
    /// Errors as [`Db::get`](crate::Db::get).
    pub fn prev_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.prev()? { self.entry() } else { Ok(None) }
    }

    /// Shows the database as it is now, also if this is the cursor of a snapshot; a cursor of a
    /// secondary goes on showing the state in which it was made. The position
    /// stays on its key, even if that has no value any more: moves go on from there. A cursor that
    /// is after the last entry stays there, whatever has been added: seek what is to follow. The
    /// cursor of a transaction shows the same as before. A timeout begins again.
    pub fn refresh(&mut self) {
        if self.over.is_some() {
            return;
        }
        self.walk = None;
        self.value = None;
        self.moment = self.moment.take_newest();
        self.terms = self.moment.read().terms(&self.options);
    }

    /// Releases the files that this cursor keeps on disk. It goes on as before when it is next
    /// moved, in newer files; see [`Db::release_views`](crate::Db::release_views).
    pub fn release(&mut self) {
        self.walk = None;
    }

    /// Moves to the next entry this way.
    fn step(&mut self, toward: Toward) -> Result<bool> {
        self.moment.read().core.check_open()?;
        if let Some((_, iter)) = self.walk.take_if(|walk| walk.0 == toward) {
            return self.go(toward, iter);
        }
        let from = match (&self.place, toward) {
            (Place::AfterLast, Toward::Upper) | (Place::BeforeFirst, Toward::Lower) => {
                return Ok(false);
            }
            (Place::On(key), Toward::Upper) => {
                Some(slip!(TurnsOnTheSpot, key.to_vec(), after(key)))
            }
            (Place::On(key), Toward::Lower) => Some(key.to_vec()),
            (Place::BeforeFirst | Place::AfterLast, _) => None,
        };
        self.go_from(toward, from.as_deref())
    }

    /// Moves to the first entry at or after `key`, or to the last one before it; without a key, to
    /// the first or last of all.
    fn go_from(&mut self, toward: Toward, key: Option<&[u8]>) -> Result<bool> {
        // A walk forward can go on anywhere; any other is dropped before the next one begins.
        let is_reusable = |way: Toward| (way, toward) == (Toward::Upper, Toward::Upper);
        let reused = self.walk.take().filter(|(way, _)| is_reusable(*way));
        let begin = || Box::new(self.begin(toward, key));
        let mut iter = reused.map_or_else(begin, |(_, iter)| iter);
        if toward == Toward::Upper {
            iter.seek(key.unwrap_or_default());
        }
        self.go(toward, iter)
    }

    /// A walk over everything, or over what is before `key` if it goes back.
    fn begin(&self, toward: Toward, key: Option<&[u8]>) -> Iter {
        let bounds = |data: KeyspaceId| {
            let (lower, upper) = engine_bounds(data, &self.options.range);
            match (toward, key) {
                (Toward::Lower, Some(key)) => (lower, engine_key(data, key).min(upper)),
                _ => (lower, upper),
            }
        };
        let mut iter = Iter::new(Arc::clone(&self.moment), self.keyspace, bounds);
        if let Some(over) = &self.over {
            iter = iter.over(over.overlay());
        }
        iter.leave_values(self.since_value.is_none());
        iter.reading(&self.options, self.terms.clone())
    }

    /// Takes a step of a walk, and stands where it leads. After an error the walk begins again,
    /// from the place as it is.
    fn go(&mut self, toward: Toward, mut iter: Box<Iter>) -> Result<bool> {
        let entry = iter.next_key(toward).transpose()?;
        self.value = None;
        let Some((key, value)) = entry else {
            self.place = match toward {
                Toward::Upper => Place::AfterLast,
                Toward::Lower => Place::BeforeFirst,
            };
            return Ok(false);
        };
        (self.place, self.value) = (Place::On(key), value);
        self.note_step(&mut iter);
        self.walk = Some((toward, iter));
        Ok(true)
    }

    /// A caller that has asked for no value for a while is taken to want none.
    fn note_step(&mut self, iter: &mut Iter) {
        let Some(steps) = &mut self.since_value else {
            return;
        };
        *steps += 1;
        if *steps > STEPS_WITHOUT_VALUE {
            self.since_value = None;
            iter.leave_values(true);
        }
    }
}

/// The first key after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("seq", &self.moment.seq().0)
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
