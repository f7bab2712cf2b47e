//! A position that moves both ways, and the keys of a range alone.
//!
//! A [`Cursor`] walks with an [`Iter`] that goes its way, and begins another when it turns round;
//! the old one has released its memory by then. Without that it is a key and a registered moment.
//!
//! Values stay where they are until the caller has asked for one. Then the batches that follow
//! fetch theirs, until none has been asked for over [`STEPS_WITHOUT_VALUE`] steps. No locks.

use crate::base::seeded::{seeded, slip};
use crate::engine::read::bounds::{DEFAULT_KEYSPACE, engine_bounds, engine_key};
use crate::engine::read::iter::Iter;
use crate::engine::read::moment::Registered;
use crate::engine::snapshots::Holder;
use crate::error::Result;
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
        Some(self.0.next_key()?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_key_back()?.map(|(key, _)| key))
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
/// come to an entry. A move that fails leaves the position as it was; it may be tried again.
pub struct Cursor {
    moment: Arc<Registered>,
    place: Place,
    /// What goes on from the place.
    walk: Option<Walk>,
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

enum Walk {
    Forward(Iter),
    Backward(Iter),
}

impl Cursor {
    pub(crate) fn new(moment: Arc<Registered>) -> Cursor {
        Cursor {
            moment,
            place: Place::BeforeFirst,
            walk: None,
            value: None,
            since_value: None,
        }
    }

    /// Moves to the first entry. Errors as [`Db::get`](crate::Db::get).
    pub fn first(&mut self) -> Result<bool> {
        let walk = self.forward_from(b"");
        self.go(walk)
    }

    /// Moves to the last entry. Errors as [`Db::get`](crate::Db::get).
    pub fn last(&mut self) -> Result<bool> {
        let walk = self.backward_from(None);
        self.go(walk)
    }

    /// Moves to the first entry at or after `key`, else after the last one. Errors as
    /// [`Db::get`](crate::Db::get).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let walk = self.forward_from(key.as_ref());
        self.go(walk)
    }

    /// Moves to the last entry at or before `key`, else before the first one. Errors as
    /// [`Db::get`](crate::Db::get).
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let walk = self.backward_from(Some(&after(key.as_ref())));
        self.go(walk)
    }

    /// Moves to the next entry. After the last one there is none. Errors as
    /// [`Db::get`](crate::Db::get).
    #[expect(clippy::should_implement_trait, reason = "a move, whose entry is lent")]
    pub fn next(&mut self) -> Result<bool> {
        let walk = match (&self.place, self.walk.take()) {
            (Place::AfterLast, _) => return Ok(false),
            (Place::On(_), Some(Walk::Forward(iter))) => Walk::Forward(iter),
            (Place::On(key), before) => {
                drop(before);
                let key = slip!(TurnsOnTheSpot, key.to_vec(), after(key));
                self.forward_from(&key)
            }
            (Place::BeforeFirst, _) => self.forward_from(b""),
        };
        self.go(walk)
    }

    /// Moves to the entry before. Before the first one there is none. Errors as
    /// [`Db::get`](crate::Db::get).
    pub fn prev(&mut self) -> Result<bool> {
        let walk = match (&self.place, self.walk.take()) {
            (Place::BeforeFirst, _) => return Ok(false),
            (Place::On(_), Some(Walk::Backward(iter))) => Walk::Backward(iter),
            (Place::On(key), before) => {
                drop(before);
                let key = key.clone();
                self.backward_from(Some(&key))
            }
            (Place::AfterLast, _) => self.backward_from(None),
        };
        self.go(walk)
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
        let Place::On(key) = &self.place else {
            return Ok(None);
        };
        if self.since_value.replace(0).is_none()
            && let Some(Walk::Forward(iter) | Walk::Backward(iter)) = &mut self.walk
        {
            iter.leave_values(false);
        }
        if self.value.is_none() {
            let read = self.moment.read();
            let view = read.view.load();
            self.value = read.get_at(&view, self.moment.seq(), key)?;
        }
        Ok(self.value.clone())
    }

    /// Shows the database as it is now, also if this is the cursor of a snapshot. The position
    /// stays on its key, even if that has no value any more: moves go on from there. A cursor that
    /// is after the last entry stays there, whatever has been added: seek what is to follow.
    pub fn refresh(&mut self) {
        self.walk = None;
        if !seeded!(RefreshKeepsValue) {
            self.value = None;
        }
        self.moment = Registered::take(self.moment.read(), Holder::Iterator);
    }

    /// Releases the files that this cursor keeps on disk. It goes on as before when it is next
    /// moved, in newer files; see [`Db::release_views`](crate::Db::release_views).
    pub fn release(&mut self) {
        self.walk = None;
    }

    /// Takes one step, and stands where it leads.
    fn go(&mut self, mut walk: Walk) -> Result<bool> {
        let (step, end) = match &mut walk {
            Walk::Forward(iter) => (iter.next_key(), Place::AfterLast),
            Walk::Backward(iter) => (iter.next_key_back(), Place::BeforeFirst),
        };
        // After an error the walk begins again, from the place as it is.
        let entry = step.transpose()?;
        self.value = None;
        let Some((key, value)) = entry else {
            (self.place, self.walk) = (end, None);
            return Ok(false);
        };
        (self.place, self.value) = (Place::On(key), value);
        self.note_step(&mut walk);
        self.walk = Some(walk);
        Ok(true)
    }

    /// A caller that has asked for no value for a while is taken to want none.
    fn note_step(&mut self, walk: &mut Walk) {
        let Some(steps) = &mut self.since_value else {
            return;
        };
        *steps += 1;
        if *steps > STEPS_WITHOUT_VALUE {
            self.since_value = None;
            let (Walk::Forward(iter) | Walk::Backward(iter)) = walk;
            iter.leave_values(true);
        }
    }

    /// Begins a walk forward, with the first entry at or after `key`.
    fn forward_from(&mut self, key: &[u8]) -> Walk {
        let mut iter = match self.walk.take() {
            Some(Walk::Forward(iter)) => iter,
            before => {
                drop(before);
                self.begin(engine_bounds(&..))
            }
        };
        iter.seek(key);
        Walk::Forward(iter)
    }

    /// Begins a walk back, with the last entry before `key`.
    fn backward_from(&mut self, key: Option<&[u8]>) -> Walk {
        self.walk = None;
        let (begin, all) = engine_bounds(&..);
        let end = key.map_or(all, |key| engine_key(DEFAULT_KEYSPACE, key));
        Walk::Backward(self.begin((begin, end)))
    }

    fn begin(&self, bounds: (Vec<u8>, Vec<u8>)) -> Iter {
        let mut iter = Iter::new(Arc::clone(&self.moment), bounds);
        iter.leave_values(self.since_value.is_none());
        iter
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
