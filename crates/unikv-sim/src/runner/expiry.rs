//! What a run does with the expiry of values: changes that keep it, and changes of it alone.

use super::time::{batch_of, find};
use super::{Interrupt, Runner};
use crate::history::{ExpiryOp, Key};
use crate::oracle::Change;
use crate::spaces::{self, NAMES, key_in};
use crate::value::{Bytes, Value};
use std::time::{Duration, UNIX_EPOCH};
use unikv::{Compression, ErrorKind, KeyspaceOptions, WriteOptions};

impl Runner {
    /// One operation. While the outcome of a write is unknown nobody knows what there is.
    pub(super) fn expiry_op(&mut self, op: &ExpiryOp) -> Result<(), Interrupt> {
        if let ExpiryOp::Pass(ms, wall) = op {
            return self.pass_by(*ms, *wall);
        }
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        match op {
            ExpiryOp::Pass(..) => Ok(()),
            ExpiryOp::Write(changes, ttl_ms) => self.write_for(changes, *ttl_ms),
            ExpiryOp::Expire(space, key, ms) => {
                let expiry_ms = self.end(None, Some(*ms));
                self.set_expiry(*space, key, "expire", expiry_ms, |db, keyspace, key| {
                    let ttl = Duration::from_millis(*ms);
                    match keyspace {
                        Some(keyspace) => keyspace.expire(key, ttl),
                        None => db.expire(key, ttl),
                    }
                })
            }
            ExpiryOp::ExpireAt(space, key, from_now) => {
                let ms = self.time().saturating_add_signed(*from_now);
                let at = UNIX_EPOCH + Duration::from_millis(ms);
                self.set_expiry(*space, key, "expire_at", Some(ms), |db, keyspace, key| {
                    match keyspace {
                        Some(keyspace) => keyspace.expire_at(key, at),
                        None => db.expire_at(key, at),
                    }
                })
            }
            ExpiryOp::Persist(space, key) => self.set_expiry(
                *space,
                key,
                "clear_ttl",
                None,
                |db, keyspace, key| match keyspace {
                    Some(keyspace) => keyspace.clear_ttl(key),
                    None => db.clear_ttl(key),
                },
            ),
            ExpiryOp::Increment(key, by) => self.increment(key, *by),
            ExpiryOp::Append(key) => self.append(key),
            ExpiryOp::Swap(key, new, expected) => self.swap(key, *new, *expected),
            ExpiryOp::Default(name, ttl_ms) => self.set_default_ttl(NAMES[*name], *ttl_ms),
        }
    }

    /// The value of a key that is there now.
    fn there(&self, key: &[u8]) -> Option<Bytes> {
        let time_ms = self.time();
        let value = self.oracle.state().get(key);
        value.filter(|value| value.is_there(time_ms)).cloned()
    }

    /// A batch whose values live so long, where they say nothing.
    fn write_for(
        &mut self,
        changes: &[(Key, Option<Value>)],
        ttl_ms: u64,
    ) -> Result<(), Interrupt> {
        let stored = |value: Value| self.stored_for(None, value, Some(ttl_ms));
        let known: Vec<Change> = changes
            .iter()
            .map(|(key, value)| (key.0.clone(), value.map(stored)))
            .collect();
        let batch = batch_of(changes);
        let ttl = Value::new(0, 0)
            .living(Some(ttl_ms))
            .ttl()
            .unwrap_or_default();
        let write = |runner: &Runner| {
            let options = WriteOptions::default().ttl(ttl);
            runner.db().write_with(&batch, options)
        };
        let syncs = self.config.syncs_every_write();
        self.change("a write that expires", known, write, syncs)?;
        Ok(())
    }

    /// Gives the value of a key another expiry by a call that says whether it has.
    fn set_expiry(
        &mut self,
        space: Option<usize>,
        key: &Key,
        what: &str,
        expiry_ms: Option<u64>,
        call: impl FnOnce(&unikv::Db, Option<&unikv::Keyspace>, &Key) -> unikv::Result<bool>,
    ) -> Result<(), Interrupt> {
        let name = space.map(|name| NAMES[name]);
        let Some(keyspace) = find(self.db(), name) else {
            return Ok(());
        };
        let whole = name.map_or(key.0.clone(), |name| key_in(name, key));
        let there = self.there(&whole);
        let changes = match &there {
            None => false,
            // What never expires is left as it is.
            Some(value) => expiry_ms.is_some() || value.expiry_ms.is_some(),
        };
        let now_ms = self.time();
        let after = there.clone();
        let after = after.filter(|_| expiry_ms.is_none_or(|end| end > now_ms));
        let is_done = changes || (what == "expire" && there.is_some());
        let known = if changes {
            vec![(whole, after.map(|value| value.until(expiry_ms)))]
        } else {
            Vec::new()
        };
        let set = |runner: &Runner| {
            let done = call(runner.db(), keyspace.as_ref(), key)?;
            assert_eq!(done, is_done, "{what} says whether it does anything");
            Ok(())
        };
        let syncs = changes && self.config.syncs_every_write();
        self.change(what, known, set, syncs)?;
        Ok(())
    }

