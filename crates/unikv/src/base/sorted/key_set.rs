//! A set of keys that only grows, in pages of some kilobytes each.
//!
//! A key takes little more than its bytes, and millions of them few allocations: an allocator that
//! takes back as many small pieces at once makes other threads wait for that.
//!
//! Invariants: pages stand by a bound that is at most their first key and greater than all keys of
//! the page before; the first bound is the empty key. No page is empty. No locks.

use std::collections::BTreeMap;
use std::ops::Bound;

/// A page is split when it would take more than this, unless it has one key.
const PAGE_BYTES: usize = 4 << 10;
/// What a page takes beside its keys and its bound, about.
const PER_PAGE: usize = 112;

#[derive(Debug, Default)]
pub(crate) struct KeySet {
    pages: BTreeMap<Box<[u8]>, Page>,
    len: usize,
    key_bytes: usize,
    page_bytes: usize,
}

/// Keys one after the other, and where each ends.
#[derive(Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl KeySet {
    /// Adds a key. Whether it is new.
    pub(crate) fn insert(&mut self, key: &[u8]) -> bool {
        let last = self.pages.range_mut::<[u8], _>(upto(key)).next_back();
        let Some((_, page)) = last else {
            self.add_page(&[], Page::of(key));
            return self.count(key);
        };
        let Err(at) = page.search(key) else {
            return false;
        };
        let before = page.memory_bytes();
        let is_full = page.used_bytes() + key.len() >= PAGE_BYTES;
        if !is_full || page.ends.is_empty() {
            page.insert(at, key);
            self.page_bytes += page.memory_bytes() - before;
            return self.count(key);
        }
        if at == page.ends.len() {
            // Keys that ascend leave full pages.
            self.add_page(key, Page::of(key));
            return self.count(key);
        }
        let rest = page.split_off(page.ends.len().div_ceil(2));
        self.page_bytes = self.page_bytes + page.memory_bytes() - before;
        if let Some(first) = rest.key(0).map(<[u8]>::to_vec) {
            self.add_page(&first, rest);
            return self.insert(key);
        }
        // It has one key: the new one, which is less, takes its place.
        let page = std::mem::replace(page, Page::of(key));
        self.page_bytes = self.page_bytes + key.len() + size_of::<u32>() - page.memory_bytes();
        if let Some(first) = page.key(0).map(<[u8]>::to_vec) {
            self.add_page(&first, page);
        }
        self.count(key)
    }

    fn count(&mut self, key: &[u8]) -> bool {
        self.len += 1;
        self.key_bytes += key.len();
        true
    }

    fn add_page(&mut self, bound: &[u8], page: Page) {
        self.page_bytes += page.memory_bytes() + PER_PAGE + bound.len();
        self.pages.insert(bound.into(), page);
    }

    /// Whether it has this key.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.page_of(key)
            .is_some_and(|page| page.search(key).is_ok())
    }

    /// Whether it has a key from `start` to before `end`.
    pub(crate) fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        let in_page = self.page_of(start).and_then(|page| {
            let (Ok(at) | Err(at)) = page.search(start);
            page.key(at)
        });
        let after = (Bound::Excluded(start), Bound::Unbounded);
        let next = || {
            let (_, page) = self.pages.range::<[u8], _>(after).next()?;
            page.key(0)
        };
        let first = if start < end {
            in_page.or_else(next)
        } else {
            None
        };
        first.is_some_and(|first| first < end)
    }

    /// The keys, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pages
            .values()
            .flat_map(|page| (0..page.ends.len()).filter_map(|at| page.key(at)))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the keys.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.page_bytes
    }

    fn page_of(&self, key: &[u8]) -> Option<&Page> {
        let pages = self.pages.range::<[u8], _>(upto(key));
        pages.map(|(_, page)| page).next_back()
    }
}

fn upto(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(key))
}

impl Page {
    fn of(key: &[u8]) -> Page {
        Page {
            bytes: key.to_vec(),
            ends: vec![key.len() as u32],
        }
    }

    fn key(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        self.bytes.get(self.start(at)..end as usize)
    }

    /// Where the key in this place begins.
    fn start(&self, at: usize) -> usize {
        let before = at.checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |end| *end as usize)
    }

    /// The place of a key, or where it is to be.
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.ends.len());
        while from < to {
            let middle = from + (to - from) / 2;
            match self.key(middle).unwrap_or_default().cmp(key) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    fn insert(&mut self, at: usize, key: &[u8]) {
        let start = self.start(at);
        self.bytes.splice(start..start, key.iter().copied());
        self.ends.insert(at, start as u32);
        for end in self.ends.iter_mut().skip(at) {
            *end += key.len() as u32;
        }
    }

    /// The keys from this place on.
    fn split_off(&mut self, at: usize) -> Page {
        let start = self.start(at);
        let mut ends = self.ends.split_off(at);
        ends.iter_mut().for_each(|end| *end -= start as u32);
        Page {
            bytes: self.bytes.split_off(start),
            ends,
        }
    }

    fn used_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.ends[..])
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;

    #[test]
    fn it_holds_what_a_tree_holds_and_takes_little_more_than_the_keys() {
        for seed in 0..12 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut set, mut model) = (KeySet::default(), BTreeSet::new());
            for n in 0..3000_u32 {
                let mut key = match seed % 3 {
                    0 => n.to_be_bytes().to_vec(),
                    1 => rng.random_range(0..4000_u32).to_be_bytes().to_vec(),
                    _ => (u32::MAX - n).to_be_bytes().to_vec(),
                };
                if rng.random_range(0..100) == 0 {
                    key.resize(rng.random_range(0..9000), n as u8);
                }
                assert_eq!(set.insert(&key), model.insert(key));
            }
            assert!(set.iter().eq(model.iter().map(Vec::as_slice)));
            assert_eq!(set.len(), model.len());
            assert_eq!(set.key_bytes(), model.iter().map(Vec::len).sum::<usize>());
            let pages = set.pages.iter().map(|(bound, page)| {
                assert!(!page.ends.is_empty());
                page.memory_bytes() + PER_PAGE + bound.len()
            });
            assert_eq!(set.memory_bytes(), pages.sum::<usize>());
            for _ in 0..500 {
                let mut key = || rng.random_range(0..5000_u32).to_be_bytes();
                let (from, to) = (key(), key());
                assert_eq!(set.contains(&from), model.contains(&from[..]));
                let mut range = model.iter().filter(|key| key[..] >= from[..]);
                let meets = range.next().is_some_and(|first| first[..] < to[..]);
                assert_eq!(set.meets(&from, &to), from < to && meets, "seed {seed}");
            }
        }
        let mut set = KeySet::default();
        (0..100_000_u64).for_each(|n| assert!(set.insert(&n.to_be_bytes())));
        assert!(
            set.memory_bytes() < 20 * set.len(),
            "{}",
            set.memory_bytes()
        );
    }
}
