//! How long the values of a batch live, as it says it until it is written.
//!
//! What a caller knows is a span of time, or nothing: when it begins, and what holds by default, is
//! known when the batch is written. Until then this stands in the place of an operation's expiry,
//! in bits that no time has. None of it comes into the log.

use crate::error::{Error, Result};
use std::time::Duration;

/// In the place of an expiry: never, whatever the default.
const NEVER: u64 = u64::MAX;
/// In the place of an expiry: the rest is a span in milliseconds. No time is as late as that.
const SPAN: u64 = 1 << 63;
/// Spans and times from here on never end.
const MOST_MS: u64 = 1 << 62;

/// How long a value lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As the write says for all of its values, or else the keyspace.
    #[default]
    AsUsual,
    /// For ever.
    Never,
    /// Milliseconds from when it is written.
    For(u64),
    /// Until this time, in milliseconds since 1970.
    Until(u64),
}

impl Lifetime {
    /// A span that a caller has given. What is less than a millisecond more counts as one.
    pub(crate) fn of(ttl: Duration) -> Result<Lifetime> {
        if ttl.is_zero() {
            let what = "a time to live of zero";
            return Err(Error::invalid(what, "delete the key, or use a longer one"));
        }
        let ms = ttl.as_nanos().div_ceil(1_000_000);
        Ok(match u64::try_from(ms) {
            Ok(ms) if ms < MOST_MS => Lifetime::For(ms),
            _ => Lifetime::Never,
        })
    }

    /// Until a time, which may never come.
    pub(crate) fn until(ms: u64) -> Lifetime {
        if ms < MOST_MS {
            Lifetime::Until(ms)
        } else {
            Lifetime::Never
        }
    }

    /// When a value expires that is written at `now_ms`, if this says it and it ever does.
    pub(crate) fn end(self, now_ms: u64) -> Option<u64> {
        match self {
            Lifetime::AsUsual | Lifetime::Never => None,
            Lifetime::For(ms) => Some(now_ms.saturating_add(ms)).filter(|end| *end < MOST_MS),
            Lifetime::Until(ms) => Some(ms),
        }
    }

    /// What stands in the place of an expiry.
    pub(super) fn encode(self) -> Option<u64> {
        match self {
            Lifetime::AsUsual => None,
            Lifetime::Never => Some(NEVER),
            Lifetime::For(ms) => Some(SPAN | ms),
            Lifetime::Until(ms) => Some(ms),
        }
    }

    /// What that says.
    pub(crate) fn decode(expiry_ms: Option<u64>) -> Lifetime {
        match expiry_ms {
            None => Lifetime::AsUsual,
            Some(NEVER) => Lifetime::Never,
            Some(ms) if ms & SPAN != 0 => Lifetime::For(ms & !SPAN),
            Some(ms) => Lifetime::Until(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_lifetime_survives_encoding() {
        for lifetime in [
            Lifetime::AsUsual,
            Lifetime::Never,
            Lifetime::For(1),
            Lifetime::For(MOST_MS - 1),
            Lifetime::Until(0),
            Lifetime::Until(MOST_MS - 1),
        ] {
            assert_eq!(Lifetime::decode(lifetime.encode()), lifetime);
        }
    }

    #[test]
    fn spans_are_rounded_up_and_those_without_end_never_end() {
        let of = |ttl| Lifetime::of(ttl).unwrap();
        assert_eq!(of(Duration::from_nanos(1)), Lifetime::For(1));
        assert_eq!(of(Duration::from_micros(1001)), Lifetime::For(2));
        assert_eq!(of(Duration::from_secs(1)), Lifetime::For(1000));
        assert_eq!(of(Duration::MAX), Lifetime::Never);
        assert_eq!(of(Duration::from_millis(MOST_MS)), Lifetime::Never);
        assert!(Lifetime::of(Duration::ZERO).is_err());
        assert_eq!(Lifetime::until(MOST_MS), Lifetime::Never);
        assert_eq!(Lifetime::For(5).end(10), Some(15));
        assert_eq!(Lifetime::For(MOST_MS - 1).end(10), None);
        assert_eq!(Lifetime::Until(7).end(10), Some(7));
        assert_eq!(Lifetime::Never.end(10), None);
    }
}
