//! One shard of the log, under its lock.

use super::item::LogItem;
use super::place::{Place, PlaceHash};
use super::segment_memory::SegmentMemory;
use super::slots::{Location, MOST_PER_SEGMENT, Slots};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::unseen::AtomicU8;
use bytes::Bytes;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

/// What is longer than this part of a segment keeps the memory that it came with.
const LARGE_PART: usize = 3;
/// This many times of asking are remembered: each is worth a chance.
pub(crate) const MOST_ASKED: u8 = 3;

pub(super) struct Shard<T> {
    slots: Slots,
    /// What came to each segment. Oldest first; the last one is *open*: items are added to it.
    segments: VecDeque<Vec<Entry<T>>>,
    /// Of the oldest segment.
    first_number: u64,
    /// Bytes that came to the open segment: such as will be stored there, and others.
    open_small: usize,
    open_large: usize,
    memory: Arc<SegmentMemory>,
    /// Memory of segments, of those that are gone and held by somebody, too.
    segment_bytes: Arc<AtomicUsize>,
    /// What items and their entries take beside it.
    beside_bytes: usize,
    capacity_bytes: usize,
}

struct Entry<T> {
    place: Place,
    /// Nothing once it is gone, or has come again elsewhere.
    item: Option<T>,
    /// Whether its bytes stand in memory of the segment.
    is_stored: bool,
    asked: AtomicU8,
}

/// Whether an item of `len` bytes is stored in a segment.
fn is_small(len: usize, segment_len: usize) -> bool {
    (1..=segment_len / LARGE_PART).contains(&len)
}

impl<T: LogItem> Entry<T> {
    /// Its bytes, if they are to be stored in the segment.
    fn small_bytes(&self, segment_len: usize) -> Option<&[u8]> {
        let bytes = self.item.as_ref()?.bytes();
        is_small(bytes.len(), segment_len).then_some(bytes)
    }
}

/// Memory that an item takes, but that of its segment.
fn beside_bytes<T: LogItem>(item: &T, is_stored: bool) -> usize {
    let bytes = if is_stored { 0 } else { item.bytes().len() };
    bytes + item.beside_bytes()
}

impl<T: LogItem> Shard<T> {
    pub(super) fn new(capacity_bytes: usize, memory: Arc<SegmentMemory>) -> Shard<T> {
        Shard {
            slots: Slots::default(),
            segments: VecDeque::new(),
            first_number: 0,
            open_small: 0,
            open_large: 0,
            memory,
            segment_bytes: Arc::default(),
            beside_bytes: 0,
            capacity_bytes,
        }
    }

    /// See [`super::ItemLog::get`].
    #[inline(always)]
    pub(super) fn get<R>(&self, place: &Place, take: impl FnOnce(&T, bool) -> R) -> Option<R> {
        let entry = self.entry(self.find(place)?)?;
        // Of two at the same time one may be forgotten.
        let asked = entry.asked.load(Ordering::Relaxed);
        if asked < MOST_ASKED {
            entry.asked.store(asked + 1, Ordering::Relaxed);
        }
        Some(take(entry.item.as_ref()?, entry.is_stored))
    }

    pub(super) fn peek(&self, place: &Place) -> Option<&T> {
        self.entry(self.find(place)?)?.item.as_ref()
    }

    /// Shows `visit` the items of the last segment before the one of number `end`, and says its
    /// number; nothing if there is none.
    pub(super) fn visit_before(
        &self,
        end: u64,
        visit: &mut impl FnMut(&Place, &T, u8),
    ) -> Option<u64> {
        let segments = end.checked_sub(self.first_number)?;
        let segments = usize::try_from(segments).unwrap_or(usize::MAX);
        let last = self.segments.len().min(segments).checked_sub(1)?;
        for entry in self.segments.get(last)? {
            if let Some(item) = &entry.item {
                visit(&entry.place, item, entry.asked.load(Ordering::Relaxed));
            }
        }
        Some(self.first_number + last as u64)
    }

    fn find(&self, place: &Place) -> Option<Location> {
        let is_it = |at| self.entry(at).is_some_and(|entry| entry.place == *place);
        let hash = PlaceHash.hash_one(place);
        self.slots.find(hash, self.first_number, is_it)
    }

    fn entry(&self, at: Location) -> Option<&Entry<T>> {
        let segment = at.segment.checked_sub(self.first_number)?;
        self.segments.get(segment as usize)?.get(at.nth)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let segments = self.segment_bytes.load(Ordering::Relaxed);
        let unfilled = self
            .segments
            .back()
            .map_or(0, |open| open.capacity() - open.len());
        let unfilled = unfilled * size_of::<Entry<T>>();
        segments + self.slots.memory_bytes() + self.beside_bytes + unfilled
    }

