//! Every shape of data in databases in memory: the right values, and memory of the files within
//! what the promise on space allows.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]

use std::collections::BTreeMap;
use unikv::{Db, Options, Tuning};
use unikv_shapes::{Change, Shape};

const BYTES: u64 = 3 << 20;
const MEMTABLE_BYTES: u64 = 128 << 10;
/// Beside what `max_space_amp` allows of the data: the log, the UnsortedStore, and chunks of files
/// that are not full.
const FLOOR: u64 = (16 << 20) + 11 * MEMTABLE_BYTES;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Load {
    db: Db,
    shape: Shape,
    model: Model,
    versions: BTreeMap<u64, u64>,
}

impl Load {
    fn put(&mut self, id: u64) {
        let version = self.versions.entry(id).or_default();
        *version += 1;
        let key = self.shape.key(id);
        let value = vec![(id + *version) as u8; self.shape.value_len(id, *version)];
        self.db.put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn delete(&mut self, id: u64) {
        let key = self.shape.key(id);
        self.db.delete(&key).unwrap();
        self.model.remove(&key);
    }

    fn change(&mut self, keys: u64) {
        match self.shape.change() {
            Change::Mixed => (0..keys).for_each(|id| match id % 8 {
                0 => self.delete(id),
                _ => self.put(id * 7919 % keys),
            }),
            Change::LongOnes => {
                let rare: Vec<_> = (0..keys).filter(|id| self.shape.is_rare(*id)).collect();
                rare.iter().for_each(|id| self.delete(*id));
                rare.iter().for_each(|id| self.put(*id));
            }
            Change::Queue => (0..keys).for_each(|id| {
                self.delete(id);
                self.put(id + keys);
            }),
            Change::Delete => (0..keys).for_each(|id| self.delete(id)),
            Change::Replace => (0..keys).for_each(|id| self.put(id)),
        }
    }

    fn verify(&self) {
        let mut model = self.model.iter();
        for entry in self.db.iter() {
            let (key, value) = entry.unwrap();
            let expected = model.next().map(|(key, value)| (&key[..], &value[..]));
            assert!(expected == Some((&key[..], &value[..])), "{key:?}");
        }
        assert_eq!(model.next(), None);
        for (key, value) in self.model.iter().step_by(7) {
            assert!(self.db.get(key).unwrap().as_deref() == Some(&value[..]));
        }
    }
}

#[test]
fn every_shape_is_served_from_memory() {
    for shape in Shape::ALL {
        let options = Options::default().memory_budget(8 << 20).tuning(
            Tuning::default()
                .memtable_bytes(MEMTABLE_BYTES)
                .unsorted_bytes(512 << 10)
                .partition_bytes(2 << 20)
                .key_table_bytes(128 << 10),
        );
        let mut load = Load {
            db: Db::in_memory(options).unwrap(),
            shape,
            model: Model::new(),
            versions: BTreeMap::new(),
        };
        let keys = shape.keys_in(BYTES);
        (0..keys).for_each(|id| load.put(id));
        load.verify();
        load.change(keys);
        load.db.wait_until_idle().unwrap();
        load.verify();
        let data = load
            .model
            .iter()
            .map(|(k, v)| (2 * k.len() + v.len() + 70) as u64);
        let allowed = data.sum::<u64>() * 3 / 2 + FLOOR;
        let stats = load.db.stats();
        let taken = stats.in_memory_bytes;
        assert!(
            taken > 0 && taken <= allowed,
            "{shape:?}: {taken} of {allowed}"
        );
        assert!(!load.db.path().exists());
        load.db.close().unwrap();
    }
}
