//! What a run is given, and what follows from it for each phase.

use crate::args::EngineArgs;
use crate::exit::Failure;
use crate::ycsb::client::Task;
use crate::ycsb::generator::{Chooser, Distribution};
use crate::ycsb::keys::{KEY_BYTES, KeyOrder};
use crate::ycsb::workload::{Kind, Mix, Phase};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use unikv::Db;

/// Everything that a run is given.
pub struct Plan {
    pub dir: PathBuf,
    pub phases: Vec<Phase>,
    pub records: u64,
    pub operations: u64,
    pub value_bytes: usize,
    pub threads: usize,
    pub distribution: Option<Distribution>,
    pub scan_length: Option<u64>,
    pub order: KeyOrder,
    pub verify: bool,
    pub settle: bool,
    pub duration: Option<Duration>,
    pub seed: u64,
    pub check_space: bool,
    /// What the space promise allows beside data, if not what the options promise.
    pub space_floor: Option<u64>,
    pub engine: EngineArgs,
}

impl Plan {
    /// Whether the run itself inserts the records before it reads any.
    pub fn loads_first(&self) -> bool {
        let mut kinds = self.phases.iter().map(|phase| phase.kind);
        let is_data = |kind: &Kind| {
            !matches!(
                kind,
                Kind::Reopen | Kind::Settle | Kind::Flush | Kind::Compact
            )
        };
        kinds.find(is_data) == Some(Kind::Load)
    }

    /// Bytes of key and value.
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }

    pub fn operations_of(&self, phase: &Phase) -> u64 {
        phase.operations.unwrap_or(match phase.kind {
            Kind::Mix(mix) if mix.one_per_record => self.records,
            _ => self.operations,
        })
    }

    pub fn most_records(&self) -> u64 {
        let inserts = self.phases.iter().map(|phase| match phase.kind {
            Kind::Mix(mix) => mix.most_inserts(self.operations_of(phase)),
            _ => 0,
        });
        self.records + inserts.sum::<u64>()
    }

    pub fn distribution_of(&self, phase: &Phase, mix: &Mix) -> Distribution {
        phase.distribution.unwrap_or(match self.distribution {
            _ if mix.latest => Distribution::Latest,
            Some(distribution) => distribution,
            None => Distribution::Zipfian,
        })
    }

    pub fn open(&self) -> Result<Db, Failure> {
        // Without a load there has to be something already.
        let options = self.engine.options().create_if_missing(self.loads_first());
        Ok(Db::open(&self.dir, options)?)
    }

    /// What each client thread does in a phase that begins with `present` records.
    pub fn work(&self, phase: &Phase, present: u64) -> Result<PhaseWork, Failure> {
        let whole = |task: fn(Range<u64>) -> Task, total: u64| PhaseWork {
            tasks: (0..self.threads)
                .map(|thread| task(share(total, thread, self.threads)))
                .collect(),
            operations: total,
            distribution: None,
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
            },
        };
        if matches!(phase.kind, Kind::Verify | Kind::VerifyScan) {
            work.tasks.push(Task::FullScan);
            work.operations += present;
        }
        Ok(work)
    }

    fn delete_work(&self, phase: &Phase, present: u64) -> Result<PhaseWork, Failure> {
        let operations = self.operations_of(phase);
        if operations > present {
            return Err(Failure::invalid(format!(
                "{}: there are only {present} records",
                phase.label
            )));
        }
        let task = |thread| {
            let count = share(operations, thread, self.threads);
            Task::Delete {
                records: share(present, thread, self.threads),
                count: count.end - count.start,
            }
        };
        Ok(PhaseWork {
            tasks: (0..self.threads).map(task).collect(),
            operations,
            distribution: None,
        })
    }

    fn mix_work(&self, phase: &Phase, mut mix: Mix, present: u64) -> Result<PhaseWork, Failure> {
        if present == 0 {
            return Err(Failure::invalid(
                "there are no records yet; begin with load",
            ));
        }
        mix.scan_length = mix.scan_length.or(self.scan_length);
        let operations = self.operations_of(phase);
        let distribution = self.distribution_of(phase, &mix);
        let chooser = Chooser::new(distribution, present, mix.most_inserts(operations));
        let task = |thread| {
            let share = share(operations, thread, self.threads);
            Task::Mix {
                mix,
                chooser,
                operations: share.end - share.start,
            }
        };
        let tasks = (0..self.threads).map(task).collect();
        Ok(PhaseWork {
            tasks,
            operations,
            distribution: Some(distribution),
        })
    }
}

/// What the client threads of a phase do: one task each.
pub struct PhaseWork {
    pub tasks: Vec<Task>,
    /// Of all of them, for the progress bar.
    pub operations: u64,
    pub distribution: Option<Distribution>,
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
