//! How long the values of a batch live.

use super::super::ops::{BatchOp, OpsIter};
use super::Batch;
use super::lifetime::Lifetime;
use super::limits::check_batch_len;
use crate::base::keys::{KeyspaceId, Kind};
use crate::error::Error;
use std::time::Duration;

impl Batch {
    /// Sets `key` to `value`, which expires when `ttl` has passed since the batch was written: see
    /// [`WriteOptions::ttl`](crate::WriteOptions::ttl). A `ttl` of zero is no limit that is kept,
    /// and reported when the batch is written.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use unikv::Batch;
    /// let mut batch = Batch::new();
    /// batch.put_with_ttl("session", "7", Duration::from_secs(3600)).put("user", "Ada");
    /// ```
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Batch {
        self.put_for(
            KeyspaceId::DEFAULT,
            key.as_ref(),
            value.as_ref(),
            Lifetime::of(ttl),
        )
    }

    /// The same with a lifetime of its own; an error of it is one of the batch.
    pub(crate) fn put_for(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        lifetime: Result<Lifetime, Error>,
    ) -> &mut Batch {
        match lifetime {
            Ok(lifetime) => self.push(Kind::Put, keyspace, key, value, lifetime),
            Err(violation) => {
                self.refuse(violation);
                self
            }
        }
    }

    /// Whether any value says when it expires.
    pub(crate) fn has_lifetimes(&self) -> bool {
        self.sums.expiring > 0
    }

    /// A copy with room for as many operations, but without any, and without savepoints.
    pub(super) fn without_ops(&self) -> Batch {
        let mut copy = Batch {
            owner: self.owner,
            commit_tag: self.commit_tag.clone(),
            violation: self.violation.clone(),
            ..Batch::default()
        };
        copy.ops.reserve(self.ops.len());
        copy
    }

    /// A copy with other operations, and without savepoints.
    pub(crate) fn with_ops<'a>(&'a self, change: impl Fn(BatchOp<'a>) -> BatchOp<'a>) -> Batch {
        let mut changed = self.without_ops();
        for op in OpsIter::new(&self.ops).map_while(Result::ok) {
            changed.push_op(&change(op));
        }
        if let Err(violation) = check_batch_len(changed.ops.len()) {
            changed.refuse(violation);
        }
        changed
    }
}
