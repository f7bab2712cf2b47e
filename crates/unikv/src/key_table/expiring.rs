//! When how much of a key table expires.
//!
//! Of the newest version of each key that expires, the bytes are summed up to a few times: at each
//! of these, that sum has expired at least. So how much of a table has expired is known without a
//! look at it, but for a sixteenth of what expires; and it is never taken for more than it is.

use crate::base::coding::{Decoder, put_varint};

/// Steps that are stored.
const STEPS: usize = 16;
/// While a table is built, as many are kept as this; then every two become one.
const MOST_STEPS: usize = 4096;

/// When how much of a key table expires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expiring {
    /// Entries that expire, those of older versions included.
    pub(crate) entries: u64,
    /// Times in milliseconds since 1970, ascending, and the bytes that expire up to each of them
    /// and after the one before: keys, and inline values or records.
    steps: Vec<(u64, u64)>,
}

impl Expiring {
    /// Counts an entry that expires; `bytes` if it is the newest version of its key.
    pub(crate) fn add(&mut self, expiry_ms: u64, bytes: u64) {
        self.entries += 1;
        if bytes > 0 {
            self.steps.push((expiry_ms, bytes));
        }
        if self.steps.len() >= MOST_STEPS {
            self.shrink(MOST_STEPS / 2);
        }
    }

    /// There are no more.
    pub(crate) fn settle(&mut self) {
        self.shrink(STEPS);
    }

    /// Makes about equal steps of the bytes, at most this many. Each ends with the last time of
    /// those that it is made of.
    fn shrink(&mut self, most: usize) {
        self.steps.sort_unstable();
        let all: u64 = self.steps.iter().map(|(_, bytes)| bytes).sum();
        let step = all.div_ceil(most as u64).max(1);
        let (mut made, mut sum): (Vec<(u64, u64)>, u64) = (Vec::with_capacity(most), 0);
        for (at_ms, bytes) in self.steps.drain(..) {
            match made.last_mut().filter(|_| !sum.is_multiple_of(step)) {
                Some(last) if sum / step == (sum + bytes - 1) / step => {
                    last.0 = at_ms;
                    last.1 += bytes;
                }
                _ => made.push((at_ms, bytes)),
            }
            sum += bytes;
        }
        self.steps = made;
    }

    /// Bytes that have expired at this time, at least.
    pub(crate) fn expired_bytes(&self, time_ms: u64) -> u64 {
        let steps = self.steps.iter().take_while(|(at_ms, _)| *at_ms <= time_ms);
        steps.map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.entries);
        for (at_ms, bytes) in &self.steps {
            put_varint(&mut out, *at_ms);
            put_varint(&mut out, *bytes);
        }
        out
    }

    /// `None`: it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Expiring> {
        let mut d = Decoder::new(bytes);
        let mut expiring = Expiring {
            entries: d.varint()?,
            steps: Vec::new(),
        };
        while !d.is_empty() {
            expiring.steps.push((d.varint()?, d.varint()?));
        }
        let (mut sum, times) = (0u64, expiring.steps.iter().map(|(at_ms, _)| at_ms));
        for (_, bytes) in &expiring.steps {
            sum = sum.checked_add(*bytes)?;
        }
        let is_sound = expiring.steps.len() <= 2 * STEPS && times.is_sorted() && sum < 1 << 48;
        is_sound.then_some(expiring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: impl Iterator<Item = (u64, u64)>) -> Expiring {
        let mut expiring = Expiring::default();
        entries.for_each(|(at_ms, bytes)| expiring.add(at_ms, bytes));
        expiring.settle();
        expiring
    }

    #[test]
    fn what_has_expired_is_known_but_for_a_sixteenth_and_never_more_than_it_is() {
        // Evenly, all at once, nearly all at once, and one record that is longer than all others.
        let even: Vec<_> = (0..20_000).map(|i| (i * 7 % 20_000, 10)).collect();
        let at_once = vec![(500, 10); 10_000];
        let late = [vec![(500, 10); 10_000], vec![(1 << 40, 10)]].concat();
        let long = [vec![(500, 1); 100], vec![(400, 1 << 20), (900, 7)]].concat();
        let none = vec![(500, 0); 5];
        for entries in [even, at_once, late, long, none] {
            let expiring = of(entries.iter().copied());
            assert!(expiring.steps.len() <= 2 * STEPS, "{expiring:?}");
            assert_eq!(expiring.entries, entries.len() as u64);
            let all: u64 = entries.iter().map(|(_, bytes)| bytes).sum();
            let longest = entries.iter().map(|(_, bytes)| *bytes).max().unwrap();
            for at_ms in [
                0,
                1,
                400,
                499,
                500,
                501,
                9_999,
                15_000,
                19_999,
                1 << 39,
                1 << 40,
            ] {
                let expired = entries.iter().filter(|(it, _)| *it <= at_ms);
                let expired: u64 = expired.map(|(_, bytes)| bytes).sum();
                let known = expiring.expired_bytes(at_ms);
                assert!(known <= expired, "{at_ms}: {known} of {expired}");
                let unknown = expired - known;
                assert!(
                    unknown <= all / 8 + longest,
                    "{at_ms}: {known} of {expired}"
                );
            }
            assert_eq!(expiring.expired_bytes(u64::MAX), all);
            assert_eq!(Expiring::decode(&expiring.encode()), Some(expiring));
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert_eq!(Expiring::decode(&[]), None);
        assert_eq!(Expiring::decode(&[1, 2]), None);
        assert_eq!(Expiring::decode(&[1, 9, 1, 8, 1]), None);
        assert_eq!(Expiring::decode(&[1; 100]), None);
        assert!(Expiring::decode(&[3, 8, 1, 9, 1]).is_some());
    }
}
