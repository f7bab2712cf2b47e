//! How a single write is done.

use super::Durability;
use std::time::Duration;

/// How one write is done, where the options of the database do not say it. A [`Durability`] alone
/// will do where that is all there is to say.
///
/// ```
/// # let db = unikv::Db::in_memory(unikv::Options::default())?;
/// use unikv::{Durability, ErrorKind, WriteOptions};
///
/// db.put_with("balance", "90", Durability::Sync)?;
/// match db.put_with("seen", "now", WriteOptions::default().no_wait(true)) {
///     Err(error) if error.kind() == ErrorKind::WouldBlock => {} // Leave it, or try again later.
///     written => written?,
/// }
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) no_wait: bool,
    pub(crate) ttl: Option<Duration>,
}

impl WriteOptions {
    /// What the write survives. Default: what [`Options::durability`](crate::Options::durability)
    /// says. [`Durability::Periodic`] is only an option of a whole database; for one write it means
    /// what [`Durability::Buffered`] means.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = Some(durability);
        self
    }

    /// Whether the write fails with [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock), and
    /// nothing of it is applied, where it would be slowed because the background is behind: also
    /// when it would have to wait for a writer that is slowed. Waiting for a lock or a sync does
    /// not count. Default: false.
    #[must_use]
    pub fn no_wait(mut self, yes: bool) -> WriteOptions {
        self.no_wait = yes;
        self
    }

    /// The values that are written expire when this has passed: from that very millisecond on they
    /// are not there for any read that begins then. Snapshots, iterators and transactions that
    /// began before still see them. Of a batch or a transaction it holds for the values that have
    /// no time to live of their own. Default: that of the keyspace
    /// ([`KeyspaceOptions::default_ttl`](crate::KeyspaceOptions::default_ttl),
    /// [`Options::default_ttl`](crate::Options::default_ttl)), and else they never expire.
    ///
    /// What is less than a millisecond more counts as one. A time of zero is refused with
    /// `InvalidArgument`; one that ends in more than a hundred million years never does, so
    /// [`Duration::MAX`] writes what stays in a keyspace with a default.
    ///
    /// ```
    /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
    /// use std::time::Duration;
    /// use unikv::{Ttl, WriteOptions};
    ///
    /// let hour = WriteOptions::default().ttl(Duration::from_secs(3600));
    /// db.put_with("session", "Ada", hour)?;
    /// assert!(matches!(db.ttl("session")?, Some(Ttl::Remaining(left)) if left.as_secs() <= 3600));
    /// db.clear_ttl("session")?;
    /// assert_eq!(db.ttl("session")?, Some(Ttl::Never));
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> WriteOptions {
        self.ttl = Some(ttl);
        self
    }
}

impl From<&WriteOptions> for WriteOptions {
    fn from(options: &WriteOptions) -> WriteOptions {
        *options
    }
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions::default().durability(durability)
    }
}
