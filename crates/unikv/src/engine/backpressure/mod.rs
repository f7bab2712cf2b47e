//! Back-pressure: writers are slowed smoothly when the background falls behind. See
//! `docs/mechanisms.md`, "Back-pressure".
//!
//! Invariants:
//! - The cost of a byte grows without a jump, with the square of what is used beyond the fill at
//!   which slowing begins. A writer waits only when something is full.
//! - The rate is one for all writers: a pause begins where that of another ends. But a short write
//!   does not pause for what long ones owe: these pause for both. A write that may not wait is
//!   refused where it would pause.
//! - What a write may supersede beyond its own bytes, a delete above all, costs what space costs.
//!
//! Locks: `debt` and `merges`, leaves. Nothing is held during a pause.

mod owed;
mod slowdown;

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::engine::backpressure::owed::{LONGEST_PAUSE_NS, Owed};
use crate::engine::backpressure::slowdown::Slowdown;
use crate::engine::core::Core;
use crate::engine::space::DiskSpace;
use crate::events::{StallCause, Wait};
use crate::jobs::flush::placing::{GenerationLimits, MAX_GENERATIONS, MAX_SLOTS};
use crate::partition::View;
use crate::version::state::Fullest;
use std::sync::Arc;
use std::time::Duration;

/// The fill of memtables and UnsortedStores at which slowing begins, and that of the room for
/// garbage, of which nothing counts that would be there without writers, too.
const BEGIN: f64 = 0.7;
const BEGIN_OF_SPACE: f64 = 0.25;
/// Nanoseconds that a written KiB costs when memtables, UnsortedStore or space are at their limit:
/// 100 (or what flushes keep up with), 50 and 20 MiB/s.
const MEMTABLES_NS_PER_KIB: f64 = 10_000.0;
const UNSORTED_NS_PER_KIB: f64 = 20_000.0;
const SPACE_NS_PER_KIB: f64 = 50_000.0;
/// However slow flushes and merges are: 1 MiB/s.
const MOST_NS_PER_KIB: u64 = 1_000_000;
/// What merges take for a byte, a byte costs at half of the way from where slowing begins to the
/// limit: there writers and merges keep pace, and what comes at once still has room.
const MERGES_AT_LIMIT: u64 = 4;
/// Jobs between two merges count as part of the later one, up to this many times its own time.
const MOST_BETWEEN: u32 = 3;
/// What a merge takes in any case says nothing of bytes.
const LEAST_MERGED_KIB: u64 = 1 << 10;

/// The component that slows writers.
pub(crate) struct Backpressure {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    pub(crate) state: Pressure,
    /// The last flush that was tried had to wait for a merge.
    flush_blocked: AtomicBool,
}

/// What back-pressure counts of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Its own bytes.
    pub(crate) bytes: u64,
    /// What it supersedes beyond them, about.
    pub(crate) freed: u64,
}

/// What a written KiB costs at present.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    pub(crate) ns_per_kib: AtomicU64,
    /// The part of that which space has: what is freed costs it, too.
    pub(crate) space_ns_per_kib: AtomicU64,
    /// The cause with the greatest part in that, by its place in [`CAUSES`].
    cause: AtomicUsize,
    /// What the last flush took for a KiB of its memtable.
    flush_ns_per_kib: AtomicU64,
    merges: Mutex<MergePace>,
    /// UnsortedStores are so full that bytes cost something.
    unsorted_costs: AtomicBool,
    owed: Mutex<Owed>,
    /// Whether something may be owed.
    is_owed: AtomicBool,
    slowdown: Slowdown,
}

/// How fast merges empty UnsortedStores: what they took of late, each merge counting half as much
/// as the one after it.
#[derive(Clone, Copy, Debug, Default)]
struct MergePace {
    ns: u64,
    kib: u64,
    /// When the last merge ended.
    ended: Duration,
}

impl MergePace {
    fn ns_per_kib(&self) -> u64 {
        (self.ns / self.kib.max(LEAST_MERGED_KIB)).min(MOST_NS_PER_KIB)
    }
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

    /// A memtable of `bytes`, or of fewer that took what a flush takes in any case, was written in
    /// `time`.
    pub(crate) fn note_flush(&self, bytes: u64, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let ns_per_kib = (ns / (bytes >> 10).max(1)).min(MOST_NS_PER_KIB);
        self.flush_ns_per_kib.store(ns_per_kib, Ordering::Relaxed);
    }

