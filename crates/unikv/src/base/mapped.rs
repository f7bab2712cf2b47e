//! Memory that comes from the system, and goes back to it as soon as it is dropped.
//!
//! An allocator may keep what one thread has taken and another gives back, for neither of them to
//! use. That does for what is small or short-lived; not for the memory that caches, memtables and
//! indexes give up for one another.

use crate::base::sync::atomic::Ordering;
use crate::base::sync::unseen::AtomicUsize;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};
use std::slice::Iter;

/// No system has smaller pages; most have these.
pub(crate) const PAGE_BYTES: usize = 4 << 10;
/// Fewer bytes than these are not worth a mapping of their own.
pub(crate) const LEAST_MAPPED_BYTES: usize = 64 << 10;

static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all mapped memory of this process, for tests that count what is allocated.
pub(crate) fn mapped_bytes() -> usize {
    MAPPED_BYTES.load(Ordering::Relaxed)
}

/// Zeroed memory.
#[derive(Debug)]
pub(crate) struct Mapped(MmapMut);

impl Mapped {
    /// `len` bytes, unless the system has none. Whole pages are taken.
    pub(crate) fn new(len: usize) -> Option<Mapped> {
        let mapped = MmapMut::map_anon(len).ok()?;
        MAPPED_BYTES.fetch_add(mapped.len(), Ordering::Relaxed);
        Some(Mapped(mapped))
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPPED_BYTES.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// A word as bytes of this machine.
pub(crate) type Word = [u8; Words::LEN];

/// Words, zeroed at first. Where there are many, their memory is mapped.
#[derive(Debug)]
pub(crate) enum Words {
    Few(Box<[u8]>),
    Many(Mapped),
}

impl Words {
    const LEN: usize = size_of::<u64>();

    /// This many words, unless the system has no memory for them.
    pub(crate) fn new(count: usize) -> Option<Words> {
        let bytes = count.checked_mul(Words::LEN)?;
        if bytes < LEAST_MAPPED_BYTES {
            return Some(Words::Few(vec![0; bytes].into_boxed_slice()));
        }
        Mapped::new(bytes).map(Words::Many)
    }

    /// The memory that this many words take.
    pub(crate) fn bytes_for(count: usize) -> usize {
        match count.saturating_mul(Words::LEN) {
            few @ ..LEAST_MAPPED_BYTES => few,
            many => many.checked_next_multiple_of(PAGE_BYTES).unwrap_or(many),
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// The words from place `at` on, and those before it; as bytes of this machine.
    #[inline]
    pub(crate) fn around(&self, at: usize) -> (Iter<'_, Word>, Iter<'_, Word>) {
        let (before, from) = self.all().split_at_checked(at).unwrap_or_default();
        (from.iter(), before.iter())
    }

    /// The word in place `at`, which must be below their number.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.all()[at])
    }

    /// Changes the word in place `at`, which must be below their number.
    pub(crate) fn set(&mut self, at: usize, word: u64) {
        let bytes: &mut [u8] = match self {
            Words::Few(bytes) => bytes,
            Words::Many(mapped) => mapped,
        };
        bytes.as_chunks_mut().0[at] = word.to_ne_bytes();
    }

    #[inline]
    fn all(&self) -> &[Word] {
        let bytes: &[u8] = match self {
            Words::Few(bytes) => bytes,
            Words::Many(mapped) => mapped,
        };
        bytes.as_chunks().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_is_put_there_wherever_their_memory_comes_from() {
        let many = LEAST_MAPPED_BYTES / Words::LEN;
        for count in [0, 1, many - 1, many, many + 1] {
            let mut words = Words::new(count).unwrap();
            assert_eq!(
                (words.len(), matches!(words, Words::Many(_))),
                (count, count >= many)
            );
            assert!((0..count).all(|at| words.get(at) == 0));
            let word = |at: usize| (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (0..count).for_each(|at| words.set(at, word(at)));
            assert!((0..count).all(|at| words.get(at) == word(at)));
            for at in [0, 1, count / 2, count] {
                let (from, before) = words.around(at);
                let around = from.chain(before).map(|word| u64::from_ne_bytes(*word));
                let at = at.min(count);
                assert!(
                    around.eq((at..count).chain(0..at).map(word)),
                    "{count} {at}"
                );
            }
            let bytes = Words::bytes_for(count);
            assert!((count * Words::LEN..count * Words::LEN + PAGE_BYTES).contains(&bytes));
        }
        assert!(Words::new(usize::MAX).is_none());
    }
}