    pub(super) fn set_capacity(&mut self, bytes: usize, chances: usize) {
        self.capacity_bytes = bytes;
        self.make_room(chances);
    }

    /// Whether `item` leaves room for others.
    pub(super) fn admits(&self, item: &T) -> bool {
        beside_bytes(item, false) <= self.capacity_bytes / 2
    }

    /// Puts an item to the end of the log, in the place of what was there.
    pub(super) fn append(&mut self, place: Place, item: T, asked: u8) {
        self.remove(&place);
        let (segment_len, len) = (self.memory.segment_len(), item.bytes().len());
        let (small, large) = if is_small(len, segment_len) {
            (len, 0)
        } else {
            (0, len.max(item.beside_bytes()))
        };
        let is_full = self.segments.back().is_none_or(|open| {
            let has_room = (self.open_small + small).max(self.open_large + large) <= segment_len;
            !has_room && !open.is_empty() || open.len() == MOST_PER_SEGMENT
        });
        if is_full {
            self.close_segment();
            self.segments.push_back(Vec::new());
            (self.open_small, self.open_large) = (0, 0);
        }
        self.open_small += small;
        self.open_large += large;
        self.beside_bytes += beside_bytes(&item, false) + size_of::<Entry<T>>();
        let number = self.first_number + self.segments.len() as u64 - 1;
        let Some(open) = self.segments.back_mut() else {
            return;
        };
        let at = Location {
            segment: number,
            nth: open.len(),
        };
        open.push(Entry {
            place,
            item: Some(item),
            is_stored: false,
            asked: AtomicU8::new(asked),
        });
        self.slots.insert(PlaceHash.hash_one(place), at);
    }

    /// Gives the open segment, if there is one, memory of its own, unless little would stand there.
    fn close_segment(&mut self) {
        let Some(entries) = self.segments.back_mut() else {
            return;
        };
        entries.shrink_to_fit();
        let segment_len = self.memory.segment_len();
        if self.open_small <= segment_len / 2 {
            return;
        }
        let parts = entries
            .iter()
            .filter_map(|entry| entry.small_bytes(segment_len));
        let Some(mut stored) = self.memory.gather(parts, &self.segment_bytes) else {
            return;
        };
        for entry in entries {
            let len = entry.small_bytes(segment_len).map_or(0, <[u8]>::len);
            if let Some(item) = entry.item.as_mut().filter(|_| len > 0) {
                item.set_bytes(stored.split_to(len));
                entry.is_stored = true;
                self.beside_bytes -= len;
            }
        }
    }

    pub(super) fn remove(&mut self, place: &Place) {
        if let Some(at) = self.find(place) {
            self.take(at);
        }
    }

    /// Takes the item at `at` away.
    fn take(&mut self, at: Location) {
        let segment = (at.segment - self.first_number) as usize;
        let segment = self.segments.get_mut(segment);
        let Some(entry) = segment.and_then(|segment| segment.get_mut(at.nth)) else {
            return;
        };
        let (place, is_stored) = (entry.place, entry.is_stored);
        if let Some(item) = entry.item.take() {
            self.forget(&place, at, &item, is_stored);
        }
    }

    /// `item`, which stood at `at`, is there no more.
    fn forget(&mut self, place: &Place, at: Location, item: &T, is_stored: bool) {
        self.slots.remove(PlaceHash.hash_one(place), at);
        self.beside_bytes -= beside_bytes(item, is_stored);
    }

    /// Lets items go until the memory is within the capacity; of this many segments in turn, what
    /// was asked for stays. Whether any had to go.
    pub(super) fn make_room(&mut self, chances: usize) -> bool {
        let mut gone = 0;
        while self.memory_bytes() > self.capacity_bytes && !self.segments.is_empty() {
            self.evict(gone % (chances + 1) == chances);
            gone += 1;
        }
        gone > 0
    }

    /// Lets the oldest segment go, and what nobody has asked for in it; the rest as well if it
    /// `has_no_chance`.
    fn evict(&mut self, has_no_chance: bool) {
        let Some(segment) = self.segments.pop_front() else {
            return;
        };
        let number = self.first_number;
        self.first_number += 1;
        self.beside_bytes -= segment.len() * size_of::<Entry<T>>();
        for (nth, entry) in segment.into_iter().enumerate() {
            let Some(mut item) = entry.item else {
                continue;
            };
            let at = Location {
                segment: number,
                nth,
            };
            self.forget(&entry.place, at, &item, entry.is_stored);
            let asked = entry.asked.into_inner();
            if asked == 0 || has_no_chance {
                continue;
            }
            if entry.is_stored {
                // The segment's memory does not wait until the next one is closed.
                item.set_bytes(Bytes::copy_from_slice(item.bytes()));
            }
            self.append(entry.place, item, asked - 1);
        }
    }
}