    /// A merge from `began` until `now` took `bytes` out of UnsortedStores.
    pub(crate) fn note_merge(&self, bytes: u64, began: Duration, now: Duration) {
        let mut merges = self.merges.lock();
        // Of what runs beside others each takes a part of the time. While writers wait for merges,
        // what other jobs take between them is lost for merges, too.
        let earliest = if self.unsorted_costs.load(Ordering::Relaxed) {
            began.saturating_sub(now.saturating_sub(began) * MOST_BETWEEN)
        } else {
            began
        };
        let took = now.saturating_sub(merges.ended.max(earliest));
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        *merges = MergePace {
            ns: (merges.ns / 2).saturating_add(took),
            kib: (merges.kib / 2).saturating_add(bytes >> 10),
            ended: now,
        };
    }

    fn unsorted_ns_per_kib(&self) -> f64 {
        let at_limit = MERGES_AT_LIMIT * self.merges.lock().ns_per_kib();
        UNSORTED_NS_PER_KIB.max(at_limit as f64)
    }

    fn memtables_ns_per_kib(&self) -> f64 {
        let flush = self.flush_ns_per_kib.load(Ordering::Relaxed) as f64;
        flush.max(MEMTABLES_NS_PER_KIB)
    }
}

/// How near a partition is to as many generations as it may have, when flushes wait for merges. The
/// newest counts by what it has of slots and bytes; one that was ingested takes no more.
fn generations_fill(fullest: Fullest, unsorted_bytes: u64) -> f64 {
    let Some(older) = fullest.generations.checked_sub(1) else {
        return 0.0;
    };
    let slots = fullest.slots as f64 / f64::from(MAX_SLOTS);
    let bytes = fullest.bytes as f64 / unsorted_bytes as f64;
    let newest = if fullest.is_ingested {
        1.0
    } else {
        slots.max(bytes).min(1.0)
    };
    (older as f64 + newest) / MAX_GENERATIONS as f64
}

/// The cost of a KiB at `fill`, slowing having begun at `begin`, of something that costs `at_limit`
/// when it is full, and four times as much beyond: nothing but its cost keeps space within its
/// bound.
fn cost(fill: f64, begin: f64, at_limit: f64) -> f64 {
    let over = ((fill - begin) / (1.0 - begin)).clamp(0.0, 2.0);
    at_limit * over * over
}

/// How full the memory of hash indexes is: at 1 flushes wait for merges. Those that older views
/// keep do not count, as no merge takes them away.
fn index_fill(index_bytes: u64, limits: GenerationLimits) -> f64 {
    index_bytes as f64 / limits.most_index_bytes() as f64
}

impl Backpressure {
    pub(crate) fn new(core: &Arc<Core>, space: &Arc<DiskSpace>) -> Arc<Backpressure> {
        Arc::new(Backpressure {
            core: Arc::clone(core),
            space: Arc::clone(space),
            state: Pressure::default(),
            flush_blocked: AtomicBool::new(false),
        })
    }

    /// Judges again how far the background is behind, after `view` was published.
    pub(crate) fn update_pressure(&self, view: &View) {
        let sealed = self.core.memory.sealed_fill(view);
        let limits = self.space.generation_limits(&view.version);
        let sums = view.version.partition_sums();
        let most = (limits.unsorted_bytes.saturating_mul(MAX_GENERATIONS as u64)) as f64;
        let most_shared = limits.most_unsorted_bytes() as f64;
        let unsorted = (sums.most_flushed_bytes as f64 / most)
            .max(sums.flushed_bytes as f64 / most_shared)
            .max(generations_fill(sums.fullest, limits.unsorted_bytes))
            .max(index_fill(sums.index_bytes, limits));
        let space = self.space.space_of(&view.version, self.space.horizon());
        self.space.update_tombstone_debt(&space);
        self.space.full_disk.note_data(space.file_bytes());
        let fill = self.space.space_fill(view, &space);
        let costs = [
            cost(sealed, BEGIN, self.state.memtables_ns_per_kib()),
            cost(unsorted, BEGIN, self.state.unsorted_ns_per_kib()),
            cost(fill, BEGIN_OF_SPACE, SPACE_NS_PER_KIB),
        ];
        let greatest = (0..costs.len()).max_by(|a, b| costs[*a].total_cmp(&costs[*b]));
        let total: f64 = costs.iter().sum();
        let pressure = &self.state;
        let costs_now = costs[1] > 0.0;
        pressure.unsorted_costs.store(costs_now, Ordering::Relaxed);
        pressure
            .cause
            .store(greatest.unwrap_or(0), Ordering::Relaxed);
        let before = pressure.ns_per_kib.swap(total as u64, Ordering::Relaxed);
        if (before == 0) != (total < 1.0) {
            let cause = greatest.and_then(|cause| CAUSES.get(cause)).copied();
            pressure.slowdown.report(&self.core, cause, total >= 1.0);
        }
        let of_space = &pressure.space_ns_per_kib;
        of_space.store(costs[2] as u64, Ordering::Relaxed);
    }

