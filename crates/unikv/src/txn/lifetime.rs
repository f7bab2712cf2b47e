//! How long values live, in a transaction.
//!
//! What a transaction writes begins to live when it commits; inside it, it is there for as long as
//! the transaction is. What it reads has expired or has not as of its moment.

use super::Txn;
use crate::base::keys::KeyspaceId;
use crate::base::seeded::seeded;
use crate::engine::read::lifetimes::Ttl;
use crate::engine::recent::own_writes::OwnWrite;
use crate::error::Result;
use crate::memtable::Lifetime;
use std::time::Duration;

impl Txn {
    /// How long the value of a key lives, if it has one.
    pub(crate) fn ttl(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Ttl>> {
        let source = self.moment.source(keyspace);
        let Some(own) = self.own_or_note(keyspace, key, false)? else {
            return self.moment.read().ttl(source, key);
        };
        if own.value.is_none() {
            return Ok(None);
        }
        let lifetime = match own.lifetime {
            Lifetime::AsUsual => {
                let data = self.moment.read().point(source)?.data;
                self.handle.engine.write.default_lifetime(data)?
            }
            said => said,
        };
        let span = |ms| Ttl::Remaining(Duration::from_millis(ms));
        Ok(Some(match lifetime {
            Lifetime::For(ms) => span(ms),
            Lifetime::Until(ms) => span(ms.saturating_sub(self.moment.time_ms())),
            Lifetime::AsUsual | Lifetime::Never => Ttl::Never,
        }))
    }

    /// How long what takes the place of a key's value is to live: as long as that. A value that is
    /// new lives as is usual.
    pub(super) fn lifetime_to_keep(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Lifetime> {
        if !self.handle.engine.core.clock.is_needed() || seeded!(IncrementPersists) {
            return Ok(Lifetime::AsUsual);
        }
        if let Some(OwnWrite { value, lifetime }) = self.own_or_note(keyspace, key, true)? {
            return Ok(match value {
                Some(_) => lifetime,
                None => Lifetime::AsUsual,
            });
        }
        let read = self.moment.read();
        let expiry = read.expiry(self.moment.source(keyspace), key)?;
        Ok(match expiry {
            None => Lifetime::AsUsual,
            Some(None) => Lifetime::Never,
            Some(Some(ms)) => Lifetime::Until(ms),
        })
    }

    /// Has the value of a key live as long as this from now on, and writes it again. Whether there
    /// is one.
    pub(crate) fn set_lifetime(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        lifetime: Lifetime,
    ) -> Result<bool> {
        if lifetime == Lifetime::Never {
            return Ok(self.clear_ttl(keyspace, key)?.is_some());
        }
        let Some(value) = self.get(keyspace, key, true)? else {
            return Ok(false);
        };
        let now_ms = self.handle.engine.core.clock.now_ms();
        let has_passed = lifetime.end(now_ms).is_some_and(|end| end <= now_ms);
        let value = (!has_passed).then_some(&value[..]);
        self.write_for(keyspace, key, value, lifetime)?;
        Ok(true)
    }

    /// Has the value of a key live for ever, if there is one. Its time to live before.
    pub(crate) fn clear_ttl(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Ttl>> {
        let before = self.ttl(keyspace, key)?;
        if let Some(Ttl::Remaining(_)) = before
            && let Some(value) = self.get(keyspace, key, true)?
        {
            self.write_for(keyspace, key, Some(&value[..]), Lifetime::Never)?;
        }
        Ok(before)
    }
}
