//! Iteration over a range, from both ends (paper §III-F).
//!
//! An [`Iter`] shows one moment, a registered sequence number, whatever happens meanwhile. It reads
//! through one view, which keeps files on disk, from its first step until it is asked to release;
//! then it begins again in a later view, after what it has handed out
//! ([`crate::engine::read::pins`]). Each end gathers visible entries in batches that grow as it
//! goes on, and fetches the values of a batch file by file, in the order of their offsets,
//! neighbours in one read. Entries gathered need no view.

mod ahead;
mod asked;
mod below;
pub(crate) mod emptied;
mod end;
mod keyspace;
mod measured;
pub(crate) mod overlay;
mod toward;

use toward::Left;
pub(crate) use toward::Toward;

use crate::base::bounds::engine_key;
use crate::base::keys::{KeyspaceId, PartitionId};
use crate::base::seeded::seeded;
use crate::engine::memory::IteratorCharge;
use crate::engine::read::moment::Registered;
use crate::engine::read::pins::ViewHolder;
use crate::engine::read::source::data_id;
use crate::error::{Error, Result};
use crate::key_table::read_terms;
use asked::Asked;
use below::{Entries, KeysAlone};
use bytes::Bytes;
use end::End;
use overlay::Overlay;
use std::sync::Arc;

/// An iterator over the entries of a range in key order; from the back with
/// [`Iterator::rev`] or [`DoubleEndedIterator::next_back`].
///
/// It shows the database as it was when it was made. An error ends the iteration. It keeps the
/// database open as a [`Snapshot`](crate::Snapshot) does.
///
/// Keys and values that it hands out may be held for as long as the caller likes. They keep no
/// files, and in memory they keep either little more than themselves, as those of
/// [`Db::get`](crate::Db::get), or buffers of up to 64 KiB that they share with their neighbours:
/// [`MemoryStats::handed_out`](crate::MemoryStats::handed_out) counts these, at most an eighth of
/// `memory_budget` or little more. Beyond that the iterator hands out copies. So a caller may hold
/// any of them, and need not copy what it keeps.
pub struct Iter {
    /// Bounds what is fetched ahead.
    memory: IteratorCharge,
    keyspace: KeyspaceId,
    /// The first engine key of the range.
    begin: Vec<u8>,
    /// The first engine key of what is left, once [`Iter::raise_lower`] was called.
    lower: Vec<u8>,
    /// The first engine key after what is left.
    upper: Vec<u8>,
    /// Whether `upper` is less than it was at first.
    has_upper_moved: bool,
    front: End,
    back: End,
    /// How many entries the caller wants, if it has said so.
    expected: Option<usize>,
    /// Whether values are left where they are.
    keys_alone: bool,
    /// What a transaction has written, over what is read.
    overlay: Option<Box<Overlay>>,
    /// What the caller asks of reads, if it does.
    asked: Option<Box<Asked>>,
    /// An error to be handed out next.
    error: Option<Error>,
    ended: bool,
    /// Comes last, as its end may close the database.
    holder: ViewHolder,
}

impl Iter {
    /// The entries of a keyspace as of `moment`, between the bounds that `bounds` makes of its data
    /// id.
    pub(crate) fn new(
        moment: Arc<Registered>,
        keyspace: KeyspaceId,
        bounds: impl FnOnce(KeyspaceId) -> (Vec<u8>, Vec<u8>),
    ) -> Iter {
        let read = moment.read();
        let memory = read.core.memory.open_iterator();
        let buffers = read.core.cache.buffers();
        let (front, back) = (End::new(buffers), End::new(buffers));
        let source = moment.source(keyspace);
        let data = read.core.check_open();
        let data = data.and_then(|()| data_id(&read.view.load(), source));
        let (lower, upper) = data
            .as_ref()
            .map_or_else(|_| Default::default(), |data| bounds(*data));
        let error = data.and_then(|_| memory.check()).err();
        Iter {
            memory,
            keyspace,
            holder: ViewHolder::new(moment),
            begin: lower.clone(),
            lower,
            upper,
            has_upper_moved: false,
            front,
            back,
            expected: None,
            keys_alone: false,
            overlay: None,
            asked: None,
            error,
            ended: false,
        }
    }

    /// The same with a transaction's own writes over it.
    pub(crate) fn over(mut self, mut overlay: Overlay) -> Iter {
        overlay.begin(&self.lower, &self.upper);
        self.overlay = Some(Box::new(overlay));
        self
    }

