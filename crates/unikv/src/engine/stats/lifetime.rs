//! What is counted over the whole life of a database, from process to process.
//!
//! The manifest keeps it (`docs/format.md`, "Lifetime figures"): in each snapshot, in each edit of
//! a job, and in an edit of its own when the database is closed. A crash loses what was counted
//! since, and so does dropping the database without closing it. These are statistics: nothing
//! depends on them, and a release that does not know them skips them.
//!
//! Lock: storing them takes the catalog's.

use crate::base::coding::Decoder;
use crate::engine::stats::stalls::StallStats;
use crate::engine::stats::table::each_counter;
use crate::error::Result;
use crate::events::StallCause;
use crate::version::Version;
use crate::version::tagged::{FieldWriter, Fields, Place};
use std::path::Path;
use std::time::Duration;

/// The tags of what is no counter, and of the last. The numbers are in the files and never change.
const STALL_TAG: u16 = 16;
const SCAN_COST_TAG: u16 = 19;
const LAST_TAG: u16 = SCAN_COST_TAG;

/// What was counted since a database was created, or since a release first counted it. A crash, or
/// dropping it without [`Db::close`](crate::Db::close), loses what was counted after the last flush
/// or other job. Openings that wrote nothing are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LifetimeStats {
    /// Bytes of the keys and values of committed operations, ingested ones included.
    pub user_bytes_written: u64,
    /// Bytes appended to the WAL.
    pub wal_bytes: u64,
    /// Bytes of record files for large values.
    pub large_bytes: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Bytes written by ingests.
    pub ingest_bytes: u64,
    /// Bytes written by merges, copied values included.
    pub merge_bytes: u64,
    /// Bytes written by garbage collection that ran alone, copied values included.
    pub gc_bytes: u64,
    /// Of what merges wrote, bytes of values that were copied into key order for scans.
    pub clustered_bytes: u64,
    /// Bytes written by scan merges.
    pub scan_merge_bytes: u64,
    /// Bytes written to manifests.
    pub manifest_bytes: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Sorted streams ingested.
    pub ingests: u64,
    /// Merges done.
    pub merges: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Partitions split.
    pub splits: u64,
    /// Neighbouring partitions joined, two at a time.
    pub joins: u64,
    /// Merges of keys of an UnsortedStore for scans.
    pub scan_merges: u64,
    /// Pauses and waits of writers by what caused them; causes that never held a writer up are left
    /// out.
    pub stall_causes: Vec<StallStats>,
    /// No figure of the past: what scans have lost so far by values that are fragmented, in bytes
    /// that could be copied in that time, less what clustering has copied for them.
    pub scan_cost: u64,
}

impl LifetimeStats {
    /// Bytes written to files, the WAL included.
    pub fn written_bytes(&self) -> u64 {
        let written = [
            self.wal_bytes,
            self.large_bytes,
            self.flush_bytes,
            self.ingest_bytes,
            self.merge_bytes,
            self.gc_bytes,
            self.scan_merge_bytes,
            self.manifest_bytes,
        ];
        written.into_iter().fold(0, u64::saturating_add)
    }

    /// Bytes written to files per byte that the user wrote, the WAL included. Zero before the first
    /// write.
    pub fn write_amplification(&self) -> f64 {
        amplification(self.written_bytes(), self.user_bytes_written)
    }

    /// These and what was counted before them.
    pub(crate) fn after(mut self, before: &LifetimeStats) -> LifetimeStats {
        let mut before = before.clone();
        for ((_, sum), (_, number)) in self.numbers().into_iter().zip(before.numbers()) {
            *sum = sum.saturating_add(*number);
        }
        for stall in before.stall_causes {
            self.add_stall(stall);
        }
        self
    }

    fn add_stall(&mut self, stall: StallStats) {
        let stalls = &mut self.stall_causes;
        match stalls.iter_mut().find(|s| s.cause == stall.cause) {
            Some(sum) => {
                sum.count = sum.count.saturating_add(stall.count);
                sum.time = sum.time.saturating_add(stall.time);
                sum.longest = sum.longest.max(stall.longest);
            }
            None => {
                let at = stalls.partition_point(|s| code(s.cause) < code(stall.cause));
                stalls.insert(at, stall);
            }
        }
    }

    /// The bytes that go into the manifest. What is zero is left out.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        for (tag, number) in self.clone().numbers() {
            if *number > 0 {
                out.put_skippable(tag, &number.to_le_bytes());
            }
        }
        if self.scan_cost > 0 {
            out.put_skippable(SCAN_COST_TAG, &self.scan_cost.to_le_bytes());
        }
        for stall in &self.stall_causes {
            let numbers = [
                code(stall.cause),
                stall.count,
                nanos(stall.time),
                nanos(stall.longest),
            ];
            let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
            out.put_skippable(STALL_TAG, &bytes);
        }
        out.finish()
    }

    /// Decodes what stands in the manifest at `path`.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<LifetimeStats> {
        let place = Place { path, offset: 0 };
        let fields = Fields::read(bytes, "lifetime figures", 1..=LAST_TAG, place)?;
        let mut found = LifetimeStats::default();
        for (tag, number) in found.numbers() {
            *number = fields.u64(tag)?.unwrap_or(0);
        }
        found.scan_cost = fields.u64(SCAN_COST_TAG)?.unwrap_or(0);
        for bytes in fields.all(STALL_TAG) {
            let mut d = Decoder::new(bytes);
            let mut four = || Some([d.u64()?, d.u64()?, d.u64()?, d.u64()?]);
            let numbers = four().filter(|_| d.is_empty());
            let [cause, count, time, longest] =
                numbers.ok_or_else(|| fields.corrupt(STALL_TAG, "has a wrong length"))?;
            // A newer release may know more causes.
            if let Some(cause) = StallCause::ALL.into_iter().find(|c| code(*c) == cause) {
                found.add_stall(StallStats {
                    cause,
                    count,
                    time: Duration::from_nanos(time),
                    longest: Duration::from_nanos(longest),
                });
            }
        }
        Ok(found)
    }
}

macro_rules! number_figures {
    ($($name:ident: $(stats $stats:ident)? $(,)? $(life $life:ident = $tag:literal)?;)*) => {
        impl LifetimeStats {
            /// The single numbers with their tags.
            fn numbers(&mut self) -> Vec<(u16, &mut u64)> {
                vec![$($(($tag, &mut self.$life),)?)*]
            }
        }
    };
}
each_counter!(number_figures);

/// Bytes written per byte of the user's; zero before there is one.
pub(crate) fn amplification(written_bytes: u64, user_bytes: u64) -> f64 {
    match user_bytes {
        0 => 0.0,
        user_bytes => written_bytes as f64 / user_bytes as f64,
    }
}

/// How files name a cause. The numbers never change.
fn code(cause: StallCause) -> u64 {
    match cause {
        StallCause::Memtables => 1,
        StallCause::UnsortedStore => 2,
        StallCause::Space => 3,
        StallCause::FlushWait => 4,
        StallCause::MergeWait => 5,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the manifest at `path`, which describes `version`, has stored; zeros if nothing.
pub(crate) fn of(version: &Version, path: &Path) -> Result<LifetimeStats> {
    match &version.counters.lifetime {
        Some(bytes) => LifetimeStats::decode(bytes, path),
        None => Ok(LifetimeStats::default()),
    }
}

#[cfg(test)]
mod tests;
