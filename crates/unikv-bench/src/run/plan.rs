//! What a run is given, and what follows from it for each phase.

use crate::failure::Failure;
use crate::measure::space::frame_bytes;
use crate::run::client::Task;
use crate::run::pace::Pace;
use crate::workload::generator::{Chooser, Distribution};
use crate::workload::keys::{KEY_BYTES, KeyOrder};
use crate::workload::phases::{Kind, Mix, Phase};
use crate::workload::values::Lengths;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// More than a phase does that ends by time.
const MOST_OPERATIONS: u64 = 1 << 40;

/// Everything that a run is given.
pub struct Plan {
    /// The directory of the store.
    pub dir: PathBuf,
    /// What is done, in order.
    pub phases: Vec<Phase>,
    /// Records to load, or already loaded.
    pub records: u64,
    /// Operations of each phase that names no number.
    pub operations: u64,
    /// How long values are.
    pub values: Lengths,
    /// Client threads.
    pub threads: usize,
    /// Which records are touched, in phases that do not say.
    pub distribution: Option<Distribution>,
    /// Records of a scan, in phases that do not say.
    pub scan_length: Option<u64>,
    /// The order in which keys are loaded.
    pub order: KeyOrder,
    /// Whether what operations read is verified.
    pub verify: bool,
    /// Whether each phase waits for the background at its end.
    pub settle: bool,
    /// How long a phase of operations may last.
    pub duration: Option<Duration>,
    /// How long a load may last; the run of one that is not done by then fails.
    pub load_duration: Option<Duration>,
    /// Of the random choices.
    pub seed: u64,
    /// Whether the space promise is watched.
    pub check_space: bool,
    /// What the space promise allows beside data, if not what the options promise.
    pub space_floor: Option<u64>,
}

impl Plan {
    /// Whether the run itself inserts the records before it reads any.
    pub fn loads_first(&self) -> bool {
        let mut kinds = self.phases.iter().map(|phase| phase.kind);
        let is_data = |kind: &Kind| {
            !matches!(
                kind,
                Kind::Reopen | Kind::Settle | Kind::Flush | Kind::Compact | Kind::Die
            )
        };
        kinds.find(is_data) == Some(Kind::Load)
    }

