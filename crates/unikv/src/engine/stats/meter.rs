//! How long operations and jobs take, and which operations were slow.
//!
//! An operation asks one flag. Where that is set, its time is recorded: of every operation if slow
//! ones are to be reported, else of one in some of a thread ([`Meter::one_in`]), as two looks at
//! the clock take a twentieth of the time of a put, and a tenth of that of a get. Histograms are
//! those of `hdrhistogram`; they take a lock, so each operation has a few, among which threads are
//! spread.
//!
//! Locks: each histogram has one, a leaf.

use crate::base::sync::Mutex;
use crate::engine::health::JobName;
use crate::events::{TimedOperation, Wait};
use hdrhistogram::Histogram;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Of this many gets one is measured.
const GETS_PER_SAMPLE: u32 = 64;
/// Of this many puts and batches one is measured, and of as many batches that iterators read.
const WRITES_PER_SAMPLE: u32 = 8;
const BATCHES_PER_SAMPLE: u32 = 8;

/// Threads are spread over this many histograms of an operation.
const SHARDS: usize = 4;

/// Longer times count as this.
const LONGEST: Duration = Duration::from_secs(3600);

/// Kinds of operations.
const OPERATIONS: usize = TimedOperation::ALL.len();

thread_local! {
    /// Operations of each kind, for the choice of those that are measured.
    static COUNTS: [Cell<u32>; OPERATIONS] = const { [const { Cell::new(0) }; OPERATIONS] };
    /// What the operation of this thread has waited for, in nanoseconds.
    static WAITED: Cell<[u64; Wait::ALL.len()]> = const { Cell::new([0; 4]) };
}

/// How long one kind of operation or job took.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LatencyStats {
    /// The [name](TimedOperation::name) of the operation, or what the job does.
    pub what: String,
    /// Whether it is a job of the background.
    pub is_job: bool,
    /// How many were measured.
    pub measured: u64,
    /// One in this many is measured.
    pub one_in: u32,
    /// The sum of the times that were measured.
    pub sum: Duration,
    /// Half of them took no longer.
    pub p50: Duration,
    /// Nine in ten took no longer.
    pub p90: Duration,
    /// 99 % took no longer.
    pub p99: Duration,
    /// 99.9 % took no longer.
    pub p999: Duration,
    /// The longest that was measured.
    pub max: Duration,
}

/// What was measured of one operation, or of one kind of job.
struct Times {
    histogram: Histogram<u64>,
    sum: Duration,
}

impl Times {
    fn new() -> Option<Times> {
        let mut histogram = Histogram::new(2).ok()?;
        histogram.auto(true);
        Some(Times {
            histogram,
            sum: Duration::ZERO,
        })
    }

    fn record(&mut self, took: Duration) {
        let took = took.min(LONGEST);
        // It grows as far as that is.
        let _always = self.histogram.record(took.as_nanos() as u64);
        self.sum = self.sum.saturating_add(took);
    }

    fn add(&mut self, other: &Times) {
        let _always = self.histogram.add(&other.histogram);
        self.sum = self.sum.saturating_add(other.sum);
    }

    fn figures(&self, what: &str, is_job: bool, one_in: u32) -> LatencyStats {
        let at = |part| Duration::from_nanos(self.histogram.value_at_quantile(part));
        LatencyStats {
            what: what.to_owned(),
            is_job,
            measured: self.histogram.len(),
            one_in,
            sum: self.sum,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(self.histogram.max()),
        }
    }
}

type Shards = [Mutex<Option<Times>>; SHARDS];

/// What is measured.
#[derive(Default)]
pub(crate) struct Meter {
    is_on: bool,
    keeps_latencies: bool,
    slow_after: Option<Duration>,
    operations: [Shards; OPERATIONS],
    jobs: Mutex<BTreeMap<JobName, Times>>,
}

impl Meter {
    pub(crate) fn new(latencies: bool, slow_after: Option<Duration>) -> Meter {
        Meter {
            is_on: latencies || slow_after.is_some(),
            keeps_latencies: latencies,
            slow_after,
            ..Meter::default()
        }
    }

    /// Whether anything is measured.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether waits are counted.
    pub(crate) fn counts_waits(&self) -> bool {
        self.slow_after.is_some()
    }

    /// Of how many operations one is measured.
    fn one_in(&self, operation: TimedOperation) -> u32 {
        match operation {
            _ if self.slow_after.is_some() => 1,
            TimedOperation::Get => GETS_PER_SAMPLE,
            TimedOperation::Seek | TimedOperation::Next => BATCHES_PER_SAMPLE,
            TimedOperation::Put | TimedOperation::Write => WRITES_PER_SAMPLE,
            TimedOperation::MultiGet | TimedOperation::Sync => 1,
        }
    }

    /// Whether the operation that begins is to be measured.
    pub(crate) fn begin(&self, operation: TimedOperation) -> bool {
        if self.slow_after.is_some() {
            WAITED.set([0; 4]);
            return true;
        }
        let one_in = self.one_in(operation);
        COUNTS.with(|counts| {
            let Some(count) = counts.get(operation as usize) else {
                return false;
            };
            count.set(count.get().wrapping_add(1));
            count.get() % one_in == 0
        })
    }

