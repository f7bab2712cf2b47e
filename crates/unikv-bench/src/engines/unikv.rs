//! UniKV under test.

use crate::engine::{BatchOp, Direction, Engine, Figures};
use crate::failure::Failure;
use crate::measure::space::{FLOOR_BYTES, SpaceLimits};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{Batch, Db, EffectiveOptions, Options, StallCause, Stats};

/// An open UniKV database.
pub struct UniKv(Db);

impl UniKv {
    /// The database itself, for what no other engine has.
    pub fn db(&self) -> &Db {
        &self.0
    }
}

impl Engine for UniKv {
    type Setup = Options;

    fn open(dir: &Path, setup: &Options, create: bool) -> Result<UniKv, Failure> {
        let opened = if create {
            Db::open(dir, setup.clone())
        } else {
            Db::open_existing(dir, setup.clone())
        };
        opened.map(UniKv).map_err(Failure::engine)
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.0.put(key, value).map_err(Failure::engine)
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.0.delete(key).map_err(Failure::engine)
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut all = Batch::new();
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => all.put(key, value),
                BatchOp::Delete(key) => all.delete(key),
            };
        }
        self.0.write(&all).map_err(Failure::engine)
    }

    #[inline]
    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        let value = self.0.get(key).map_err(Failure::engine)?;
        Ok(value.map(|value| found(&value)))
    }

    fn multi_get(
        &self,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<&[u8]>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let values = self.0.multi_get(keys).map_err(Failure::engine)?;
        let mut values = values.iter().enumerate();
        values.try_for_each(|(place, value)| found(place, value.as_deref()))
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        match direction {
            Direction::Forwards => {
                let range = self.0.range((from, Bound::Unbounded));
                for entry in range.expecting(limit).take(limit) {
                    let (key, value) = entry.map_err(Failure::engine)?;
                    visit(&key, &value)?;
                }
            }
            Direction::Backwards => {
                let range = self.0.range((Bound::Unbounded, from));
                for entry in range.expecting(limit).rev().take(limit) {
                    let (key, value) = entry.map_err(Failure::engine)?;
                    visit(&key, &value)?;
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::engine)
    }

    fn compact(&self) -> Result<(), Failure> {
        self.0.compact().map_err(Failure::engine)
    }

    fn settle(&self) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.0.wait_until_idle().map_err(Failure::engine)?;
        Ok(start.elapsed())
    }

    fn close(self) -> Result<(), Failure> {
        self.0.close().map(drop).map_err(Failure::engine)
    }

    fn figures(&self) -> Option<Figures> {
        Some(figures_of(&self.0.stats()))
    }

    fn stall_causes() -> Vec<&'static str> {
        StallCause::ALL.map(StallCause::name).to_vec()
    }

    fn held_up(&self) -> Vec<Duration> {
        let stats = self.0.stats();
        let time = |cause| {
            let figures = stats.stall_causes.iter().find(|stall| stall.cause == cause);
            figures.map_or(Duration::ZERO, |stall| stall.time)
        };
        StallCause::ALL.into_iter().map(time).collect()
    }

    fn space_limits(&self, floor_bytes: Option<u64>) -> Option<SpaceLimits> {
        Some(space_limits(&self.0.options(), floor_bytes))
    }
}

/// What a database opened with `options` promises of its space; the floor is the one that these
/// promise, if not given.
pub fn space_limits(options: &EffectiveOptions, floor_bytes: Option<u64>) -> SpaceLimits {
    let floor_bytes = floor_bytes.unwrap_or(FLOOR_BYTES + 11 * options.memtable_bytes);
    let jobs = 2 * options.unsorted_bytes * options.background_threads as u64;
    SpaceLimits {
        max_space_amp: options.max_space_amp,
        fixed_bytes: jobs + floor_bytes,
    }
}

fn figures_of(stats: &Stats) -> Figures {
    Figures {
        user_bytes_written: stats.user_bytes_written,
        written_bytes: stats.written_bytes(),
        wal_bytes: stats.wal_bytes,
        large_bytes: stats.large_bytes,
        flush_bytes: stats.flush_bytes,
        ingest_bytes: stats.ingest_bytes,
        merge_bytes: stats.merge_bytes,
        gc_bytes: stats.gc_bytes,
        scan_merge_bytes: stats.scan_merge_bytes,
        manifest_bytes: stats.manifest_bytes,
        reads: stats.reads,
        read_bytes: stats.read_bytes,
        flushes: stats.flushes,
        merges: stats.merges,
        gcs: stats.gcs,
        splits: stats.splits,
        joins: stats.joins,
        stalls: stats.stalls,
        stall_time: stats.stall_time,
        longest_stall: stats.longest_stall,
        partition_merges: stats.partitions.iter().map(|p| (p.id, p.merges)).collect(),
        disk_bytes: stats.disk_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_wrote_counts_every_writer() {
        let mut stats = Stats::default();
        stats.user_bytes_written = 1000;
        // Powers of two, so that no two sums are equal.
        let writers = [
            &mut stats.wal_bytes,
            &mut stats.large_bytes,
            &mut stats.flush_bytes,
            &mut stats.ingest_bytes,
            &mut stats.merge_bytes,
            &mut stats.gc_bytes,
            &mut stats.scan_merge_bytes,
            &mut stats.manifest_bytes,
        ];
        for (power, bytes) in writers.into_iter().enumerate() {
            *bytes = 1 << power;
        }
        let figures = figures_of(&stats);
        assert_eq!(figures.written_bytes, 255);
        let each = [
            figures.wal_bytes,
            figures.large_bytes,
            figures.flush_bytes,
            figures.ingest_bytes,
            figures.merge_bytes,
            figures.gc_bytes,
            figures.scan_merge_bytes,
            figures.manifest_bytes,
        ];
        assert_eq!(each, [1, 2, 4, 8, 16, 32, 64, 128]);
    }
}
