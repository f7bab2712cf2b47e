//! How a single read is done.

use crate::base::bounds::KeyBounds;
use std::ops::Bound;
use std::time::Duration;

/// How one `get`, iterator or cursor reads, where the defaults do not serve.
///
/// ```
/// # let db = unikv::Db::in_memory(unikv::Options::default())?;
/// use unikv::{Prefix, ReadOptions};
///
/// db.put("user/1", "Ada")?;
/// db.put("visit/1", "Ada")?;
/// // A pass over everything leaves the cache to those who read again and again.
/// let once = ReadOptions::default().fill_cache(false);
/// assert_eq!(db.iter_with(&once).count(), 2);
/// let users = once.range(Prefix::new("user/"));
/// assert_eq!(db.iter_with(&users).count(), 1);
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    pub(crate) fill_cache: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    pub(crate) keys_only: bool,
    pub(crate) read_ahead: Option<usize>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            fill_cache: true,
            timeout: None,
            range: (Bound::Unbounded, Bound::Unbounded),
            keys_only: false,
            read_ahead: None,
        }
    }
}

impl ReadOptions {
    /// Whether the read cache keeps key blocks and records that are read for this. What it holds
    /// already serves in any case. Default: true. A pass over more than the cache has room for
    /// drives out what others read again.
    #[must_use]
    pub fn fill_cache(mut self, yes: bool) -> ReadOptions {
        self.fill_cache = yes;
        self
    }

    /// The read fails with [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) when this has passed
    /// since its call; of an iterator or a cursor, since it was made. It is looked at before each
    /// read from the device, and by iterators before each batch of entries; so what is in memory is
    /// found in any case, and a read that the device is slow to answer is waited for. Default:
    /// never.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ReadOptions {
        self.timeout = Some(timeout);
        self
    }

    /// The keys that an iterator or a cursor shows. Default: all.
    #[must_use]
    pub fn range(mut self, range: impl KeyBounds) -> ReadOptions {
        let (start, end) = range.bounds();
        self.range = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        self
    }

    /// Whether an iterator leaves values where they are, as [`Db::keys`](crate::Db::keys) does:
    /// those that it hands out are empty. A cursor reads no value before it is asked for one.
    /// Default: false.
    #[must_use]
    pub fn keys_only(mut self, yes: bool) -> ReadOptions {
        self.keys_only = yes;
        self
    }

    /// How many entries an iterator or a cursor reads together at first, and after each seek, as
    /// [`Iter::expecting`](crate::Iter::expecting) says it. More may be taken, and fewer. Default:
    /// few, and more as it goes on.
    #[must_use]
    pub fn read_ahead(mut self, entries: usize) -> ReadOptions {
        self.read_ahead = Some(entries);
        self
    }
}
