//! Values that can be distinguished: every write carries a stamp, and its bytes follow from it.
//!
//! The bytes hold runs of NUL and begin with the stamp, so that a value of another write, a cut
//! value and a value with foreign bytes all compare unequal. Of three values two are made of few
//! words, and shrink when they are compressed; the third hardly does.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The bytes of a value and when it expires, cheap to clone into the states of the oracle.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes {
    bytes: Arc<[u8]>,
    /// In milliseconds since 1970; `None`: never.
    pub expiry_ms: Option<u64>,
}

impl Bytes {
    /// The same bytes with another expiry.
    #[must_use]
    pub fn until(self, expiry_ms: Option<u64>) -> Bytes {
        Bytes { expiry_ms, ..self }
    }

    /// Whether it has not expired at this time.
    pub fn is_there(&self, time_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|expiry_ms| expiry_ms > time_ms)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Into<Arc<[u8]>>> From<T> for Bytes {
    fn from(bytes: T) -> Bytes {
        Bytes {
            bytes: bytes.into(),
            expiry_ms: None,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} until {:?}", show(&self.bytes), self.expiry_ms)
    }
}

/// A value as an operation carries it: what it was drawn from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// Unique in its history.
    pub stamp: u32,
    /// Length in bytes.
    pub len: usize,
    /// How long it lives, in milliseconds; `None`: the write does not say it. What is greater than
    /// the engine's longest is for ever.
    pub ttl_ms: Option<u64>,
}

const WORDS: [&[u8; 8]; 8] = [
    b"compress",
    b"ion need",
    b"s words ",
    b"that com",
    b"e again\n",
    b"and agai",
    b"n, and \0",
    b"\0\0\0\0end\n",
];

impl Value {
    /// A value of this length that does not say how long it lives.
    pub const fn new(stamp: u32, len: usize) -> Value {
        Value {
            stamp,
            len,
            ttl_ms: None,
        }
    }

    /// The same, which says this of how long it lives.
    #[must_use]
    pub const fn living(self, ttl_ms: Option<u64>) -> Value {
        Value { ttl_ms, ..self }
    }

    /// How long it lives, if the write says it.
    pub fn ttl(self) -> Option<Duration> {
        // What is longer than any span is for ever to the database.
        let span = |ms| match ms {
            u64::MAX => Duration::MAX,
            ms => Duration::from_millis(ms),
        };
        self.ttl_ms.map(span)
    }

    /// The bytes that go to the database.
    pub fn bytes(self) -> Bytes {
        let mut out = Vec::with_capacity(self.len + 8);
        out.extend_from_slice(&self.stamp.to_be_bytes()[1..]);
        out.push(0);
        let mut x = u64::from(self.stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        while out.len() < self.len {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            match self.stamp % 3 {
                0 if x & 3 == 0 => out.extend_from_slice(&[0; 8]),
                0 => out.extend_from_slice(&x.to_le_bytes()),
                _ => out.extend_from_slice(WORDS[x as usize % WORDS.len()]),
            }
        }
        out.truncate(self.len);
        out.into()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}x{}", self.stamp, self.len)?;
        match self.ttl_ms {
            Some(ms) => write!(f, " for {ms} ms"),
            None => Ok(()),
        }
    }
}

/// A key or value for a person: short, with its length. Nothing is put together before it is
/// printed.
pub struct Shown<'a>(Option<&'a [u8]>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else {
            return f.write_str("nothing");
        };
        let head = &bytes[..bytes.len().min(24)];
        let more = if bytes.len() > head.len() { ".." } else { "" };
        write!(f, "\"{}\"{more}({})", head.escape_ascii(), bytes.len())
    }
}

/// Shows a key or a value.
pub fn show(bytes: &[u8]) -> Shown<'_> {
    Shown(Some(bytes))
}

/// Shows a value that may be missing.
pub fn show_option(bytes: Option<&[u8]>) -> Shown<'_> {
    Shown(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_by_stamp_and_hold_nul_bytes() {
        let a = Value::new(3, 300).bytes();
        let b = Value::new(2, 300).bytes();
        assert_eq!(a.len(), 300);
        assert_ne!(a, b);
        assert!(a.windows(8).any(|w| w == [0; 8]));
        assert_ne!(Value::new(1, 5).bytes(), Value::new(2, 5).bytes());
        assert!(Value::new(9, 0).bytes().is_empty());
    }
}
