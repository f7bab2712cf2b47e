//! The phases of a run: the YCSB core workloads, and what stands around them.
//!
//! `--workload load,a,scan50@100k,update:uniform,settle,verify` is a list of phases, each
//! `NAME[:DISTRIBUTION][@AMOUNT][*THREADS][~RATE][+BESIDE]`. An amount is a number of operations,
//! or a time after which the phase ends. Beside it stands a phase of the same form with a rate,
//! whose clients work until those of the phase have ended: `scan50@2min+update~10k`.

use super::generator::Distribution;
use super::quantity;
use super::versions::MAX_THREADS;
use std::time::Duration;

/// One phase of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// As given on the command line.
    pub label: String,
    /// What it does.
    pub kind: Kind,
    /// Overrides `--distribution`.
    pub distribution: Option<Distribution>,
    /// Overrides `--operations`.
    pub operations: Option<u64>,
    /// The phase ends after this time, whatever `--operations` says.
    pub duration: Option<Duration>,
    /// Overrides `--threads`.
    pub threads: Option<usize>,
    /// Operations are due this many times a second, of all threads together, whether the last one
    /// has ended or not, and are timed from then; without it each waits for the one before.
    pub rate: Option<u64>,
    /// What other clients do meanwhile.
    pub beside: Option<Box<Phase>>,
}

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inserts all records.
    Load,
    /// Operations drawn at random.
    Mix(Mix),
    /// Deletes this many different records, chosen uniformly.
    Delete,
    /// Closes and opens the database.
    Reopen,
    /// A full scan against the full list of keys.
    VerifyScan,
    /// A get of every record.
    VerifyGets,
    /// Both of these.
    Verify,
    /// Waits until nothing runs in the background.
    Settle,
    /// Does nothing for so long.
    Pause(Duration),
    /// Drops the pages of the store's files from the page cache.
    DropCache,
    /// Writes the memtables into tables.
    Flush,
    /// Merges everything into the SortedStore.
    Compact,
    /// Kills the process, as `kill -9` does.
    Die,
}

/// Shares of operations, in percent. They sum to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Gets of records.
    pub read: u32,
    /// Puts of records that are there.
    pub update: u32,
    /// Puts of new records.
    pub insert: u32,
    /// Scans.
    pub scan: u32,
    /// A get and a put of one record.
    pub read_modify_write: u32,
    /// Gets of keys that were never written.
    pub read_absent: u32,
    /// Gets of a group of records in one call.
    pub multi_get: u32,
    /// Puts of a group of records in one batch.
    pub batch: u32,
    /// Records of such a group.
    pub group: usize,
    /// Scans go towards lesser keys.
    pub backwards: bool,
    /// Scans have this length; without it, uniform from 1 to 100 as in YCSB.
    pub scan_length: Option<u64>,
    /// What the workload is about, whatever `--distribution` says.
    pub latest: bool,
    /// As many operations as records are loaded, whatever `--operations` says.
    pub one_per_record: bool,
}

/// More records than a group may have.
const MOST_GROUP: usize = 10_000;

/// Every name of a phase, for messages and help.
pub const NAMES: &str = "load, a, b, c, d, e, f, p0, p1, p2, p3, read, update, insert, delete, scan, \
                         scanN, rscan, rscanN, mixN, absentN, multiN, batchN, reopen, verify, \
                         verify-scan, verify-gets, settle, pauseN, drop-cache, flush, compact, die";

impl Phase {
    /// Reads `NAME[:DISTRIBUTION][@AMOUNT][*THREADS][~RATE][+BESIDE]`.
    ///
    /// # Errors
    /// A text that is no phase, with the part that is wrong.
    pub fn parse(label: &str) -> Result<Phase, String> {
        let (rest, mut beside) = split(label, '+', Phase::parse)?;
        let (rest, rate) = split(rest, '~', quantity::count)?;
        let (rest, threads) = split(rest, '*', threads)?;
        let (rest, amount) = split(rest, '@', amount)?;
        let (operations, duration) = amount.unwrap_or_default();
        if rate == Some(0) {
            return Err(format!("{label}: a rate of nothing"));
        }
        let (name, distribution) = match rest.split_once(':') {
            Some((name, distribution)) => (name, Some(distribution.parse()?)),
            None => (rest, None),
        };
        let kind = Kind::parse(name)
            .ok_or_else(|| format!("unknown workload {name:?}; there are {NAMES}"))?;
        let is_mix = |kind| matches!(kind, Kind::Mix(_));
        if duration.is_some() && !is_mix(kind) {
            return Err(format!("{label}: only drawn operations can last a time"));
        }
        if let Some(beside) = &mut beside {
            if !(is_mix(kind) && is_mix(beside.kind) && beside.rate.is_some()) {
                let form = "drawn operations beside drawn ones, at a rate, such as update~10k";
                return Err(format!("{label}: after + stand {form}"));
            }
            // It ends with the phase.
            if beside.operations.is_none() {
                beside.duration.get_or_insert(Duration::MAX);
            }
        }
        Ok(Phase {
            label: label.to_owned(),
            kind,
            distribution,
            operations,
            duration,
            threads,
            rate,
            beside: beside.map(Box::new),
        })
    }

