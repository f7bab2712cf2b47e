//! The fewest reads of the device that a run can do with, and so the most operations a second.
//!
//! `sequence` records what the client of a run touches. Two bounds follow, kinder to engines than
//! anything can be: memory holds whole records and nothing else, a write or a scan brings its
//! records for nothing, and a kill loses nothing. Records are as large there as they are.
//! - `oracle` knows the sequence to its end and keeps what saves most reads: an engine that it
//!   beats may have lacked nothing but foresight. A read of the device brings one record, for which
//!   the client waits.
//! - An engine that does not know the draws hits no more often than with the likeliest records in
//!   memory. That is the mean over all seeds; one run departs from it by chance.

mod oracle;
mod sequence;

use super::expand::Scaled;
use crate::failure::Failure;
use indicatif::HumanCount;
use sequence::Sequence;
use std::io::{self, Write};

/// What a run can do with.
pub struct Floor {
    /// How many records memory holds.
    pub places: u64,
    /// The phases that get single records.
    pub phases: Vec<PhaseFloor>,
}

/// What a phase can do with.
#[derive(Clone, Debug, Default)]
pub struct PhaseFloor {
    /// Its name.
    pub name: String,
    /// Operations of all kinds.
    pub operations: u64,
    /// Gets among them of records that are there.
    pub gets: u64,
    /// The fewest reads to be expected of one who knows how likely records are, and not the draws.
    pub unforeseen: Option<f64>,
    /// The fewest reads there can be in this phase, whatever that costs in others.
    pub alone: u64,
    /// Its reads where those of all phases together are as few as can be.
    pub together: u64,
    /// Gets of records that no get of the run had asked for before.
    pub first: u64,
    /// Gets of records that nothing had touched since the load.
    pub untouched: u64,
}

/// What time things take at least, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A read of the device.
    pub read_us: f64,
    /// The processor, for each operation.
    pub cpu_us: f64,
}

impl Floor {
    /// Of the run `scaled` with `memory_bytes`.
    ///
    /// # Errors
    /// The run's sequence of operations is not the same each time.
    pub fn new(scaled: &Scaled, memory_bytes: u64) -> Result<Floor, Failure> {
        let sequence = sequence::of(scaled)?;
        let places = memory_bytes / scaled.record_bytes();
        let mut phases = gets(&sequence);
        let fewest = |counted| {
            let places = usize::try_from(places).unwrap_or(usize::MAX);
            oracle::misses(&sequence.accesses, counted, places)
        };
        let together = fewest(0..sequence.accesses.len());
        for (phase, found) in phases.iter_mut().zip(&sequence.phases) {
            let range = &found.accesses;
            let until = |end: usize| together.partition_point(|&miss| (miss as usize) < end);
            phase.together = (until(range.end) - until(range.start)) as u64;
            if phase.gets > 0 {
                phase.alone = fewest(range.clone()).len() as u64;
                phase.unforeseen = found.drawn.map(|(chooser, present)| {
                    let draws = (phase.gets + found.in_vain) as f64;
                    let hits = draws * chooser.likeliest(present, places);
                    (phase.gets as f64 - hits).max(0.0)
                });
            }
        }
        phases.retain(|phase| phase.gets > 0);
        Ok(Floor { places, phases })
    }

    /// Writes a table, and what its columns are.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn print(&self, times: &Times, out: &mut impl Write) -> io::Result<()> {
        let (places, read_us) = (HumanCount(self.places), times.read_us);
        writeln!(out, "memory for {places} records, {read_us} µs a read")?;
        let cpu = format!("+{} µs CPU", times.cpu_us);
        write!(out, "{:<14}{:>11}{:>8}", "", "operations", "gets")?;
        for reads in ["unforeseen", "alone"] {
            write!(out, "{reads:>12}{:>11}{cpu:>12}", "op/s")?;
        }
        writeln!(out, "{:>10}{:>8}{:>11}", "together", "first", "untouched")?;
        for phase in &self.phases {
            phase.print(times, out)?;
        }
        writeln!(out, "{LEGEND}")
    }
}

const LEGEND: &str = "\
per operation:
  gets        of records that are there
  unforeseen  the fewest reads of one who knows how likely records are, and not the draws
  alone       the fewest of one who knows the draws, whatever that costs in other phases
  together    those of one who knows the draws, where all phases together have the fewest
  first       gets of records that no get had asked for before
  untouched   gets of records that nothing had touched since the load";

