//! What a run does with transactions: each read is compared with the moment of the transaction and
//! its own writes, and each commit with what others have written since.

use super::ranges::{as_bytes, is_empty};
use super::{Held, Interrupt, Runner};
use crate::history::{Bounds, Key, Range, TxOp, Walk};
use crate::oracle::Change;
use crate::oracle::State;
use crate::spaces;
use crate::value::{Bytes, Value, show, show_option};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};
use std::time::Duration;
use unikv::{Batch, ErrorKind, Isolation, Transaction};

/// A transaction and what is known of it.
pub(super) struct HeldTransaction {
    transaction: Transaction,
    isolation: Isolation,
    /// What the default keyspace held at its moment, with its own writes.
    state: State,
    own: Own,
    /// The ranges that it has deleted.
    deleted: Vec<Range>,
    savepoints: Vec<(State, Own, Vec<Range>)>,
    /// What it depends on.
    keys: BTreeSet<Vec<u8>>,
    ranges: Vec<Bounds>,
    /// How many writes there had been.
    since: usize,
}

type Own = BTreeMap<Vec<u8>, Option<OwnValue>>;

/// A value that a transaction has written, and how long it lives from the commit on, if it was
/// said.
#[derive(Clone)]
struct OwnValue {
    bytes: Bytes,
    ttl_ms: Option<u64>,
}

impl HeldTransaction {
    /// Whether it has deleted a range with this key.
    fn deletes(&self, key: &[u8]) -> bool {
        self.deleted.iter().any(|range| {
            let bounds = range.bounds();
            RangeBounds::<[u8]>::contains(&as_bytes(&bounds), key)
        })
    }

    /// Whether one of these keys was written means that it must not commit.
    fn conflicts_with(&self, key: &[u8]) -> bool {
        let in_range = |(low, high): &Bounds| {
            let bounds = (low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]));
            RangeBounds::<[u8]>::contains(&bounds, key)
        };
        let is_written = self.own.contains_key(key) || self.deletes(key);
        let writes = self.isolation == Isolation::Snapshot && is_written;
        writes || self.keys.contains(key) || self.ranges.iter().any(in_range)
    }
}

impl Runner {
    /// One operation of a transaction; without one it does nothing.
    pub(super) fn transaction_op(&mut self, slot: usize, op: &TxOp) -> Result<(), Interrupt> {
        if let TxOp::Begin(serializable) = op {
            self.begin(slot, *serializable);
            return Ok(());
        }
        let Some(mut held) = self.transactions[slot].take() else {
            return Ok(());
        };
        match op {
            TxOp::Begin(_) => {}
            TxOp::Get(key, for_update) => self.get_in(&mut held, key, *for_update)?,
            TxOp::GetMany(key, count, for_update) => {
                for n in 0..*count {
                    let key = Key([&key.0[..key.0.len().min(1000)], &n.to_be_bytes()].concat());
                    self.get_in(&mut held, &key, *for_update)?;
                }
            }
            TxOp::Scan(range, walk) => self.scan_in(&mut held, range, *walk)?,
            TxOp::Drain(range, _) if is_empty(range) => {}
            TxOp::Drain(range, count) => self.drain_in(&mut held, range, *count)?,
            TxOp::Set(key, value) => {
                let bytes = value.map(Value::bytes);
                let ttl = value.and_then(Value::ttl);
                let written = match (&bytes, ttl) {
                    (Some(bytes), None) => held.transaction.put(key, bytes),
                    (Some(bytes), Some(ttl)) => held.transaction.put_with_ttl(key, bytes, ttl),
                    (None, _) => held.transaction.delete(key),
                };
                self.must("a write of a transaction", written)?;
                let own = value.map(|value| OwnValue {
                    bytes: value.bytes(),
                    ttl_ms: value.ttl_ms,
                });
                held.own.insert(key.0.clone(), own);
                match bytes {
                    Some(bytes) => drop(held.state.insert(key.0.clone(), bytes)),
                    None => drop(held.state.remove(&key.0)),
                }
            }
            TxOp::DeleteRange(range) if is_empty(range) => {
                let written = held.transaction.delete_range(as_bytes(&range.bounds()));
                self.must("a delete of nothing", written)?;
            }
            TxOp::DeleteRange(range) => {
                let bounds = range.bounds();
                let bounds = as_bytes(&bounds);
                let written = held.transaction.delete_range(bounds);
                self.must("a range delete of a transaction", written)?;
                let is_inside = |key: &[u8]| RangeBounds::<[u8]>::contains(&bounds, key);
                held.own.retain(|key, _| !is_inside(key));
                held.state.retain(|key, _| !is_inside(key));
                held.deleted.push(range.clone());
            }
            TxOp::Expire(key, ms) => self.set_lifetime(&mut held, key, *ms)?,
            TxOp::Persist(key) => self.set_lifetime(&mut held, key, u64::MAX)?,
            TxOp::Savepoint => {
                held.transaction.set_savepoint();
                let saved = (held.state.clone(), held.own.clone(), held.deleted.clone());
                held.savepoints.push(saved);
            }
            TxOp::Rollback => {
                let there = held.savepoints.pop();
                assert_eq!(held.transaction.rollback_to_savepoint(), there.is_some());
                if let Some((state, own, deleted)) = there {
                    (held.state, held.own, held.deleted) = (state, own, deleted);
                }
            }
            TxOp::Commit => return self.commit(held),
        }
        self.transactions[slot] = Some(held);
        Ok(())
    }