    /// The mix of a phase of drawn operations.
    pub fn mix(&self) -> Option<Mix> {
        match self.kind {
            Kind::Mix(mix) => Some(mix),
            _ => None,
        }
    }
}

/// How much a phase does: a number of operations, or until a time is over. A time ends with its
/// unit, `s` or `min`; `m` stands for millions.
fn amount(text: &str) -> Result<(Option<u64>, Option<Duration>), String> {
    if text.ends_with('s') || text.ends_with("min") {
        Ok((None, Some(quantity::duration(text)?)))
    } else {
        Ok((Some(quantity::count(text)?), None))
    }
}

/// What stands before `mark` in `text`, and what stands after it.
fn split<T>(
    text: &str,
    mark: char,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(&str, Option<T>), String> {
    Ok(match text.split_once(mark) {
        Some((rest, behind)) => (rest, Some(read(behind)?)),
        None => (text, None),
    })
}

fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok();
    let threads = threads.filter(|threads| (1..=MAX_THREADS).contains(threads));
    threads.ok_or_else(|| format!("{text:?} threads; from 1 to {MAX_THREADS}"))
}

impl Kind {
    fn parse(name: &str) -> Option<Kind> {
        let mix = match name.to_ascii_lowercase().as_str() {
            "load" | "p0" => return Some(Kind::Load),
            "delete" => return Some(Kind::Delete),
            "reopen" => return Some(Kind::Reopen),
            "verify" => return Some(Kind::Verify),
            "verify-scan" => return Some(Kind::VerifyScan),
            "verify-gets" => return Some(Kind::VerifyGets),
            "settle" => return Some(Kind::Settle),
            "drop-cache" => return Some(Kind::DropCache),
            "flush" => return Some(Kind::Flush),
            "compact" => return Some(Kind::Compact),
            "die" => return Some(Kind::Die),
            "a" => Mix {
                read: 50,
                update: 50,
                ..Mix::default()
            },
            "b" => Mix {
                read: 95,
                update: 5,
                ..Mix::default()
            },
            "c" | "read" => Mix {
                read: 100,
                ..Mix::default()
            },
            "d" => Mix {
                read: 95,
                insert: 5,
                latest: true,
                ..Mix::default()
            },
            "e" => Mix {
                scan: 95,
                insert: 5,
                ..Mix::default()
            },
            "f" => Mix {
                read: 50,
                read_modify_write: 50,
                ..Mix::default()
            },
            "update" => Mix {
                update: 100,
                ..Mix::default()
            },
            "p1" | "p2" | "p3" => Mix {
                update: 100,
                one_per_record: true,
                ..Mix::default()
            },
            "insert" => Mix {
                insert: 100,
                ..Mix::default()
            },
            name => match name.strip_prefix("pause") {
                Some(seconds) => {
                    return Some(Kind::Pause(Duration::from_secs(seconds.parse().ok()?)));
                }
                None => Mix::numbered(name)?,
            },
        };
        Some(Kind::Mix(mix))
    }
}

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A get.
    Read,
    /// A put of a record that is there.
    Update,
    /// A put of a new record.
    Insert,
    /// A scan.
    Scan,
    /// A get and a put of one record.
    ReadModifyWrite,
    /// A delete.
    Delete,
    /// A get of a key that was never written.
    ReadAbsent,
    /// Gets of several records in one call.
    MultiGet,
    /// Puts of several records in one batch.
    Batch,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Operation; 9] = [
        Operation::Read,
        Operation::Update,
        Operation::Insert,
        Operation::Scan,
        Operation::ReadModifyWrite,
        Operation::Delete,
        Operation::ReadAbsent,
        Operation::MultiGet,
        Operation::Batch,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Scan => "scan",
            Operation::ReadModifyWrite => "read_modify_write",
            Operation::Delete => "delete",
            Operation::ReadAbsent => "read_absent",
            Operation::MultiGet => "multi_get",
            Operation::Batch => "batch",
        }
    }
}