    /// A flush has to wait for a merge.
    pub(crate) fn note_blocked_flush(&self) {
        self.flush_blocked.store(true, Ordering::Relaxed);
    }

    /// Whether a flush had to wait for a merge since this was last asked.
    pub(crate) fn take_blocked_flush(&self) -> bool {
        self.flush_blocked.swap(false, Ordering::Relaxed)
    }

    /// Whether writing costs nothing at present.
    pub(crate) fn is_off(&self) -> bool {
        self.state.ns_per_kib() == 0
    }

    /// Whether a write of `bytes` would pause at present. If so, time settles what earlier writes
    /// owe: there may be no other writer to do it.
    pub(crate) fn would_delay(&self, bytes: u64) -> bool {
        let cost = bytes.saturating_mul(self.state.ns_per_kib()) >> 10;
        if cost == 0 {
            return false;
        }
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        self.state.owed.lock().would_pause(cost, self.now_ns())
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(self.core.now().as_nanos()).unwrap_or(i64::MAX)
    }

    /// Takes from the writer the time that a write costs at present, if it may pause; else later
    /// ones settle, or find that it has passed.
    pub(crate) fn pace(&self, written: Written, may_pause: bool) {
        let pressure = &self.state;
        let ns_per_kib = pressure.ns_per_kib();
        if ns_per_kib == 0 {
            let is_owed = &pressure.is_owed;
            if is_owed.load(Ordering::Relaxed) && is_owed.swap(false, Ordering::Relaxed) {
                *pressure.owed.lock() = Owed::default();
            }
            return;
        }
        let of_bytes = written.bytes.saturating_mul(ns_per_kib) >> 10;
        let of_space = pressure.space_ns_per_kib.load(Ordering::Relaxed);
        let of_freed = written.freed.saturating_mul(of_space) >> 10;
        let cost = i64::try_from(of_bytes.saturating_add(of_freed)).unwrap_or(i64::MAX);
        pressure.is_owed.store(true, Ordering::Relaxed);
        let added = pressure.owed.lock().add(cost, self.now_ns());
        let Some(pause) = added.filter(|_| may_pause) else {
            return;
        };
        let took = self.delay(pause);
        pressure.owed.lock().credit(cost, took - pause);
        let cause = pressure.cause.load(Ordering::Relaxed);
        let cause = CAUSES.get(cause).copied().unwrap_or(StallCause::Memtables);
        self.core.counters.count_pause(cause, took.unsigned_abs());
        let took = Duration::from_nanos(took.unsigned_abs());
        self.core.meter.waited(Wait::Slowdown, took);
    }

    /// Waits for this many nanoseconds, and says how many it were.
    fn delay(&self, pause_ns: i64) -> i64 {
        let runtime = &self.core.store.env().runtime;
        let begin = runtime.now();
        runtime.delay(Duration::from_nanos(pause_ns.unsigned_abs()));
        let took = runtime.now().saturating_sub(begin).as_nanos();
        i64::try_from(took).unwrap_or(i64::MAX).max(pause_ns)
    }
}

