//! Sorted lists that versions share: an edit copies the chunks that it touches, and the list of
//! chunks.
//!
//! A chunk sums up its items once, when it is first asked, and forgets that when it is changed. So
//! the sums of a list with few changes cost a look at the chunks that changed, and one at each
//! other chunk as a whole. A sum need not have an inverse: greatest values are sums, too.
//!
//! Invariants: keys ascend; no chunk is empty or has more than [`MOST`] items.
//!
//! No locks.

use crate::base::sync::OnceLock;
use std::ops::Range;
use std::sync::Arc;

/// Items of a chunk.
const MOST: usize = 64;
/// Neighbours that have no more than this together become one.
const FEW: usize = 32;

/// What is kept in such a list.
pub(crate) trait Item: Clone {
    /// By which the list is sorted.
    type Key: Ord + ?Sized;
    /// What a chunk sums up.
    type Sum: Default;

    fn key(&self) -> &Self::Key;

    /// Adds what it counts for, following the item `before` of its chunk.
    fn add_to(&self, before: Option<&Self>, sum: &mut Self::Sum);
}

/// What is computed once from something that does not change. A copy, which is about to be
/// changed, has nothing.
pub(crate) struct Once<T>(OnceLock<T>);

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once(OnceLock::new())
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Once<T> {
        Once::default()
    }
}

impl<T> Once<T> {
    pub(crate) fn get_or(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }
}

/// A sorted list.
pub(crate) struct Chunked<T: Item> {
    chunks: Vec<Arc<Chunk<T>>>,
    /// The place of each chunk's first item, and after them the number of items.
    starts: Vec<usize>,
}

struct Chunk<T: Item> {
    items: Vec<T>,
    sum: Once<T::Sum>,
}

impl<T: Item> Clone for Chunk<T> {
    fn clone(&self) -> Chunk<T> {
        Chunk::of(self.items.clone())
    }
}

impl<T: Item> Clone for Chunked<T> {
    fn clone(&self) -> Chunked<T> {
        Chunked {
            chunks: self.chunks.clone(),
            starts: self.starts.clone(),
        }
    }
}

impl<T: Item> Default for Chunked<T> {
    fn default() -> Chunked<T> {
        Chunked {
            chunks: Vec::new(),
            starts: vec![0],
        }
    }
}

impl<T: Item> Chunk<T> {
    fn of(items: Vec<T>) -> Chunk<T> {
        Chunk {
            items,
            sum: Once::default(),
        }
    }

    fn sum(&self) -> &T::Sum {
        self.sum.get_or(|| sum_of(&self.items))
    }
}

/// What follows one another sums up to.
fn sum_of<'a, T: Item + 'a>(items: impl IntoIterator<Item = &'a T>) -> T::Sum {
    let (mut sum, mut before) = (T::Sum::default(), None);
    for item in items {
        item.add_to(before, &mut sum);
        before = Some(item);
    }
    sum
}

impl<T: Item> Chunked<T> {
    pub(crate) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Memory of the list of chunks.
    pub(crate) fn list_bytes(&self) -> usize {
        self.chunks.len() * (size_of::<Arc<Chunk<T>>>() + size_of::<usize>())
    }