impl Mix {
    /// Those whose names end with a number.
    fn numbered(name: &str) -> Option<Mix> {
        let digits = name.find(|letter: char| letter.is_ascii_digit());
        let (name, digits) = name.split_at(digits.unwrap_or(name.len()));
        let number: Option<u64> = match digits {
            "" => None,
            digits => Some(digits.parse().ok()?),
        };
        let percent = || {
            number
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&n| n <= 100)
        };
        let group = || {
            let group = number.and_then(|n| usize::try_from(n).ok());
            group.filter(|group| (1..=MOST_GROUP).contains(group))
        };
        Some(match name {
            "scan" | "rscan" if number != Some(0) => Mix {
                scan: 100,
                scan_length: number,
                backwards: name == "rscan",
                ..Mix::default()
            },
            "mix" => Mix {
                read: percent()?,
                update: 100 - percent()?,
                ..Mix::default()
            },
            "absent" => Mix {
                read: 100 - percent()?,
                read_absent: percent()?,
                ..Mix::default()
            },
            "multi" => Mix {
                multi_get: 100,
                group: group()?,
                ..Mix::default()
            },
            "batch" => Mix {
                batch: 100,
                group: group()?,
                ..Mix::default()
            },
            _ => return None,
        })
    }

    /// The operation for a number drawn from 0..100.
    pub fn operation(&self, percent: u32) -> Operation {
        let mut end = 0;
        for (share, operation) in [
            (self.read, Operation::Read),
            (self.update, Operation::Update),
            (self.insert, Operation::Insert),
            (self.scan, Operation::Scan),
            (self.read_absent, Operation::ReadAbsent),
            (self.multi_get, Operation::MultiGet),
            (self.batch, Operation::Batch),
        ] {
            end += share;
            if percent < end {
                return operation;
            }
        }
        Operation::ReadModifyWrite
    }

    /// More inserts than `operations` of this mix will ever do.
    pub fn most_inserts(&self, operations: u64) -> u64 {
        match self.insert {
            0 => 0,
            100 => operations,
            share => operations.min(operations / 100 * u64::from(share) * 11 / 10 + 10_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_workloads() {
        for name in [
            "a", "b", "c", "d", "e", "f", "p1", "update", "insert", "scan", "scan50", "rscan5",
            "mix30", "mix0", "absent50", "multi10", "batch10",
        ] {
            let Ok(Phase {
                kind: Kind::Mix(mix),
                ..
            }) = Phase::parse(name)
            else {
                panic!("{name} is not a mix");
            };
            let mut drawn = [0; Operation::ALL.len()];
            for percent in 0..100 {
                drawn[mix.operation(percent) as usize] += 1;
            }
            let shares = [
                mix.read,
                mix.update,
                mix.insert,
                mix.scan,
                mix.read_modify_write,
                0,
                mix.read_absent,
                mix.multi_get,
                mix.batch,
            ];
            assert_eq!(drawn, shares, "{name}");
        }
    }

    #[test]
    fn phases_carry_their_own_settings() {
        let phase = Phase::parse("scan50:uniform@100k").unwrap();
        assert_eq!(phase.distribution, Some(Distribution::Uniform));
        assert_eq!(phase.operations, Some(100_000));
        let Kind::Mix(mix) = phase.kind else {
            panic!("not a mix")
        };
        assert_eq!(mix.scan_length, Some(50));
        let phase = Phase::parse("a:uniform@5*4~2k").unwrap();
        let found = (phase.operations, phase.threads, phase.rate);
        assert_eq!(found, (Some(5), Some(4), Some(2_000)));
        let phase = Phase::parse("scan50@2min+update:uniform*2~10k").unwrap();
        assert_eq!(phase.duration, Some(Duration::from_secs(120)));
        assert_eq!((phase.operations, phase.rate), (None, None));
        let beside = phase.beside.unwrap();
        let found = (beside.threads, beside.rate, beside.mix().unwrap().update);
        assert_eq!(found, (Some(2), Some(10_000), 100));
        let pause = Phase::parse("pause60").unwrap().kind;
        assert_eq!(pause, Kind::Pause(Duration::from_secs(60)));
        assert_eq!(Phase::parse("load*16").unwrap().threads, Some(16));
        for bad in [
            "",
            "g",
            "scan0",
            "scanx",
            "a:normal",
            "a@many",
            "a*0",
            "a*32",
            "a~0",
            "mix101",
            "mix",
            "multi0",
            "multi",
            "absent",
            "p4",
            "a1",
            "batch10001",
            "pause",
            "load@10s",
            "a@s",
            "c+update",
            "load+update~10k",
            "c+load~10k",
        ] {
            assert!(Phase::parse(bad).is_err(), "{bad}");
        }
    }
}