    /// Bytes of key and value, in the mean.
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.values.mean()) as u64
    }

    /// What a record may take beyond a factor that is promised.
    pub fn record_frame_bytes(&self, max_space_amp: f64) -> u64 {
        frame_bytes(KEY_BYTES, self.values.mean(), max_space_amp)
    }

    /// Operations of `phase`.
    pub fn operations_of(&self, phase: &Phase) -> u64 {
        phase.operations.unwrap_or(match phase.kind {
            // A time ends it, if not the numbers of the records that it may insert.
            Kind::Mix(mix) if phase.duration.is_some() && mix.insert == 0 => MOST_OPERATIONS,
            Kind::Mix(mix) if mix.one_per_record => self.records,
            _ => self.operations,
        })
    }

    /// How long `phase` may last.
    pub fn duration_of(&self, phase: &Phase) -> Option<Duration> {
        match phase.kind {
            Kind::Mix(_) => [self.duration, phase.duration].into_iter().flatten().min(),
            Kind::Load => self.load_duration,
            _ => None,
        }
    }

    /// Client threads of `phase`.
    pub fn threads_of(&self, phase: &Phase) -> usize {
        phase.threads.unwrap_or(self.threads)
    }

    /// More records than there will ever be.
    pub fn most_records(&self) -> u64 {
        let all = self.phases.iter();
        let all = all.flat_map(|phase| [Some(phase), phase.beside.as_deref()]);
        let inserts = all.flatten().map(|phase| match phase.kind {
            Kind::Mix(mix) => mix.most_inserts(self.operations_of(phase)),
            _ => 0,
        });
        self.records + inserts.sum::<u64>()
    }

    /// Which records `phase` touches.
    pub fn distribution_of(&self, phase: &Phase, mix: &Mix) -> Distribution {
        phase.distribution.unwrap_or(match self.distribution {
            _ if mix.latest => Distribution::Latest,
            Some(distribution) => distribution,
            None => Distribution::ZIPFIAN,
        })
    }

    /// What chooses the records of `mix` in `phase`, which begins with `present` of them.
    pub fn chooser(&self, phase: &Phase, mix: &Mix, present: u64) -> Chooser {
        let inserts = mix.most_inserts(self.operations_of(phase));
        Chooser::new(self.distribution_of(phase, mix), present, inserts)
    }

    /// What each client thread does in a phase that begins with `present` records.
    pub(super) fn work(&self, phase: &Phase, present: u64) -> Result<PhaseWork, Failure> {
        let threads = self.threads_of(phase);
        let whole = |task: fn(Range<u64>) -> Task, total: u64| PhaseWork {
            tasks: (0..threads)
                .map(|thread| task(share(total, thread, threads)))
                .collect(),
            operations: total,
            distribution: None,
            beside: Vec::new(),
        };
        let mut work = match phase.kind {
            Kind::Load => whole(Task::Load, self.records),
            Kind::Mix(mix) => self.mix_work(phase, mix, present)?,
            Kind::Delete => self.delete_work(phase, present)?,
            Kind::Verify | Kind::VerifyGets => whole(Task::GetAll, present),
            _ => PhaseWork {
                tasks: Vec::new(),
                operations: 0,
                distribution: None,
                beside: Vec::new(),
            },
        };
        if matches!(phase.kind, Kind::Verify | Kind::VerifyScan) {
            work.tasks.push(Task::FullScan);
            work.operations += present;
        }
        Ok(work)
    }

    fn delete_work(&self, phase: &Phase, present: u64) -> Result<PhaseWork, Failure> {
        let (operations, threads) = (self.operations_of(phase), self.threads_of(phase));
        if operations > present {
            return Err(Failure::invalid(format!(
                "{}: there are only {present} records",
                phase.label
            )));
        }
        let task = |thread| {
            let count = share(operations, thread, threads);
            Task::Delete {
                records: share(present, thread, threads),
                count: count.end - count.start,
            }
        };
        Ok(PhaseWork {
            tasks: (0..threads).map(task).collect(),
            operations,
            distribution: None,
            beside: Vec::new(),
        })
    }

    fn mix_work(&self, phase: &Phase, mut mix: Mix, present: u64) -> Result<PhaseWork, Failure> {
        if present == 0 {
            return Err(Failure::invalid(
                "there are no records yet; begin with load",
            ));
        }
        mix.scan_length = mix.scan_length.or(self.scan_length);
        let (operations, threads) = (self.operations_of(phase), self.threads_of(phase));
        let chooser = self.chooser(phase, &mix, present);
        let task = |thread| {
            let share = share(operations, thread, threads);
            Task::Mix {
                mix,
                chooser,
                operations: share.end - share.start,
                pace: phase.rate.map(|rate| Pace::new(rate, thread, threads)),
            }
        };
        let tasks = (0..threads).map(task).collect();
        let beside = phase.beside.as_deref();
        let beside = match beside.and_then(|beside| Some((beside, beside.mix()?))) {
            Some((beside, mix)) => self.mix_work(beside, mix, present)?.tasks,
            None => Vec::new(),
        };
        Ok(PhaseWork {
            tasks,
            operations,
            distribution: Some(self.distribution_of(phase, &mix)),
            beside,
        })
    }
}

/// What the client threads of a phase do: one task each.
pub(super) struct PhaseWork {
    pub tasks: Vec<Task>,
    /// Of all of them, for the progress bar.
    pub operations: u64,
    pub distribution: Option<Distribution>,
    /// Those of other clients, which end with these.
    pub beside: Vec<Task>,
}

/// The part of `0..total` that falls to one of `threads`.
fn share(total: u64, thread: usize, threads: usize) -> Range<u64> {
    let (thread, threads) = (thread as u64, threads as u64);
    let at = |thread: u64| total / threads * thread + (total % threads).min(thread);
    at(thread)..at(thread + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for (total, threads) in [(10, 3), (2, 4), (0, 1), (100, 7)] {
            let mut next = 0;
            for thread in 0..threads {
                let share = share(total, thread, threads);
                assert_eq!(share.start, next);
                next = share.end;
            }
            assert_eq!(next, total);
        }
    }
}
