//! The promise on space, and the pauses of writers, for every shape of data: see `space.rs` for
//! what no listing may exceed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set its stage must fail; the figures are for whoever reads its output"
)]

mod limit;
mod standstill;
mod watched;

use rand::Rng;
use unikv::{Clustering, Db, Tuning};
use unikv_shapes::{Change, Shape};
use watched::{Stage, options, watched};

const BYTES: u64 = 20 << 20;
/// Of one key there are as many versions as of keys elsewhere.
const VERSIONS: u64 = 20_000;

/// Keys of a shape, each with the version that it has.
struct Load<'a, 'b> {
    stage: &'a mut Stage<'b>,
    shape: Shape,
    versions: Vec<u64>,
}

impl Load<'_, '_> {
    fn put(&mut self, id: u64) {
        let at = id as usize;
        if at >= self.versions.len() {
            self.versions.resize(at + 1, 0);
        }
        self.versions[at] += 1;
        let len = self.shape.value_len(id, self.versions[at]);
        self.stage.put(id, len);
    }

    fn change(&mut self, keys: u64) {
        let rare: Vec<u64> = (0..keys).filter(|id| self.shape.is_rare(*id)).collect();
        match self.shape.change() {
            Change::Mixed => {
                let before = self.stage.db.stats().user_bytes_written;
                let written = |db: &Db| db.stats().user_bytes_written - before;
                for n in 0..keys.max(VERSIONS) {
                    if n % 64 == 0 && written(self.stage.db) > 2 * BYTES {
                        break;
                    }
                    let id = self.stage.rng.random_range(0..keys);
                    match self.stage.rng.random_range(0..8) {
                        0 => self.stage.delete(id),
                        _ => self.put(id),
                    }
                }
            }
            Change::LongOnes => {
                rare.iter().for_each(|id| self.stage.delete(*id));
                self.stage.wait_until_idle();
                rare.iter().for_each(|id| self.put(*id));
                rare.iter().for_each(|id| self.put(*id));
            }
            Change::Queue => {
                for id in 0..2 * keys {
                    self.stage.delete(id);
                    self.put(id + keys);
                }
            }
            Change::Delete => {
                let step = (7919 % keys.max(1)) | 1;
                (0..keys).for_each(|id| self.stage.delete(id * step % keys));
                (0..keys).for_each(|id| self.stage.delete(id));
            }
            Change::Replace => {
                for _ in 0..3 {
                    (0..keys).for_each(|id| self.put(id));
                    self.stage.wait_until_idle();
                }
            }
        }
    }
}

#[test]
fn space_holds_for_every_shape() {
    for shape in Shape::ALL {
        let name = shape.name();
        let (nearest, stats) = watched(
            name,
            options(Clustering::LeastWriting).tuning(Tuning::default().key_table_bytes(512 << 10)),
            Some(shape),
            |stage| {
                let keys = shape.keys_in(BYTES);
                let mut load = Load {
                    stage,
                    shape,
                    versions: Vec::new(),
                };
                (0..keys).for_each(|id| load.put(id));
                load.stage.wait_until_idle();
                load.change(keys);
            },
        );
        assert!(nearest <= 1.0, "{name}: {nearest}");
        let longest = stats.stall_causes.iter().map(|cause| cause.longest).max();
        eprintln!("{name}: longest pause {:?}", longest.unwrap_or_default());
    }
}