    /// Moves the front to the first entry of the range at or after `key`, forward or back. Entries
    /// that the back has handed out stay gone. An iteration that an error has ended goes on from
    /// there.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.raise_lower();
        let lower = engine_key(KeyspaceId::of(&self.begin), key.as_ref()).max(self.begin.clone());
        // The back may have dropped entries because the front had handed them out, or have been
        // stopped half-way by the error that ended the iteration.
        let back_again = lower < self.lower || self.ended || self.overlay.is_some();
        if back_again {
            // What could not be handed out is still to be.
            if self.back.key().is_some_and(|key| *key == self.upper[..]) {
                self.upper.push(0);
            }
            self.back = self.new_end();
        }
        if let Some(overlay) = &mut self.overlay {
            self.upper = overlay.seek(&lower);
            self.has_upper_moved = true;
        }
        self.lower = lower;
        self.ended = false;
        self.front = self.new_end();
        self.holder.forget(|position| {
            position.front = None;
            if back_again {
                position.back = None;
            }
        });
    }

    /// Releases the files that this iterator keeps on disk. It goes on as before when it is next
    /// used, in newer files; see [`Db::release_views`](crate::Db::release_views).
    pub fn release(&mut self) {
        self.holder.release();
    }

    /// Begins what is left behind what the front has handed out. Not done at each entry, as a long
    /// iteration needs it only once a batch.
    fn raise_lower(&mut self) {
        if let Some(key) = self.front.passed() {
            self.lower.clear();
            self.lower.reserve_exact(key.len() + 1);
            self.lower.extend_from_slice(key);
            self.lower.push(0);
        }
    }

    /// Gathers the next batch of one end.
    fn gather_unmeasured(&mut self, toward: Toward) -> Result<()> {
        read_terms::check_time()?;
        let at = self.holder.moment().at();
        let (lower, upper) = (&self.lower, &self.upper);
        let batch_bytes = self.memory.batch_bytes();
        let end = match toward {
            Toward::Upper => &mut self.front,
            Toward::Lower => &mut self.back,
        };
        let mut charged = Vec::new();
        let gathered = self.holder.with_position(|position| {
            loop {
                let view = &position.view;
                let slot = match toward {
                    Toward::Upper => &mut position.front,
                    Toward::Lower => &mut position.back,
                };
                let mut range = Left { lower, upper };
                let gap;
                let cursor = match slot {
                    Some(cursor) => cursor,
                    None => {
                        gap = range.known_gap(view, toward, at);
                        range.pass(toward, gap.as_deref());
                        let mut begun = range.begin(view, toward)?;
                        let is_forward = toward == Toward::Upper;
                        if seeded!(ReanchorTooFar) && is_forward && *lower > self.begin {
                            begun.next()?;
                        }
                        end.anchor();
                        slot.insert(begun)
                    }
                };
                let gathered = end.gather(cursor, toward, at, range, batch_bytes);
                charged.append(&mut cursor.settle());
                let has_lost_run = cursor.has_lost_run();
                if let Err(error) = gathered {
                    *slot = None;
                    // What was met before the error is handed out. The next batch begins after it:
                    // then the error is what the caller asks for, or there is none any more.
                    if end.is_handed_out() {
                        // It was met in a derived run: without it, all is there.
                        if has_lost_run {
                            continue;
                        }
                        return Err(error);
                    }
                }
                end.fetch(view, &mut charged)?;
                position.count();
                return Ok(());
            }
        });
        // What was charged is reported once, whatever came of the batch.
        wake_for(charged, &self.holder);
        gathered.map(|()| self.account())
    }

    /// Whether the front has an entry to hand out; it gathers a batch if need be.
    fn has_next(&mut self) -> Result<bool> {
        if self.front.is_handed_out() {
            self.raise_lower();
            if self.lower >= self.upper {
                return Ok(false);
            }
            self.gather(Toward::Upper)?;
        }
        // Entries were gathered before `upper`, as it was then.
        let is_before = |key: &[u8]| !self.has_upper_moved || *key < self.upper[..];
        Ok(self.front.key().is_some_and(is_before))
    }

    /// The same of the back.
    fn has_next_back(&mut self) -> Result<bool> {
        self.raise_lower();
        if self.lower >= self.upper {
            return Ok(false);
        }
        if self.back.is_handed_out() {
            self.gather(Toward::Lower)?;
        }
        let back = &mut self.back;
        let lower = &self.lower[..];
        let passed = |key: &[u8]| key < lower && !seeded!(EndsOverlap);
        let Some(key) = back.key().filter(|key| !passed(key)) else {
            return Ok(false);
        };
        self.upper.clear();
        self.upper.extend_from_slice(key);
        self.has_upper_moved = true;
        Ok(true)
    }

    /// The end that goes this way, if it has an entry to hand out.
    fn end_with_entry(&mut self, toward: Toward) -> Result<Option<(&mut End, &ViewHolder)>> {
        let has_entry = match toward {
            Toward::Upper => self.has_next()?,
            Toward::Lower => self.has_next_back()?,
        };
        // After the look: a keyspace that is gone must not look empty.
        self.check_keyspace()?;
        let end = match toward {
            Toward::Upper => &mut self.front,
            Toward::Lower => &mut self.back,
        };
        Ok(has_entry.then_some((end, &self.holder)))
    }

    #[inline(always)]
    fn next_entry(&mut self, toward: Toward) -> Result<Option<(Bytes, Bytes)>> {
        match self.end_with_entry(toward)? {
            Some((end, holder)) => end.hand_out(|key| holder.look_up(key)),
            None => Ok(None),
        }
    }

    /// The next entry, with what a transaction has written.
    #[inline(always)]
    fn next_of_all(&mut self, toward: Toward) -> Result<Option<(Bytes, Bytes)>> {
        let Some(mut overlay) = self.overlay.take() else {
            return self.next_entry(toward);
        };
        let next = overlay.next(toward, &mut Entries(self));
        self.overlay = Some(overlay);
        Ok(next?.map(|(key, value)| (key, value.unwrap_or_default())))
    }

    /// The next key this way, and its value if that has been fetched.
    pub(crate) fn next_key(&mut self, toward: Toward) -> Option<Result<(Bytes, Option<Bytes>)>> {
        if self.asked.is_some() {
            return self.as_asked(|iter| iter.next_key(toward));
        }
        self.or_end(|iter| iter.next_key_of_all(toward))
    }

    fn next_key_of_all(&mut self, toward: Toward) -> Result<Option<(Bytes, Option<Bytes>)>> {
        let Some(mut overlay) = self.overlay.take() else {
            return self.hand_out_key(toward);
        };
        let next = overlay.next(toward, &mut KeysAlone(self));
        self.overlay = Some(overlay);
        next
    }

    fn hand_out_key(&mut self, toward: Toward) -> Result<Option<(Bytes, Option<Bytes>)>> {
        let end = self.end_with_entry(toward)?;
        Ok(end.and_then(|(end, _)| end.hand_out_key()))
    }

    /// Counts what the buffers take. While all iterators take too much, they go on without cursors:
    /// each batch finds its place again.
    fn account(&mut self) {
        let range = self.begin.capacity() + self.lower.capacity() + self.upper.capacity();
        let ends = self.front.memory_bytes() + self.back.memory_bytes();
        if self.memory.note(range + ends) {
            self.holder.moment().read().views.release();
        }
    }

    fn or_end<T>(
        &mut self,
        next: impl FnOnce(&mut Iter) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        if let Some(error) = self.error.take() {
            self.ended = true;
            return Some(Err(error));
        }
        if self.ended {
            return None;
        }
        // What was gathered before the closing is not handed out after it.
        let is_closed = self.holder.moment().read().core.is_closed();
        let closed = || Err(Error::closed());
        let next = if is_closed { closed() } else { next(self) };
        self.end_if(next.is_err());
        let read = self.holder.moment().read();
        let why = |error| self.check_keyspace().err().unwrap_or(error);
        next.map_err(|error| read.core.unless_closed(why(error)))
            .transpose()
    }
}

/// Wakes the background if a merge of keys or clustering may be worth their cost now in these
/// partitions, or all blocks of a table.
fn wake_for(charged: Vec<PartitionId>, holder: &ViewHolder) {
    let read = holder.moment().read();
    let is_charged = !charged.is_empty();
    charged.into_iter().for_each(|id| read.charged.report(id));
    if read.core.cache.are_blocks_wanted() || is_charged {
        read.core.work.notify();
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.asked.is_some() {
            return self.next_as_asked(Toward::Upper);
        }
        self.or_end(|iter| iter.next_of_all(Toward::Upper))
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.asked.is_some() {
            return self.next_as_asked(Toward::Lower);
        }
        self.or_end(|iter| iter.next_of_all(Toward::Lower))
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("seq", &self.holder.moment().seq().0)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