    /// Notes how long an operation took. True: it was slow.
    pub(crate) fn end(&self, operation: TimedOperation, took: Duration) -> bool {
        if self.keeps_latencies
            && let Some(shards) = self.operations.get(operation as usize)
            && let Some(shard) = shards.get(shard())
        {
            let mut times = shard.lock();
            if times.is_none() {
                *times = Times::new();
            }
            if let Some(times) = &mut *times {
                times.record(took);
            }
        }
        self.slow_after.is_some_and(|most| took >= most)
    }

    /// Notes that the operation of this thread has waited.
    pub(crate) fn waited(&self, wait: Wait, time: Duration) {
        if self.counts_waits() {
            let mut all = WAITED.get();
            if let Some(ns) = all.get_mut(wait as usize) {
                *ns = ns.saturating_add(time.as_nanos() as u64);
            }
            WAITED.set(all);
        }
    }

    /// What the operation of this thread has waited for.
    pub(crate) fn waits() -> Vec<(Wait, Duration)> {
        let all = Wait::ALL.into_iter().zip(WAITED.get());
        let some = all.filter(|(_, ns)| *ns > 0);
        some.map(|(wait, ns)| (wait, Duration::from_nanos(ns)))
            .collect()
    }

    /// Notes how long a job took.
    pub(crate) fn job(&self, name: JobName, took: Duration) {
        if self.keeps_latencies {
            let mut jobs = self.jobs.lock();
            if !jobs.contains_key(name)
                && let Some(times) = Times::new()
            {
                jobs.insert(name, times);
            }
            if let Some(times) = jobs.get_mut(name) {
                times.record(took);
            }
        }
    }

    /// What was measured, operations first.
    pub(crate) fn figures(&self) -> Vec<LatencyStats> {
        let mut figures = Vec::new();
        for (operation, shards) in TimedOperation::ALL.iter().zip(&self.operations) {
            let mut all: Option<Times> = None;
            for shard in shards {
                let times = shard.lock();
                if let Some(times) = &*times {
                    all = all.or_else(Times::new);
                    all.iter_mut().for_each(|all| all.add(times));
                }
            }
            let one_in = self.one_in(*operation);
            figures.extend(all.map(|all| all.figures(operation.name(), false, one_in)));
        }
        let jobs = self.jobs.lock();
        figures.extend(
            jobs.iter()
                .map(|(name, times)| times.figures(name, true, 1)),
        );
        figures
    }
}

/// The place of this thread's histograms: each thread has its counts elsewhere.
fn shard() -> usize {
    let place = COUNTS.with(|counts| std::ptr::from_ref(counts).addr() as u64);
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_recorded_for_their_operation_with_two_digits() {
        let meter = Meter::new(true, Some(Duration::from_millis(50)));
        for ms in 1..=100 {
            assert!(meter.begin(TimedOperation::Put));
            let slow = meter.end(TimedOperation::Put, Duration::from_millis(ms));
            assert_eq!(slow, ms >= 50);
        }
        meter.job("flush", Duration::from_secs(2));
        let [put, flush] = &meter.figures()[..] else {
            panic!("{:?}", meter.figures());
        };
        let near = |a: Duration, ms: u64| {
            let b = Duration::from_millis(ms);
            assert!(a.abs_diff(b) <= b / 100, "{a:?} {b:?}");
        };
        assert_eq!((&put.what[..], put.measured, put.one_in), ("put", 100, 1));
        near(put.p50, 50);
        near(put.p99, 99);
        near(put.max, 100);
        assert_eq!(put.sum, Duration::from_millis(5050));
        assert!(flush.is_job && flush.what == "flush" && flush.measured == 1);
        near(flush.max, 2000);
    }

    #[test]
    fn few_of_many_are_measured_but_each_kind_by_its_own_count() {
        let meter = Meter::new(true, None);
        // In turns: a common count would measure one of the two alone.
        let mut counts = [0, 0];
        for _ in 0..10 * WRITES_PER_SAMPLE {
            counts[0] += u32::from(meter.begin(TimedOperation::Write));
            counts[1] += u32::from(meter.begin(TimedOperation::Put));
        }
        assert_eq!(counts, [10, 10]);
        assert!((0..10).all(|_| meter.begin(TimedOperation::Sync)));
    }

    #[test]
    fn waits_are_those_of_the_operation_that_began_last() {
        let meter = Meter::new(false, Some(Duration::from_millis(1)));
        meter.begin(TimedOperation::Put);
        meter.waited(Wait::Sync, Duration::from_micros(3));
        meter.waited(Wait::Sync, Duration::from_micros(4));
        assert_eq!(Meter::waits(), [(Wait::Sync, Duration::from_micros(7))]);
        meter.begin(TimedOperation::MultiGet);
        assert_eq!(Meter::waits(), []);
        assert!(meter.figures().is_empty(), "latencies were not asked for");
    }
}