    fn begin(&mut self, slot: usize, serializable: bool) {
        if self.oracle.unknowns() > 0 {
            return;
        }
        let isolation = if serializable {
            Isolation::Serializable
        } else {
            Isolation::Snapshot
        };
        self.transactions[slot] = Some(HeldTransaction {
            transaction: self.db().begin_with(isolation),
            isolation,
            state: spaces::own(self.oracle.state(), self.time()),
            own: Own::new(),
            deleted: Vec::new(),
            savepoints: Vec::new(),
            keys: BTreeSet::new(),
            ranges: Vec::new(),
            since: self.oracle.written().len(),
        });
    }

    fn get_in(
        &self,
        held: &mut HeldTransaction,
        key: &Key,
        for_update: bool,
    ) -> Result<(), Interrupt> {
        let got = if for_update {
            held.transaction.get_for_update(key)
        } else {
            held.transaction.get(key)
        };
        let got = self.must("get of a transaction", got)?;
        self.note(got.as_deref());
        let want = held.state.get(&key.0).map(|value| &value[..]);
        assert!(
            got.as_deref() == want,
            "get of {} in a transaction answers {}, not {}",
            show(key),
            show_option(got.as_deref()),
            show_option(want)
        );
        let is_own = held.own.contains_key(&key.0) || held.deletes(&key.0);
        if for_update || (held.isolation == Isolation::Serializable && !is_own) {
            held.keys.insert(key.0.clone());
        }
        Ok(())
    }

    fn scan_in(
        &self,
        held: &mut HeldTransaction,
        range: &Range,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let mut all = Held::of(&held.transaction, &held.state, range);
        let steps = all.pairs.len() + 1;
        self.follow(&mut all, steps, walk)?;
        if held.isolation == Isolation::Serializable {
            held.ranges.push(range.bounds());
        }
        Ok(())
    }

    fn drain_in(
        &self,
        held: &mut HeldTransaction,
        range: &Range,
        count: u16,
    ) -> Result<(), Interrupt> {
        let bounds = range.bounds();
        let mut read = bounds.clone();
        for _ in 0..count {
            let first = held.transaction.range(as_bytes(&bounds)).next();
            let first = self.must("the first of a range in a transaction", first.transpose())?;
            let mut left = held.state.range::<[u8], _>(as_bytes(&bounds));
            let want = left.next().map(|(key, _)| key.clone());
            let got = first.map(|(key, _)| key.to_vec());
            assert_eq!(got, want, "the first key of a range that is being emptied");
            let Some(key) = want else {
                // It has looked as far as the range goes.
                read = bounds.clone();
                break;
            };
            let deleted = held.transaction.delete(&key);
            self.must("a delete of a transaction", deleted)?;
            held.state.remove(&key);
            held.own.insert(key.clone(), None);
            read.1 = Bound::Included(Key(key));
        }
        if held.isolation == Isolation::Serializable {
            held.ranges.push(read);
        }
        Ok(())
    }