    /// The items in their order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| &chunk.items)
    }

    /// The items in their order, from the one at a place on.
    pub(crate) fn iter_from(&self, at: usize) -> impl Iterator<Item = &T> {
        let chunk = self.chunk_at(at);
        let skipped = at - self.starts.get(chunk).copied().unwrap_or(at);
        let chunks = self.chunks.get(chunk..).unwrap_or_default();
        chunks.iter().flat_map(|chunk| &chunk.items).skip(skipped)
    }

    /// The items at some places, in their order.
    pub(crate) fn range(&self, places: Range<usize>) -> impl Iterator<Item = &T> {
        self.iter_from(places.start).take(places.len())
    }

    /// The item at a place.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        let chunk = if self.chunks.len() == 1 {
            0
        } else {
            self.chunk_at(at)
        };
        let within = at.checked_sub(*self.starts.get(chunk)?)?;
        self.chunks.get(chunk)?.items.get(within)
    }

    #[cfg(test)]
    pub(crate) fn first(&self) -> Option<&T> {
        self.get(0)
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.chunks.last()?.items.last()
    }

    /// The item with this key.
    #[inline]
    pub(crate) fn find(&self, key: &T::Key) -> Option<&T> {
        let (chunk, found) = self.search(key);
        self.chunks.get(chunk)?.items.get(found.ok()?)
    }

    /// The last item with a key of which this holds, as it does of the first ones.
    #[inline]
    pub(crate) fn last_of(&self, holds: impl Fn(&T::Key) -> bool) -> Option<&T> {
        let items = &self.chunks.get(self.chunk_with_border(&holds))?.items;
        let border = items.partition_point(|item| holds(item.key()));
        items.get(border.checked_sub(1)?)
    }

    /// The last chunk of which this holds at the beginning, or the first one.
    #[inline]
    fn chunk_with_border(&self, holds: impl Fn(&T::Key) -> bool) -> usize {
        if self.chunks.len() == 1 {
            return 0;
        }
        let begins = |chunk: &Arc<Chunk<T>>| chunk.items.first().is_some_and(|i| holds(i.key()));
        self.chunks.partition_point(begins).saturating_sub(1)
    }

    /// How many items have keys of which this holds, as it does of the first ones.
    #[inline]
    pub(crate) fn partition_point(&self, holds: impl Fn(&T::Key) -> bool) -> usize {
        let chunk = self.chunk_with_border(&holds);
        let (Some(found), Some(start)) = (self.chunks.get(chunk), self.starts.get(chunk)) else {
            return 0;
        };
        start + found.items.partition_point(|item| holds(item.key()))
    }

    /// What each chunk sums up.
    pub(crate) fn sums(&self) -> impl Iterator<Item = &T::Sum> {
        self.chunks.iter().map(|chunk| chunk.sum())
    }

    /// The items in the chunks of which this holds.
    pub(crate) fn where_sums<'a>(
        &'a self,
        holds: impl Fn(&T::Sum) -> bool + 'a,
    ) -> impl Iterator<Item = &'a T> {
        let chunks = self.chunks.iter().filter(move |chunk| holds(chunk.sum()));
        chunks.flat_map(|chunk| &chunk.items)
    }

    /// The last item of each chunk with the first of the next.
    pub(crate) fn borders(&self) -> impl Iterator<Item = (&T, &T)> {
        let pairs = self.chunks.iter().zip(self.chunks.iter().skip(1));
        pairs.filter_map(|(left, right)| Some((left.items.last()?, right.items.first()?)))
    }

    /// The items in chunks that `other` does not share.
    pub(crate) fn not_shared_with<'a>(&'a self, other: &Chunked<T>) -> impl Iterator<Item = &'a T> {
        let theirs = other.chunks.iter().map(Arc::as_ptr);
        let theirs: std::collections::HashSet<_> = theirs.collect();
        let own = self.chunks.iter();
        let own = own.filter(move |chunk| !theirs.contains(&Arc::as_ptr(chunk)));
        own.flat_map(|chunk| &chunk.items)
    }

    /// The item with this key, to be changed; its key stays.
    pub(crate) fn find_mut(&mut self, key: &T::Key) -> Option<&mut T> {
        let (chunk, found) = self.search(key);
        let chunk = Arc::make_mut(self.chunks.get_mut(chunk)?);
        chunk.sum = Once::default();
        chunk.items.get_mut(found.ok()?)
    }

    /// Adds an item. False: there is one with its key.
    pub(crate) fn insert(&mut self, item: T) -> bool {
        let (at, found) = self.search(item.key());
        let Err(within) = found else {
            return false;
        };
        let is_last = at + 1 >= self.chunks.len();
        match self.chunks.get_mut(at) {
            None => self.chunks.push(Arc::new(Chunk::of(vec![item]))),
            // What ascends fills chunk after chunk.
            Some(chunk) if is_last && within == MOST => {
                debug_assert_eq!(chunk.items.len(), MOST);
                self.chunks.push(Arc::new(Chunk::of(vec![item])));
            }
            Some(chunk) => {
                let chunk = Arc::make_mut(chunk);
                chunk.sum = Once::default();
                chunk.items.insert(within, item);
                if chunk.items.len() > MOST {
                    let rest = chunk.items.split_off(MOST / 2);
                    self.chunks.insert(at + 1, Arc::new(Chunk::of(rest)));
                }
            }
        }
        self.count_from(at);
        true
    }

    /// Takes out the item with this key.
    pub(crate) fn remove(&mut self, key: &T::Key) -> Option<T> {
        let (at, found) = self.search(key);
        let within = found.ok()?;
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        chunk.sum = Once::default();
        let item = chunk.items.remove(within);
        if chunk.items.is_empty() {
            self.chunks.remove(at);
        } else if chunk.items.len() < FEW / 2 {
            self.join_at(at);
        }
        self.count_from(at.saturating_sub(1));
        Some(item)
    }

    /// Joins a small chunk to a neighbour if both have few items.
    fn join_at(&mut self, at: usize) {
        let len = |at: usize| self.chunks.get(at).map_or(MOST, |chunk| chunk.items.len());
        let joins = |left: usize| len(left) + len(left + 1) <= FEW;
        let before = at.checked_sub(1).filter(|left| joins(*left));
        let Some(left) = before.or_else(|| joins(at).then_some(at)) else {
            return;
        };
        let right = self.chunks.remove(left + 1);
        if let Some(left) = self.chunks.get_mut(left) {
            let left = Arc::make_mut(left);
            left.sum = Once::default();
            left.items.extend(right.items.iter().cloned());
        }
    }

    /// Counts the items before each chunk again, from this one on.
    fn count_from(&mut self, first: usize) {
        self.starts.truncate(first + 1);
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        let first = self.starts.len() - 1;
        let mut start = self.starts.get(first).copied().unwrap_or(0);
        for chunk in self.chunks.iter().skip(first) {
            start += chunk.items.len();
            self.starts.push(start);
        }
    }

    /// The chunk with the item at a place.
    fn chunk_at(&self, at: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= at)
            .saturating_sub(1)
    }

    /// The chunk that has the key or would take it, and where within.
    #[inline]
    fn search(&self, key: &T::Key) -> (usize, Result<usize, usize>) {
        let chunk = self.chunk_with_border(|begin| begin <= key);
        let items = self.chunks.get(chunk).map_or(&[][..], |c| &c.items);
        (chunk, items.binary_search_by(|item| item.key().cmp(key)))
    }
}

