//! What a sorted stream is made of.

use crate::memtable::Lifetime;
use crate::vfs::clock::since_1970;
use std::time::SystemTime;

/// When a value of a sorted stream expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// As is usual where it is stored
    /// ([`KeyspaceOptions::default_ttl`](crate::KeyspaceOptions::default_ttl),
    /// [`Options::default_ttl`](crate::Options::default_ttl)), from when it was taken from the
    /// stream on.
    #[default]
    AsUsual,
    /// Never, whatever is usual.
    Never,
    /// At this time. One that is past is kept, too: the value is never seen, nor any older one.
    At(SystemTime),
}

/// An entry of a sorted stream: a key with its value, or with `None` if it is to be removed; and
/// when the value expires, if it does so otherwise than is usual.
pub trait SortedEntry {
    /// The key.
    fn key(&self) -> &[u8];

    /// The value; `None` removes the key.
    fn value(&self) -> Option<&[u8]>;

    /// When the value expires.
    fn expiry(&self) -> Expiry {
        Expiry::AsUsual
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> SortedEntry for (K, Option<V>) {
    fn key(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn value(&self) -> Option<&[u8]> {
        self.1.as_ref().map(AsRef::as_ref)
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> SortedEntry for (K, Option<V>, Expiry) {
    fn key(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn value(&self) -> Option<&[u8]> {
        self.1.as_ref().map(AsRef::as_ref)
    }

    fn expiry(&self) -> Expiry {
        self.2
    }
}

impl Expiry {
    pub(super) fn lifetime(self) -> Lifetime {
        match self {
            Expiry::AsUsual => Lifetime::AsUsual,
            Expiry::Never => Lifetime::Never,
            Expiry::At(time) => Lifetime::until(since_1970(time)),
        }
    }
}