    /// `expire`, or `clear_ttl` where it lives for ever.
    fn set_lifetime(
        &self,
        held: &mut HeldTransaction,
        key: &Key,
        ttl_ms: u64,
    ) -> Result<(), Interrupt> {
        let there = held.state.get(&key.0).cloned();
        let own = held.own.get(&key.0).cloned().flatten();
        let expires = match (&there, &own) {
            (Some(_), Some(own)) => self.end(None, own.ttl_ms).is_some(),
            (Some(value), None) => value.expiry_ms.is_some(),
            (None, _) => false,
        };
        let persists = ttl_ms == u64::MAX;
        let set = if persists {
            held.transaction.clear_ttl(key)
        } else {
            held.transaction.expire(key, Duration::from_millis(ttl_ms))
        };
        let set = self.must("a change of a lifetime in a transaction", set)?;
        let changes = there.filter(|_| expires || !persists);
        assert_eq!(set, changes.is_some(), "whether a lifetime was changed");
        // What was looked at may not be written by others, whatever the isolation where it is
        // written again.
        let is_own = held.own.contains_key(&key.0) || held.deletes(&key.0);
        let is_noted = held.isolation == Isolation::Serializable && !is_own;
        if changes.is_some() || !persists || is_noted {
            held.keys.insert(key.0.clone());
        }
        if let Some(value) = changes {
            let bytes = value.until(None);
            let own = OwnValue {
                bytes: bytes.clone(),
                ttl_ms: Some(ttl_ms),
            };
            held.own.insert(key.0.clone(), Some(own));
            held.state.insert(key.0.clone(), bytes);
        }
        Ok(())
    }

    fn commit(&mut self, held: HeldTransaction) -> Result<(), Interrupt> {
        let written = self.oracle.written();
        let later = &written[held.since.min(written.len())..];
        let keys = later.iter().flatten();
        let must_conflict = keys.clone().any(|key| held.conflicts_with(key));
        let is_idle = later.is_empty();
        let known = self.oracle.unknowns() == 0;
        if held.own.is_empty() && held.deleted.is_empty() {
            return self.must(
                "the commit of what writes nothing",
                held.transaction.commit(),
            );
        }
        let deleted = held.deleted.iter().flat_map(|range| self.ever_in(range));
        let deleted = deleted.map(|key| (key, None));
        let own = held.own.iter().map(|(key, value)| {
            let stored = |value: &OwnValue| {
                let end = self.end(None, value.ttl_ms);
                value.bytes.clone().until(end)
            };
            (key.clone(), value.as_ref().map(stored))
        });
        let changes: Vec<Change> = deleted.chain(own).collect();
        let mut plainly = Batch::new();
        for (key, change) in &changes {
            let ttl_ms = held.own.get(key).and_then(|own| own.as_ref()?.ttl_ms);
            let ttl = Value::new(0, 0).living(ttl_ms).ttl();
            match (change, ttl) {
                (None, _) => plainly.delete(key),
                (Some(value), None) => plainly.put(key, value),
                (Some(value), Some(ttl)) => plainly.put_with_ttl(key, value, ttl),
            };
        }
        let mut transaction = Some(held.transaction);
        let mut has_conflict = false;
        self.write_by(changes, |runner| {
            let Some(transaction) = transaction.take() else {
                return Ok(true);
            };
            match transaction.commit() {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    has_conflict = true;
                    assert!(
                        must_conflict || !is_idle || !known,
                        "a conflict with nothing"
                    );
                    if must_conflict || !known {
                        return Ok(false);
                    }
                    // Less was kept than it needs, which depends on the options: what is written
                    // in the end does not.
                    runner.db().write(&plainly).map(|()| true)
                }
                done => done.map(|()| true),
            }
        })?;
        assert!(
            has_conflict || !must_conflict || !known,
            "a transaction commits though what it depends on was written"
        );
        Ok(())
    }
}
