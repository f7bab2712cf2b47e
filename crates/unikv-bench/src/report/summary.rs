//! What a whole run did: jobs, merges of each partition, bytes written, and the space promise.

use crate::measure::space::SpaceReport;
use crate::report::fold::print_folded;
use crate::report::phase::PhaseReport;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Merges of each partition, over several openings of the database.
#[derive(Default)]
pub struct MergeTally {
    before: BTreeMap<u64, u64>,
    now: BTreeMap<u64, u64>,
}

impl MergeTally {
    /// Takes the counts of the open database.
    pub fn note(&mut self, partition_merges: &[(u64, u64)]) {
        self.now = partition_merges.iter().copied().collect();
    }

    /// The database is closed: its counts begin again.
    pub fn close(&mut self) {
        for (id, merges) in std::mem::take(&mut self.now) {
            *self.before.entry(id).or_default() += merges;
        }
    }

    /// Partition and merges, of the partitions that there are.
    pub fn merges(&self) -> Vec<(u64, u64)> {
        let before = |id| self.before.get(id).copied().unwrap_or_default();
        let all = self.now.iter().map(|(id, now)| (*id, now + before(id)));
        all.collect()
    }
}

/// The whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Keys and values of committed operations.
    pub user_bytes_written: u64,
    /// Bytes that the engine wrote to files.
    pub engine_bytes_written: u64,
    /// Bytes that the process caused to be written to devices.
    pub device_write_bytes: Option<u64>,
    /// Engine's bytes over the user's.
    pub write_amplification: Option<f64>,
    /// Flushes done.
    pub flushes: u64,
    /// Merges done.
    pub merges: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Partitions split.
    pub splits: u64,
    /// Neighbouring partitions joined.
    pub joins: u64,
    /// Of the partitions at the end: id and merges since it came to be.
    pub partition_merges: Vec<(u64, u64)>,
    /// The longest put or delete.
    pub longest_write_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// How the space promise was kept.
    pub space: Option<SpaceReport>,
}

impl Summary {
    /// What `phases` come to.
    pub fn new(phases: &[PhaseReport], merges: &MergeTally) -> Summary {
        let mut sum = Summary {
            partition_merges: merges.merges(),
            ..Summary::default()
        };
        for phase in phases {
            let costs = &phase.costs;
            sum.user_bytes_written += costs.user_bytes_written;
            sum.engine_bytes_written += costs.written_bytes();
            if let Some(bytes) = costs.device_write_bytes {
                *sum.device_write_bytes.get_or_insert(0) += bytes;
            }
            sum.flushes += costs.flushes;
            sum.merges += costs.merges;
            sum.gcs += costs.gcs;
            sum.splits += costs.splits;
            sum.joins += costs.joins;
            let longest = [sum.longest_write_ms, phase.longest_write_ms];
            sum.longest_write_ms = longest.into_iter().flatten().reduce(f64::max);
            if let Some(space) = &phase.space {
                sum.space.get_or_insert_default().merge(space);
            }
        }
        let user = sum.user_bytes_written;
        sum.write_amplification = (user > 0).then(|| sum.engine_bytes_written as f64 / user as f64);
        sum
    }

    /// A few lines for a person.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out)?;
        if let Some(factor) = self.write_amplification {
            let mut line = format!(
                "in all: {} of user data, {} written by the engine ({factor:.2} x)",
                HumanBytes(self.user_bytes_written),
                HumanBytes(self.engine_bytes_written),
            );
            if let Some(bytes) = self.device_write_bytes {
                let factor = bytes as f64 / self.user_bytes_written as f64;
                let process = format!(", {} by the process ({factor:.2} x)", HumanBytes(bytes));
                line.push_str(&process);
            }
            print_folded(out, "", &line)?;
        }
        writeln!(
            out,
            "jobs: {} flushes, {} merges, {} garbage collections alone, {} splits, {} joins",
            self.flushes, self.merges, self.gcs, self.splits, self.joins
        )?;
        let merges = self.partition_merges.iter().map(|(_, merges)| *merges);
        let without = merges.clone().filter(|merges| *merges == 0).count();
        writeln!(
            out,
            "partitions: {}, each merged {} to {} times since it came to be, {without} never",
            self.partition_merges.len(),
            merges.clone().min().unwrap_or(0),
            merges.max().unwrap_or(0),
        )?;
        if let Some(ms) = self.longest_write_ms {
            writeln!(out, "longest put or delete: {ms:.1} ms")?;
        }
        if let Some(space) = &self.space {
            print_folded(out, "", &format!("space: {}", space_in_words(space)))?;
        }
        Ok(())
    }
}

/// One line about the space promise.
pub fn space_in_words(space: &SpaceReport) -> String {
    let worst = &space.worst;
    let breaches = match space.breaches {
        0 => String::new(),
        n => format!(", BREACHED in {}", HumanCount(n)),
    };
    let pinned = match worst.pinned_bytes {
        0 => String::new(),
        bytes => format!(", {} pinned", HumanBytes(bytes)),
    };
    format!(
        "at most {:.3} of the bound in {} samples{breaches} (then {} beside a log of {}, {} live{pinned})",
        space.worst_ratio,
        HumanCount(space.samples),
        HumanBytes(worst.data_bytes),
        HumanBytes(worst.wal_bytes),
        HumanBytes(worst.live_bytes),
    )
}
