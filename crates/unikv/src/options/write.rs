//! How a single write is done.

use super::Durability;

/// How one write is done, where the options of the database do not say it. A [`Durability`] alone
/// will do where that is all there is to say.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("unikv-write-{}", std::process::id()));
/// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
/// use unikv::{Durability, ErrorKind, WriteOptions};
///
/// db.put_with("balance", "90", Durability::Sync)?;
/// match db.put_with("seen", "now", WriteOptions::default().no_wait(true)) {
///     Err(error) if error.kind() == ErrorKind::WouldBlock => {} // Leave it, or try again later.
///     written => written?,
/// }
/// # db.close()?;
/// # unikv::Db::destroy(&dir)?;
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) no_wait: bool,
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
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions::default().durability(durability)
    }
}