    /// When a value expires that takes the place of another one, or of none.
    fn kept(&self, before: Option<&Bytes>) -> Option<u64> {
        match before {
            Some(before) => before.expiry_ms,
            None => self.end(None, None),
        }
    }

    fn increment(&mut self, key: &Key, by: i64) -> Result<(), Interrupt> {
        let before = self.there(key);
        let number = before
            .as_ref()
            .map_or(Ok([0; 8]), |value| value[..].try_into());
        let after = number
            .ok()
            .and_then(|number| i64::from_le_bytes(number).checked_add(by));
        let Some(after) = after else {
            let refused = self.db().increment(key, by);
            return match refused {
                Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
                Err(error) => self.must("increment", Err(error)),
                Ok(number) => panic!("what is no number becomes {number}"),
            };
        };
        let value = Bytes::from(after.to_le_bytes()).until(self.kept(before.as_ref()));
        let call = |runner: &Runner| {
            assert_eq!(runner.db().increment(key, by)?, after, "increment");
            Ok(())
        };
        let syncs = self.config.syncs_every_write();
        self.change("increment", vec![(key.0.clone(), Some(value))], call, syncs)?;
        Ok(())
    }

    fn append(&mut self, key: &Key) -> Result<(), Interrupt> {
        let before = self.there(key);
        let appended = |value: Option<&[u8]>| [value.unwrap_or_default(), b"+"].concat();
        let after = appended(before.as_deref());
        let value = Bytes::from(after.clone()).until(self.kept(before.as_ref()));
        let call = |runner: &Runner| {
            let made = runner.db().update(key, |value| Some(appended(value)))?;
            assert_eq!(made.as_deref(), Some(&after[..]), "update");
            Ok(())
        };
        let syncs = self.config.syncs_every_write();
        self.change("update", vec![(key.0.clone(), Some(value))], call, syncs)?;
        Ok(())
    }

    fn swap(&mut self, key: &Key, new: Option<Value>, expected: bool) -> Result<(), Interrupt> {
        let before = self.there(key);
        let expects = if expected {
            before.clone()
        } else {
            Some(Bytes::from(*b"never written"))
        };
        let after = new.map(|value| value.bytes().until(self.kept(before.as_ref())));
        let bytes = after.clone();
        let call = |runner: &Runner| {
            let swapped =
                runner
                    .db()
                    .compare_and_swap(key, expects.as_deref(), bytes.as_deref())?;
            let actual = swapped.err().map(|mismatch| mismatch.actual);
            let wanted = (!expected).then_some(before.as_deref());
            assert_eq!(
                actual.as_ref().map(|it| it.as_deref()),
                wanted,
                "compare_and_swap"
            );
            Ok(())
        };
        let known = if expected {
            vec![(key.0.clone(), after)]
        } else {
            Vec::new()
        };
        let syncs = expected && self.config.syncs_every_write();
        self.change("compare_and_swap", known, call, syncs)?;
        Ok(())
    }

    /// Changes how long values live by default in a keyspace, if it is there.
    fn set_default_ttl(&mut self, name: &str, ttl_ms: u64) -> Result<(), Interrupt> {
        if self.db().find_keyspace(name).is_none() {
            return Ok(());
        }
        let (ttl, known) = match ttl_ms {
            u64::MAX => (Duration::MAX, None),
            ms => (Duration::from_millis(ms), Some(ms)),
        };
        let compression = match name {
            "b" => Compression::Lz4,
            _ => Compression::None,
        };
        let options = KeyspaceOptions::default()
            .default_ttl(ttl)
            .compression(compression);
        let call = |runner: &Runner| runner.db().keyspace(name, options).map(drop);
        self.change("keyspace", vec![spaces::present(name, known)], call, true)?;
        Ok(())
    }
}