impl PhaseFloor {
    fn print(&self, times: &Times, out: &mut impl Write) -> io::Result<()> {
        let operations = self.operations.max(1) as f64;
        let per_operation = |count: u64| count as f64 / operations;
        let gets = per_operation(self.gets);
        write!(out, "{:<14}{:>11}{gets:>8.4}", self.name, self.operations)?;
        let unforeseen = self.unforeseen.map(|reads| reads / operations);
        for reads in [unforeseen, Some(per_operation(self.alone))] {
            let Some(reads) = reads else {
                write!(out, "{:>12}{:>11}{:>12}", "-", "-", "-")?;
                continue;
            };
            let [without, with] = [0.0, times.cpu_us].map(|cpu_us| times.rate(reads, cpu_us));
            write!(out, "{reads:>12.4}{without:>11}{with:>12}")?;
        }
        let [together, first, untouched] =
            [self.together, self.first, self.untouched].map(per_operation);
        writeln!(out, "{together:>10.4}{first:>8.4}{untouched:>11.4}")
    }
}

impl Times {
    /// Operations a second, of this many reads each; a dash where nothing takes time.
    fn rate(&self, reads: f64, cpu_us: f64) -> String {
        match reads * self.read_us + cpu_us {
            us if us > 0.0 => HumanCount((1e6 / us) as u64).to_string(),
            _ => "-".to_owned(),
        }
    }
}

/// All phases, with what follows from the sequence alone.
fn gets(sequence: &Sequence) -> Vec<PhaseFloor> {
    let records = sequence.accesses.iter().map(|access| access.record() + 1);
    let records = records.max().unwrap_or(0);
    let (mut was_read, mut was_touched) = (vec![false; records], vec![false; records]);
    let mut phases = Vec::new();
    for found in &sequence.phases {
        let mut phase = PhaseFloor {
            name: found.name.clone(),
            operations: found.operations,
            ..PhaseFloor::default()
        };
        for access in &sequence.accesses[found.accesses.clone()] {
            let record = access.record();
            if access.is_read() {
                phase.gets += 1;
                phase.first += u64::from(!was_read[record]);
                phase.untouched += u64::from(!was_touched[record]);
            }
            was_read[record] |= access.is_read();
            was_touched[record] |= !found.is_load;
        }
        phases.push(phase);
    }
    phases
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::suite::experiments;

    fn rows(places: u64) -> Floor {
        let all = experiments::all();
        let rows = all.iter().find(|experiment| experiment.name == "rows");
        let scaled = Scaled::new(&rows.unwrap().runs[0], 1e-5, 42).unwrap();
        assert_eq!((scaled.records, scaled.record_bytes()), (1_000, 1_024));
        Floor::new(&scaled, places * scaled.record_bytes()).unwrap()
    }

    #[test]
    fn phases_that_get_records_are_bounded() {
        let floor = rows(0);
        let phases = floor.phases.iter();
        let phases: Vec<_> = phases.map(|it| (&*it.name, it.operations)).collect();
        let wanted = [
            ("c", 400),
            ("mix50:uniform", 50),
            ("a", 50),
            ("b", 50),
            ("d", 50),
            ("f", 50),
            // After the kill.
            ("c", 1),
        ];
        assert_eq!(phases, wanted);
        for phase in floor.phases {
            // Every operation of F reads, and nothing is kept.
            let all_read = ["c", "f"].contains(&&*phase.name);
            assert_eq!(phase.gets == phase.operations, all_read);
            assert_eq!((phase.alone, phase.together), (phase.gets, phase.gets));
            assert_eq!(phase.unforeseen, Some(phase.gets as f64));
            assert!(phase.untouched <= phase.first && phase.first <= phase.gets);
        }
    }

    #[test]
    fn more_memory_is_fewer_reads() {
        let sums = [0, 10, 100, 1_100].map(|places| {
            let phases = rows(places).phases;
            for phase in &phases {
                assert!(phase.alone <= phase.together && phase.together <= phase.gets);
                // A tenth, as there is chance in it.
                assert!(phase.alone as f64 <= phase.unforeseen.unwrap() * 1.1);
            }
            phases.iter().map(|phase| phase.together).sum::<u64>()
        });
        assert!(sums.is_sorted_by(|more, fewer| more > fewer), "{sums:?}");
        assert_eq!(sums[3], 0);
    }
}
