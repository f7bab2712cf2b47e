//! When the values of a write expire.
//!
//! A value says it itself, or the write says it for all of its values, or the keyspace does. It is
//! worked out once, before the batch is queued, by the clock of the database: what stands in the
//! log is a time. A database without it looks at three flags.
//!
//! Invariant: the clock knows that it is needed before anything that expires is visible.

use crate::base::keys::{KeyspaceId, Kind};
use crate::base::sync::atomic::Ordering;
use crate::engine::recent::reads::ReadSet;
use crate::engine::write::WritePath;
use crate::error::Result;
use crate::memtable::{Batch, BatchOp, Lifetime};
use crate::options::WriteOptions;
use crate::version::keyspaces::Keyspaces;
use std::sync::Arc;
use std::time::Duration;

/// When values that are written now expire.
pub(crate) struct Expiries {
    now_ms: u64,
    /// Of values that say nothing, where the write says it.
    ttl: Lifetime,
    /// Of others in the default keyspace.
    default_ttl: Option<Duration>,
    keyspaces: Keyspaces,
}

impl WritePath {
    /// A keyspace has a default time to live, or is about to.
    pub(crate) fn expect_default_ttl(&self) {
        self.has_default_ttl.store(true, Ordering::Release);
        if self.core.clock.need() {
            self.core.work.notify();
        }
    }

    /// Whether a write whose values say nothing may have some that expire.
    #[inline]
    pub(crate) fn may_expire(&self, ttl: Option<Duration>) -> bool {
        ttl.is_some() || self.has_default_ttl.load(Ordering::Acquire)
    }

    /// When the values of a write expire.
    #[cold]
    pub(crate) fn expiries(&self, ttl: Option<Duration>) -> Result<Expiries> {
        let ttl = ttl.map(Lifetime::of).transpose()?;
        let clock = &self.core.clock;
        if clock.need() {
            self.core.work.notify();
        }
        Ok(Expiries {
            now_ms: clock.now_ms(),
            ttl: ttl.unwrap_or_default(),
            default_ttl: self.core.options.default_ttl,
            keyspaces: self.read.view.load().version.keyspaces.clone(),
        })
    }

    /// Commits a batch of which some values may expire: see [`WritePath::write`].
    #[cold]
    pub(super) fn write_expiring(
        &self,
        batch: &Batch,
        options: WriteOptions,
        reads: Option<&Arc<ReadSet>>,
    ) -> Result<()> {
        let resolved = self.expiries(options.ttl)?.resolve_all(batch);
        if let Some(violation) = resolved.violation() {
            return Err(violation.clone());
        }
        self.write_resolved(&resolved, options, reads)
    }

    /// How long values live by default in the keyspace with this data id.
    pub(crate) fn default_lifetime(&self, data: KeyspaceId) -> Result<Lifetime> {
        Ok(if self.may_expire(None) {
            self.expiries(None)?.usual(data)
        } else {
            Lifetime::Never
        })
    }
}

impl Expiries {
    /// Of values that say nothing, in the keyspace with this data id.
    fn usual(&self, data: KeyspaceId) -> Lifetime {
        if self.ttl != Lifetime::AsUsual {
            return self.ttl;
        }
        match data {
            KeyspaceId::DEFAULT => self.default_ttl.and_then(|ttl| Lifetime::of(ttl).ok()),
            data => {
                let meta = self.keyspaces.of_data(data);
                meta.and_then(|meta| meta.default_ttl_ms).map(Lifetime::For)
            }
        }
        .unwrap_or(Lifetime::Never)
    }

    /// When a value expires.
    pub(super) fn of(&self, data: KeyspaceId, lifetime: Lifetime) -> Option<u64> {
        let lifetime = match lifetime {
            Lifetime::AsUsual => self.usual(data),
            said => said,
        };
        lifetime.end(self.now_ms)
    }

    /// The operation with its expiry.
    pub(crate) fn resolve<'a>(&self, op: BatchOp<'a>) -> BatchOp<'a> {
        let expiry_ms = match op.kind {
            Kind::Delete | Kind::RangeDelete => None,
            _ => self.of(KeyspaceId::of(op.key), Lifetime::decode(op.expiry_ms)),
        };
        BatchOp { expiry_ms, ..op }
    }

    /// A copy of the batch in which each value has its expiry.
    pub(super) fn resolve_all(&self, batch: &Batch) -> Batch {
        batch.with_ops(|op| self.resolve(op))
    }
}
