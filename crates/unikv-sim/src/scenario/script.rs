//! Writes down the operations of a scenario.

use crate::config::Config;
use crate::history::{History, Key, Op, Range, Walk};
use crate::value::Value;
use std::time::Duration;
use unikv::{Clustering, Compression, Durability};

/// Options under which nothing happens by itself but flushes; each scenario changes what it is
/// about.
pub fn quiet() -> Config {
    Config {
        durability: Durability::Periodic(Duration::from_secs(3600)),
        clustering: Clustering::LeastWriting,
        memtable_bytes: 4 << 10,
        unsorted_bytes: 1 << 20,
        partition_bytes: 1 << 40,
        inline_value_bytes: 16,
        max_space_amp: 3.0,
        key_table_bytes: 1 << 10,
        block_bytes: 256,
        memory_budget: 4 << 20,
        background_threads: 2,
        scan_merge_limit: 100,
        compression: Compression::None,
        default_ttl_ms: None,
        change_window_bytes: 0,
    }
}

/// Operations so far.
#[derive(Default)]
pub struct Script {
    ops: Vec<Op>,
    stamp: u32,
    expires: bool,
}

/// The key with this number.
pub fn key(n: u32) -> Key {
    Key(format!("key{n:04}").into_bytes())
}

impl Script {
    /// The history under these options.
    pub fn under(self, config: Config) -> History {
        History {
            seed: 1,
            config,
            cold: false,
            expires: self.expires,
            ops: self.ops,
        }
    }

    /// An operation.
    pub fn op(&mut self, op: Op) -> &mut Script {
        self.ops.push(op);
        self
    }

    fn value(&mut self, len: usize) -> Option<Value> {
        self.stamp += 1;
        Some(Value::new(self.stamp, len))
    }

    /// Puts of values of this length.
    pub fn put(&mut self, keys: impl IntoIterator<Item = u32>, len: usize) -> &mut Script {
        for n in keys {
            let value = self.value(len);
            self.op(Op::Set(key(n), value));
        }
        self
    }

    /// Puts of values of this length that live so long, in milliseconds.
    pub fn put_for(
        &mut self,
        keys: impl IntoIterator<Item = u32>,
        len: usize,
        ttl_ms: u64,
    ) -> &mut Script {
        self.expires = true;
        for n in keys {
            let value = self.value(len).map(|value| value.living(Some(ttl_ms)));
            self.op(Op::Set(key(n), value));
        }
        self
    }

    /// Deletes.
    pub fn delete(&mut self, keys: impl IntoIterator<Item = u32>) -> &mut Script {
        for n in keys {
            self.op(Op::Set(key(n), None));
        }
        self
    }

    /// A batch of puts, whose last key is deleted.
    pub fn batch(
        &mut self,
        keys: impl IntoIterator<Item = u32>,
        len: usize,
        sync: Option<bool>,
    ) -> &mut Script {
        let mut changes = self.changes(keys, len);
        if let Some((_, value)) = changes.last_mut() {
            *value = None;
        }
        self.op(Op::Write(changes, sync))
    }

    /// An ingest of puts, with a commit tag.
    pub fn ingest(&mut self, keys: impl IntoIterator<Item = u32>, len: usize) -> &mut Script {
        let changes = self.changes(keys, len);
        self.op(Op::Ingest(changes, true))
    }

    /// Keys with new values.
    pub fn changes(
        &mut self,
        keys: impl IntoIterator<Item = u32>,
        len: usize,
    ) -> Vec<(Key, Option<Value>)> {
        keys.into_iter()
            .map(|n| (key(n), self.value(len)))
            .collect()
    }

    /// Lets the background take some steps.
    pub fn steps(&mut self, n: usize) -> &mut Script {
        self.op(Op::Step(n))
    }

    /// Takes a snapshot and an iterator, to be held.
    pub fn hold(&mut self, slot: usize) -> &mut Script {
        self.op(Op::Snapshot(slot));
        self.op(Op::Iterate(slot, Range::All, None))
    }

    /// Reads what [`Script::hold`] holds: some entries from both ends, the snapshot whole.
    pub fn held(&mut self, slot: usize) -> &mut Script {
        self.op(Op::Advance(slot, 3, Walk::Both(0b010)));
        self.op(Op::ReadSnapshot(
            slot,
            vec![key(1), key(5)],
            Range::All,
            Walk::Backward,
        ))
    }

    /// This many scans of everything.
    pub fn scans(&mut self, n: usize) -> &mut Script {
        for _ in 0..n {
            self.op(Op::Scan(Range::All, Walk::Forward));
        }
        self
    }
}
