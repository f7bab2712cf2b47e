//! Back-pressure: writers are slowed smoothly when the background falls behind.
//!
//! Three fills are watched: sealed memtables, the UnsortedStore with its indexes, and the space promise.
//! Up to 70 % of a fill writers run free. From there each byte costs time, growing with the square of what is used of
//! the rest, so that the background catches up before anything is full. Only when every memtable
//! is sealed do writers wait for a flush.
//!
//! The time is gathered as a debt and paid in pauses of a millisecond, because shorter ones cannot
//! be kept; a pause is held under the commit lock, for the rate is one for all writers. A delete
//! costs what it frees, because all of that lies on the disk until the background has caught up.

use super::catalog::{INDEX_LIMIT_HARD, MAX_GENERATIONS, most_unsorted_bytes};
use super::engine::Engine;
use super::stalls::StallCause;
use super::write::Commit;
use crate::error::Result;
use crate::jobs::placing::GenerationLimits;
use crate::partition::View;
use crate::vfs::wait_until;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Sealed memtables beyond which writers wait for a flush.
pub(crate) const MAX_SEALED: usize = 4;

/// The fill at which slowing begins.
const BEGIN: f64 = 0.7;
/// Nanoseconds that a written KiB costs when memtables, UnsortedStore or space are at their limit:
/// 100, 50 and 20 MiB/s.
const MEMTABLES_NS_PER_KIB: f64 = 10_000.0;
const UNSORTED_NS_PER_KIB: f64 = 20_000.0;
const SPACE_NS_PER_KIB: f64 = 50_000.0;
/// The shortest pause, and the longest.
const LEAST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 10_000_000;

/// What a written KiB costs at present.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    ns_per_kib: AtomicU64,
    /// The cause with the greatest part in that, by its place in [`CAUSES`].
    cause: AtomicUsize,
}

const CAUSES: [StallCause; 3] = [
    StallCause::Memtables,
    StallCause::UnsortedStore,
    StallCause::Space,
];

impl Pressure {
    pub(crate) fn ns_per_kib(&self) -> u64 {
        self.ns_per_kib.load(Ordering::Relaxed)
    }
}

/// The cost of a KiB at `fill` of something that costs `at_limit` when it is full, and four times as
/// much beyond: nothing but its price keeps space within its bound.
fn cost(fill: f64, at_limit: f64) -> f64 {
    let over = ((fill - BEGIN) / (1.0 - BEGIN)).clamp(0.0, 2.0);
    at_limit * over * over
}

impl Engine {
    /// Judges anew how far the background is behind, after `view` was published.
    pub(crate) fn update_pressure(&self, view: &View) {
        let sealed = view.sealed.len() as f64 / MAX_SEALED as f64;
        let limits = self.generation_limits(&view.version);
        let partitions = view.version.partitions().iter();
        let (largest, sum) = partitions
            .map(|p| p.flushed_bytes())
            .fold((0, 0), |(most, sum), bytes| (bytes.max(most), sum + bytes));
        let most = (limits.unsorted_bytes.saturating_mul(MAX_GENERATIONS as u64)) as f64;
        let most_shared = most_unsorted_bytes(limits) as f64;
        let unsorted = (largest as f64 / most)
            .max(sum as f64 / most_shared)
            .max(self.index_fill(limits));
        let space = self.space_of(&view.version, self.snapshots.oldest());
        self.update_reclaim(&space);
        let fill = self.space_fill(view, &space);
        let costs = [
            cost(sealed, MEMTABLES_NS_PER_KIB),
            cost(unsorted, UNSORTED_NS_PER_KIB),
            cost(fill, SPACE_NS_PER_KIB),
        ];
        let greatest = (0..costs.len()).max_by(|a, b| costs[*a].total_cmp(&costs[*b]));
        let total: f64 = costs.iter().sum();
        let pressure = &self.pressure;
        pressure
            .cause
            .store(greatest.unwrap_or(0), Ordering::Relaxed);
        pressure.ns_per_kib.store(total as u64, Ordering::Relaxed);
    }

    /// How full the memory of hash indexes is: at 1 flushes wait for merges.
    fn index_fill(&self, limits: GenerationLimits) -> f64 {
        let most = limits.index_bytes.saturating_mul(INDEX_LIMIT_HARD);
        self.memory.index_bytes() as f64 / most as f64
    }

    /// Takes from the writer the time that `bytes` cost at present.
    pub(crate) fn pace(&self, commit: &mut Commit, bytes: u64) {
        let ns_per_kib = self.pressure.ns_per_kib();
        if ns_per_kib == 0 {
            commit.pause_debt_ns = 0;
            return;
        }
        commit.pause_debt_ns += bytes.saturating_mul(ns_per_kib) >> 10;
        if commit.pause_debt_ns >= LEAST_PAUSE_NS {
            let pause = commit.pause_debt_ns.min(LONGEST_PAUSE_NS);
            commit.pause_debt_ns = 0;
            self.store.env().runtime.delay(Duration::from_nanos(pause));
            let cause = self.pressure.cause.load(Ordering::Relaxed);
            let cause = CAUSES.get(cause).copied().unwrap_or(StallCause::Memtables);
            self.counters.count_pause(cause, pause);
        }
    }

    /// Waits while every memtable is sealed.
    pub(crate) fn wait_for_flushes(&self) -> Result<()> {
        self.wait_for(|engine| engine.view.load().sealed.len() < MAX_SEALED)
    }

    /// Waits until flushes have given back memory for a batch of `bytes`, as far as they can.
    pub(crate) fn wait_for_memory(&self, bytes: u64) -> Result<()> {
        self.wait_for(|engine| engine.memory.fits(bytes) || engine.view.load().sealed.is_empty())?;
        self.memory.expect(bytes);
        Ok(())
    }

    fn wait_for(&self, is_ready: impl Fn(&Engine) -> bool) -> Result<()> {
        if is_ready(self) {
            return Ok(());
        }
        let runtime = &self.store.env().runtime;
        let begin = runtime.now();
        self.flush_blocked.store(false, Ordering::Relaxed);
        // A flush that waits for a merge says so when it looks again.
        self.work.notify();
        let mut failed = None;
        wait_until(&*self.progress, || {
            failed = self.check_flushes().err();
            let closing = self.closing.load(Ordering::Acquire);
            failed.is_some() || closing || is_ready(self)
        });
        let cause = match self.flush_blocked.swap(false, Ordering::Relaxed) {
            true => StallCause::MergeWait,
            false => StallCause::FlushWait,
        };
        self.counters
            .count_stall(cause, runtime.now().saturating_sub(begin));
        failed.map_or(Ok(()), Err).and_then(|()| self.check_open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowing_begins_at_its_mark_and_grows_without_a_jump() {
        assert_eq!(cost(0.0, 1000.0), 0.0);
        assert_eq!(cost(BEGIN, 1000.0), 0.0);
        let mut last = 0.0;
        for percent in 71..=130 {
            let now = cost(f64::from(percent) / 100.0, 1000.0);
            if percent == 100 {
                assert!((now - 1000.0).abs() < 1e-6);
            }
            assert!(
                now > last && now - last < 140.0,
                "{percent} %: {last} to {now}"
            );
            last = now;
        }
        assert!((last - 4000.0).abs() < 1e-6);
        assert_eq!(cost(7.0, 1000.0), cost(1.3, 1000.0));
    }
}