impl Backpressure {
    /// Takes from a writer of large values the time that `bytes` cost at present.
    pub(crate) fn pace_large(&self, bytes: usize) {
        let mut kib = (bytes >> 10) as u64;
        while kib > 0 {
            let ns_per_kib = self.state.ns_per_kib();
            if ns_per_kib == 0 || self.core.check_open().is_err() {
                return;
            }
            // The cost changes while the writer of a long value pauses.
            let step = kib.min((LONGEST_PAUSE_NS.unsigned_abs() / ns_per_kib).max(1));
            let pause = ns_per_kib.saturating_mul(step);
            let runtime = &self.core.store.env().runtime;
            let pause = Duration::from_nanos(pause);
            runtime.delay(pause);
            self.core.meter.waited(Wait::Slowdown, pause);
            kib -= step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuning;
    use crate::engine::tests::{Machine, small};

    #[test]
    fn what_a_long_write_owes_beyond_the_longest_pause_is_settled_by_later_long_ones() {
        let machine = Machine::new(5);
        let (db, _) = machine.open(small());
        let engine = &db.0.engine;
        let pace = |bytes| {
            let begin = engine.core.now();
            engine.backpressure.pace(Written { bytes, freed: 0 }, true);
            (engine.core.now() - begin).as_millis()
        };
        assert_eq!(pace(1 << 30), 0, "free while nothing presses");
        let costs = &engine.backpressure.state.ns_per_kib;
        costs.store(1_000_000, Ordering::Relaxed);
        assert_eq!(pace(20 << 10), 20);
        // 256 ms: two pauses at once would be too long for those who wait.
        assert_eq!(pace(256 << 10), 100);
        assert_eq!(pace(0), 0, "a short write does not pause for a long one");
        assert_eq!((0..5).map(|_| pace(2 << 10)).sum::<u128>(), 10);
        // 156 ms and its own 20, and what the short ones cost: 10 ms have passed since.
        assert_eq!(pace(20 << 10), 100);
        assert_eq!(pace(20 << 10), 96);
        // A debt from when a byte cost much is not carried for ever.
        assert_eq!(pace(1 << 30), 100);
        let later = (0..30).map(|_| pace(11 << 10)).collect::<Vec<_>>();
        assert_eq!(later.iter().filter(|pause| **pause == 100).count(), 11);
        assert_eq!(later.last(), Some(&11));
        costs.store(0, Ordering::Relaxed);
        assert_eq!(pace(1 << 20), 0);
    }

    #[test]
    fn what_is_freed_costs_as_space_does_alone() {
        let machine = Machine::new(7);
        let (db, _) = machine.open(small());
        let backpressure = &db.0.engine.backpressure;
        let costs = &backpressure.state;
        costs.ns_per_kib.store(1_000_000, Ordering::Relaxed);
        let took = |freed| {
            let begin = backpressure.core.now();
            let written = Written {
                bytes: 2 << 10,
                freed,
            };
            backpressure.pace(written, true);
            (backpressure.core.now() - begin).as_millis()
        };
        assert_eq!(took(64 << 10), 2, "flushes do not wait for what is freed");
        costs.space_ns_per_kib.store(500_000, Ordering::Relaxed);
        assert_eq!(took(64 << 10), 34);
    }

    #[test]
    fn writers_do_not_pause_for_indexes_that_older_views_keep() {
        let machine = Machine::new(8);
        let (db, _runtime) = machine.open(
            small()
                .memory_budget(4 << 20)
                .tuning(Tuning::default().unsorted_bytes(1 << 20)),
        );
        let backpressure = &db.0.engine.backpressure;
        let (mut held, mut most) = (Vec::new(), 0.0_f64);
        for round in 0..40_u8 {
            for i in 0..4000_u32 {
                db.put(i.to_be_bytes(), [round; 20]).unwrap();
            }
            db.flush().unwrap();
            // As an iterator does that stands still.
            held.push(Arc::clone(&db.0.engine.read.view.load()));
            db.compact().unwrap();
            db.wait_until_idle().unwrap();
            let view = db.0.engine.read.view.load();
            let limits = backpressure.space.generation_limits(&view.version);
            let kept = db.stats().memory.indexes as f64 / limits.most_index_bytes() as f64;
            most = most.max(kept);
            assert!(backpressure.is_off(), "round {round}, {kept}");
            if most > 1.2 {
                break;
            }
        }
        assert!(most > 1.0, "{most}");
        drop(held);
    }

    #[test]
    fn writing_slows_to_the_pace_of_slow_flushes() {
        let pressure = Pressure::default();
        assert!((pressure.memtables_ns_per_kib() - MEMTABLES_NS_PER_KIB).abs() < 1.0);
        pressure.note_flush(16 << 20, Duration::from_secs(2));
        let per_kib = 2e9 / f64::from(16 << 10);
        assert!((pressure.memtables_ns_per_kib() - per_kib).abs() < 1.0);
        pressure.note_flush(0, Duration::from_secs(2));
        assert!((pressure.memtables_ns_per_kib() - 1e6).abs() < 1.0);
        pressure.note_flush(0, Duration::ZERO);
        assert!((pressure.memtables_ns_per_kib() - MEMTABLES_NS_PER_KIB).abs() < 1.0);
    }

    #[test]
    fn writing_slows_to_the_pace_of_merges_and_of_what_runs_between_them() {
        let at = Duration::from_secs;
        let pressure = Pressure::default();
        let per_kib = |pressure: &Pressure| pressure.merges.lock().ns_per_kib();
        assert!((pressure.unsorted_ns_per_kib() - UNSORTED_NS_PER_KIB).abs() < 1.0);
        // 16 MiB in two seconds, again and again, whatever was between them.
        for n in 0..20 {
            pressure.note_merge(16 << 20, at(100 * n), at(100 * n + 2));
        }
        let usual = 2_000_000_000 / (16 << 10);
        assert!(per_kib(&pressure).abs_diff(usual) < usual / 100);
        assert!(pressure.unsorted_ns_per_kib() > 3.9 * usual as f64);
        // A merge of next to nothing says next to nothing.
        pressure.note_merge(1, at(3000), at(3000) + Duration::from_millis(5));
        assert!(per_kib(&pressure).abs_diff(usual) < usual / 50);
        // While writers wait, other jobs count: here two seconds of each four.
        pressure.unsorted_costs.store(true, Ordering::Relaxed);
        for n in 0..20 {
            pressure.note_merge(16 << 20, at(4000 + 4 * n), at(4002 + 4 * n));
        }
        assert!(per_kib(&pressure).abs_diff(2 * usual) < usual / 50);
        // Two at a time are twice as fast, whichever ends first.
        for n in 0..40 {
            pressure.note_merge(16 << 20, at(5000 + n), at(5002 + n));
        }
        assert!(per_kib(&pressure).abs_diff(usual / 2) < usual / 50);
        // However slow, writing goes on; a clock that stands still costs nothing.
        pressure.note_merge(1 << 20, at(6000), at(9000));
        assert_eq!(per_kib(&pressure), MOST_NS_PER_KIB);
        (0..70).for_each(|_| pressure.note_merge(1 << 20, at(9000), at(9000)));
        assert!((pressure.unsorted_ns_per_kib() - UNSORTED_NS_PER_KIB).abs() < 1.0);
    }

    #[test]
    fn generations_fill_up_before_they_keep_flushes_waiting() {
        let machine = Machine::new(6);
        let (db, _) = machine.open(small().tuning(Tuning::default().partition_bytes(1 << 40)));
        let engine = &db.0.engine;
        let partition = || engine.read.view.load().version.partitions()[0].clone();
        let fullest = || engine.read.view.load().version.partition_sums().fullest;
        assert_eq!(generations_fill(fullest(), 1 << 30), 0.0);
        engine.background.scheduler.leases.hold([partition().id]);
        for full in 0..MAX_GENERATIONS {
            engine.catalog.lock().freeze_all();
            db.put("key", "value").unwrap();
            db.flush().unwrap();
            let fill = generations_fill(fullest(), 1 << 30) * MAX_GENERATIONS as f64;
            assert!(fill > full as f64 && fill < full as f64 + 0.1, "{fill}");
        }
        assert!(
            engine.backpressure.state.ns_per_kib() > 0,
            "hardly any bytes, yet slower"
        );
        assert_eq!(generations_fill(fullest(), 1), 1.0, "full of bytes");
        engine.background.scheduler.leases.release_all();
    }

    #[test]
    fn slowing_begins_at_its_mark_and_grows_without_a_jump() {
        assert_eq!(cost(0.0, BEGIN, 1000.0), 0.0);
        assert_eq!(cost(BEGIN, BEGIN, 1000.0), 0.0);
        let mut last = 0.0;
        for percent in 71..=130 {
            let now = cost(f64::from(percent) / 100.0, BEGIN, 1000.0);
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
        assert_eq!(cost(7.0, BEGIN, 1000.0), cost(1.3, BEGIN, 1000.0));
    }
}