#[cfg(test)]
impl<T: Item> Chunked<T> {
    pub(crate) fn to_vec(&self) -> Vec<T> {
        self.iter().cloned().collect()
    }
}

#[cfg(test)]
impl<T: Item> std::ops::Index<usize> for Chunked<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        self.get(at).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;

    impl Item for (u32, u64) {
        type Key = u32;
        type Sum = (u64, u64);

        fn key(&self) -> &u32 {
            &self.0
        }

        fn add_to(&self, before: Option<&(u32, u64)>, sum: &mut (u64, u64)) {
            assert!(before.is_none_or(|before| before.0 < self.0));
            *sum = (sum.0 + self.1, sum.1.max(self.1));
        }
    }

    fn same(list: &Chunked<(u32, u64)>, model: &BTreeMap<u32, u64>, rng: &mut SmallRng) {
        let all: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
        assert!(list.iter().eq(&all) && list.iter().rev().eq(all.iter().rev()));
        assert_eq!(list.len(), all.len());
        assert_eq!((list.first(), list.last()), (all.first(), all.last()));
        let sums = list.sums();
        let sums = sums.fold((0, 0), |all, sum| (all.0 + sum.0, all.1.max(sum.1)));
        let most = all.iter().map(|(_, value)| *value).max();
        let sum = all.iter().map(|(_, value)| value).sum();
        assert_eq!(sums, (sum, most.unwrap_or(0)));
        let at = rng.random_range(0..all.len() + 2);
        assert_eq!(list.get(at), all.get(at));
        assert!(list.iter_from(at).eq(all.iter().skip(at)));
        let key = rng.random_range(0..2000);
        let before = all.iter().filter(|(other, _)| *other < key).count();
        assert_eq!(list.partition_point(|other| *other < key), before);
        let last = before.checked_sub(1).and_then(|at| all.get(at));
        assert_eq!(list.last_of(|other| *other < key), last);
        assert_eq!(list.find(&key).map(|item| item.1), model.get(&key).copied());
        assert!(
            list.chunks
                .iter()
                .all(|c| (1..=MOST).contains(&c.items.len()))
        );
        assert_eq!(list.borders().count(), list.chunks.len().saturating_sub(1));
    }

    #[test]
    fn it_is_a_sorted_list_and_earlier_ones_stay_as_they_were() {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut list, mut model) = (Chunked::default(), BTreeMap::new());
        for round in 0..40 {
            let (before, then) = (Chunked::clone(&list), model.clone());
            // It grows, then shrinks.
            for _ in 0..200 {
                let (key, value) = (rng.random_range(0..2000), rng.random_range(0..1000));
                match rng.random_range(0..3) {
                    0 if round < 20 => {
                        let is_new = !model.contains_key(&key);
                        assert_eq!(list.insert((key, value)), is_new);
                        model.entry(key).or_insert(value);
                    }
                    1 => {
                        let found = list.find_mut(&key);
                        assert_eq!(found.is_some(), model.contains_key(&key));
                        if let Some(item) = found {
                            item.1 = value;
                            model.insert(key, value);
                        }
                    }
                    _ if round >= 20 || key % 4 == 0 => {
                        let removed = list.remove(&key).map(|(_, value)| value);
                        assert_eq!(removed, model.remove(&key));
                    }
                    _ => {}
                }
            }
            same(&list, &model, &mut rng);
            same(&before, &then, &mut rng);
        }
    }

    #[test]
    fn a_change_copies_one_chunk_and_its_sum_alone_is_made_again() {
        let mut list = Chunked::default();
        (0..6400).for_each(|key| assert!(list.insert((key, 1))));
        assert_eq!(list.chunks.len(), 100, "ascending keys fill the chunks");
        let before = list.clone();
        assert_eq!(list.sums().map(|sum| sum.0).sum::<u64>(), 6400);
        list.find_mut(&3000).unwrap().1 = 5;
        let copied: Vec<_> = list.not_shared_with(&before).collect();
        assert_eq!(copied.len(), MOST);
        let known = |chunk: &&Arc<Chunk<(u32, u64)>>| chunk.sum.0.get().is_some();
        assert_eq!(list.chunks.iter().filter(known).count(), 99);
        assert_eq!(list.sums().map(|sum| sum.0).sum::<u64>(), 6404);
        list.remove(&3000).unwrap();
        assert_eq!(list.not_shared_with(&before).count(), MOST - 1);
    }
}
