//! Decisions as text: a scenario of facts, and what is due in it for whom. `UNIKV_REWRITE=1` writes
//! `tests/decisions.txt` again.

mod measured;
mod simulator;

use super::facts::{
    Cause, Disk, Garbage, Gone, HeldBack, Hints, Idle, Memtables, TableWishes, Unsettled, Vacant,
};
use super::partitions::{Frozen, JoinFacts, PartitionFacts, Partitions};
use super::rules;
use super::{FLUSH, Facts, Filter, JobName, MERGE, Why};
use crate::base::keys::PartitionId;
use std::fmt::Write as _;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(100);

/// Nobody has written for a minute, and nothing is due.
fn facts() -> Facts<'static> {
    Facts {
        now: NOW,
        idle: idle(60_000),
        ..Facts::default()
    }
}

fn idle(milliseconds: u64) -> Idle {
    Idle {
        time: Duration::from_millis(milliseconds),
        is_asked_for: false,
    }
}

fn sealed(sealed: usize, are_blocked: bool) -> Memtables {
    Memtables {
        sealed,
        are_blocked,
        ..Memtables::default()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn scenarios() -> Vec<(&'static str, Facts<'static>)> {
    let hints = |had_turn| Hints {
        are_left: true,
        had_turn,
        note_at: None,
    };
    let merge_ready = || partitions([(7, unmerged(500))]);
    let noted = |at| Hints {
        note_at: Some(seconds(at)),
        ..Hints::default()
    };
    let full = |wants_freeze| Disk {
        is_full: true,
        wants_freeze,
        look_at: None,
    };
    let held_back = |until| {
        vec![HeldBack {
            cause: Cause::Failed,
            job: FLUSH,
            partition: None,
            until,
        }]
    };
    vec![
        ("nothing has happened", facts()),
        (
            "two memtables are sealed",
            Facts {
                memtables: sealed(2, false),
                ..facts()
            },
        ),
        (
            "two memtables are sealed, and a flush has to wait for a merge",
            Facts {
                memtables: sealed(2, true),
                ..facts()
            },
        ),
        (
            "a memtable is sealed, and a flush has failed a moment ago",
            Facts {
                memtables: sealed(1, false),
                held_back: held_back(NOW + seconds(1)),
                ..facts()
            },
        ),
        (
            "a memtable is sealed, and the pause after a failed flush is over",
            Facts {
                memtables: sealed(1, false),
                held_back: held_back(NOW),
                ..facts()
            },
        ),
        (
            "the job clock is due in ten seconds",
            Facts {
                note_clock_at: Some(NOW + seconds(10)),
                ..facts()
            },
        ),
        (
            "the job clock is due",
            Facts {
                note_clock_at: Some(NOW),
                ..facts()
            },
        ),
        (
            "the job clock is due, and the disk is full",
            Facts {
                note_clock_at: Some(NOW),
                disk: full(false),
                ..facts()
            },
        ),
        (
            "the job clock is due in ten seconds, and the disk is full",
            Facts {
                note_clock_at: Some(NOW + seconds(10)),
                disk: full(false),
                ..facts()
            },
        ),
        (
            "deletes were flushed on a full disk",
            Facts {
                disk: full(true),
                ..facts()
            },
        ),
        (
            "deletes are to be flushed on a full disk",
            Facts {
                disk: full(true),
                memtables: sealed(1, false),
                ..facts()
            },
        ),
        (
            "hints are left",
            Facts {
                hints: hints(true),
                ..facts()
            },
        ),
        (
            "hints are left, and a merge could begin",
            Facts {
                hints: hints(false),
                partitions: merge_ready(),
                ..facts()
            },
        ),
        (
            "hints are left and had their turn, and a merge could begin",
            Facts {
                hints: hints(true),
                partitions: merge_ready(),
                ..facts()
            },
        ),
        (
            "the cache has changed, and its rest ends in three seconds",
            Facts {
                hints: noted(103),
                ..facts()
            },
        ),
        (
            "the cache has changed",
            Facts {
                hints: noted(90),
                ..facts()
            },
        ),
        (
            "the cache has changed, and the disk is full",
            Facts {
                hints: noted(90),
                disk: full(false),
                ..facts()
            },
        ),
    ]
}

/// Figures of some partitions, by their ids.
fn partitions<const N: usize>(all: [(u64, PartitionFacts); N]) -> &'static Partitions {
    let mut partitions = Partitions::default();
    for (id, facts) in all {
        partitions.set(PartitionId(id), Some(facts));
    }
    Box::leak(Box::new(partitions))
}

fn unmerged(unsorted_bytes: u64) -> PartitionFacts {
    PartitionFacts {
        bytes: 2 * unsorted_bytes,
        unsorted_bytes,
        frozen: Some(Frozen::default()),
        ..PartitionFacts::default()
    }
}

fn outgrown(bytes: u64) -> PartitionFacts {
    PartitionFacts {
        bytes,
        is_to_be_split: true,
        ..PartitionFacts::default()
    }
}

fn joined(right: u64, bytes: u64, needs_merge: bool) -> PartitionFacts {
    PartitionFacts {
        join: Some(JoinFacts {
            needs_merge,
            bytes,
            right: PartitionId(right),
        }),
        ..PartitionFacts::default()
    }
}

fn of_reads() -> Vec<(&'static str, Facts<'static>)> {
    let of = |index, blocks| Facts {
        wishes: TableWishes { index, blocks },
        ..facts()
    };
    vec![
        ("gets want an index, and scans want blocks", of(true, true)),
        ("scans want blocks", of(false, true)),
    ]
}

fn of_partitions() -> Vec<(&'static str, Facts<'static>)> {
    let blocking = PartitionFacts {
        blocks_flushes: true,
        ..unmerged(100)
    };
    let leased = |ids: &[u64]| ids.iter().copied().map(PartitionId).collect();
    let held = |job, id, cause| {
        vec![HeldBack {
            cause,
            job,
            partition: Some(PartitionId(id)),
            until: NOW + seconds(5),
        }]
    };
    let three = || partitions([(1, unmerged(300)), (2, unmerged(500)), (3, unmerged(400))]);
    let pairs = || {
        partitions([
            (1, joined(2, 50, true)),
            (3, joined(4, 90, false)),
            (5, joined(6, 70, false)),
        ])
    };
    let busy = || partitions([(1, joined(2, 50, true)), (3, unmerged(500))]);
    let full = Disk {
        is_full: true,
        ..Disk::default()
    };
    let vacant = |id, follows| Vacant {
        id: PartitionId(id),
        follows,
    };
    let of = |partitions| Facts {
        partitions,
        merges_since_join: 3,
        most_partition_bytes: 1_000,
        ..facts()
    };
    vec![
        ("three partitions have frozen generations", of(three())),
        (
            "the largest of them is leased",
            Facts {
                leased: leased(&[2]),
                ..of(three())
            },
        ),
        (
            "the merge of the largest has failed",
            Facts {
                held_back: held(MERGE, 2, Cause::Failed),
                ..of(three())
            },
        ),
        (
            "a small one keeps flushes waiting",
            of(partitions([(1, unmerged(300)), (2, blocking)])),
        ),
        (
            "two partitions have outgrown their size, and one is to be merged",
            of(partitions([
                (1, outgrown(2_000)),
                (2, outgrown(3_000)),
                (3, unmerged(10)),
            ])),
        ),
        (
            "the larger is leased",
            Facts {
                leased: leased(&[2]),
                ..of(partitions([(1, outgrown(2_000)), (2, outgrown(3_000))]))
            },
        ),
        (
            "a merge has failed for want of space, and the partition can be divided",
            Facts {
                disk: full.clone(),
                held_back: held(MERGE, 1, Cause::DiskFull),
                ..of(partitions([(
                    1,
                    PartitionFacts {
                        key_tables: 2,
                        ..unmerged(300)
                    },
                )]))
            },
        ),
        (
            "a merge has failed for want of space, and the partition has one key table",
            Facts {
                disk: full.clone(),
                held_back: held(MERGE, 1, Cause::DiskFull),
                ..of(partitions([(
                    1,
                    PartitionFacts {
                        key_tables: 1,
                        ..unmerged(300)
                    },
                )]))
            },
        ),
        (
            "three pairs are to be joined, and the smallest needs a merge",
            of(pairs()),
        ),
        (
            "three pairs are to be joined, and joins with merges have their turn",
            Facts {
                merges_since_join: 4,
                ..of(pairs())
            },
        ),
        (
            "a pair that needs a merge is to be joined, and merges have their turn",
            of(busy()),
        ),
        (
            "a pair that needs a merge is to be joined, and has waited for more merges than four",
            Facts {
                merges_since_join: 6,
                ..of(busy())
            },
        ),
        (
            "three pairs are to be joined, and the right side of the cheapest is leased",
            Facts {
                leased: leased(&[6]),
                ..of(pairs())
            },
        ),
        (
            "three pairs are to be joined, and a merge of the cheapest has failed",
            Facts {
                held_back: held(MERGE, 5, Cause::Failed),
                ..of(pairs())
            },
        ),
        (
            "three pairs are to be joined, and flushes wait for merges",
            Facts {
                memtables: sealed(0, true),
                ..of(pairs())
            },
        ),
        (
            "three pairs are to be joined, and the disk is full",
            Facts {
                disk: full,
                ..of(pairs())
            },
        ),
        (
            "a partition of nobody goes to the smaller neighbour",
            Facts {
                gone: Gone {
                    joins: [(7, 60, 8), (8, 20, 9)]
                        .map(|(left, bytes, right)| {
                            let join = joined(right, bytes, false).join.unwrap();
                            (PartitionId(left), join)
                        })
                        .to_vec(),
                    ..Gone::default()
                },
                ..of(pairs())
            },
        ),
        (
            "partitions of keyspaces that are gone hold something",
            Facts {
                gone: Gone {
                    full: vec![PartitionId(4), PartitionId(9)],
                    vacant: vec![vacant(5, false), vacant(6, true)],
                    ..Gone::default()
                },
                ..facts()
            },
        ),
        (
            "two of nobody's neighbours",
            Facts {
                gone: Gone {
                    vacant: vec![vacant(1, false), vacant(2, true)],
                    ..Gone::default()
                },
                ..facts()
            },
        ),
        (
            "flushes wait for a small partition by the limits of the moment",
            Facts {
                blocking: Some(PartitionId(1)),
                ..of(three())
            },
        ),
        (
            "nobody's neighbours: one alone, and three of which the middle one is leased, and two",
            Facts {
                gone: Gone {
                    vacant: vec![
                        vacant(1, false),
                        vacant(3, false),
                        vacant(4, true),
                        vacant(5, true),
                        vacant(7, false),
                        vacant(8, true),
                    ],
                    ..Gone::default()
                },
                leased: leased(&[4]),
                ..facts()
            },
        ),
    ]
}

/// What the flush worker does beside flushes.
fn of_flush_worker() -> Vec<(&'static str, Facts<'static>)> {
    let disk = |is_full, look_at| Facts {
        disk: Disk {
            is_full,
            wants_freeze: false,
            look_at: Some(look_at),
        },
        ..facts()
    };
    let left = |unsettled, milliseconds| Facts {
        unsettled,
        idle: idle(milliseconds),
        ..facts()
    };
    let hides = Unsettled {
        memtable_hides: true,
        may_seal: true,
        ..Unsettled::default()
    };
    let deletes = Unsettled {
        has_many_deletes: true,
        may_seal: true,
        ..Unsettled::default()
    };
    let generations = Unsettled {
        generations_hide: true,
        may_freeze: true,
        ..Unsettled::default()
    };
    let gone = Unsettled {
        gone_await_flush: true,
        may_seal: true,
        ..Unsettled::default()
    };
    let given_up = vec![HeldBack {
        cause: Cause::GivenUp,
        job: "settle",
        partition: None,
        until: NOW + seconds(3),
    }];
    let lent_at = |at| Facts {
        lend_at: Some(at),
        ..facts()
    };
    vec![
        ("the disk has become full", disk(true, Duration::ZERO)),
        (
            "the disk has become full, and a memtable is sealed",
            Facts {
                memtables: sealed(1, false),
                ..disk(true, Duration::ZERO)
            },
        ),
        (
            "a full disk was looked after in vain a moment ago",
            disk(true, NOW + seconds(1)),
        ),
        (
            "a full disk was looked after in vain a second ago",
            disk(true, NOW),
        ),
        ("the ballast is missing", disk(false, Duration::ZERO)),
        (
            "there was no room for the ballast ten seconds ago",
            disk(false, NOW + seconds(20)),
        ),
        (
            "there was no room for the ballast thirty seconds ago",
            disk(false, NOW),
        ),
        ("somebody writes", left(Unsettled::default(), 0)),
        ("somebody writes what may hide much", left(hides, 0)),
        ("the memtable may hide much", left(hides, 1_000)),
        (
            "the memtable may hide much, and there is something to freeze",
            left(
                Unsettled {
                    may_freeze: true,
                    ..hides
                },
                1_000,
            ),
        ),
        (
            "the memtable may hide much, and another is sealed whose flush waits for a merge",
            Facts {
                memtables: sealed(1, true),
                ..left(
                    Unsettled {
                        may_seal: false,
                        ..hides
                    },
                    1_000,
                )
            },
        ),
        (
            "the memtable may hide much, and the commit lock was not free a moment ago",
            Facts {
                held_back: given_up,
                ..left(hides, 4_000)
            },
        ),
        ("generations may hide much", left(generations, 1_000)),
        (
            "generations may hide much, and the memtable has many deletes",
            left(
                Unsettled {
                    has_many_deletes: true,
                    may_seal: true,
                    ..generations
                },
                1_000,
            ),
        ),
        (
            "generations may hide much, and all are frozen",
            left(
                Unsettled {
                    may_freeze: false,
                    ..generations
                },
                1_000,
            ),
        ),
        (
            "memtables may hold something of keyspaces that are gone",
            left(gone, 1_000),
        ),
        (
            "the memtable has many deletes, and nobody has written for a second",
            left(deletes, 1_000),
        ),
        (
            "the memtable has many deletes, and nobody has written for five seconds",
            left(deletes, 5_000),
        ),
        (
            "the memtable has many deletes, and something expires",
            Facts {
                garbage: Garbage {
                    look_again_in: Some(seconds(2)),
                    ..Garbage::default()
                },
                ..left(deletes, 1_000)
            },
        ),
        ("a job has run a moment ago", lent_at(NOW + seconds(2))),
        ("no job has run for two seconds", lent_at(NOW)),
        (
            "no job has run for two seconds, and a memtable is sealed whose flush waits",
            Facts {
                memtables: sealed(1, true),
                ..lent_at(NOW)
            },
        ),
    ]
}

/// What is due by each rule, and in which partitions.
fn found(facts: &Facts<'_>, filter: Filter) -> Vec<String> {
    let found = rules::all().filter_map(|rule| {
        let (job, why) = (rule.find)(facts, filter)?;
        Some(described(rule.name, &job.partitions(), why))
    });
    found.collect()
}

fn described(name: JobName, of: &[PartitionId], why: Why) -> String {
    let ids: Vec<_> = of.iter().map(|id| id.0.to_string()).collect();
    let of = if ids.is_empty() { "" } else { " of " };
    format!("{name}{of}{} ({why})", ids.join(" and "))
}

/// What a person sees of that for which no caller waits.
fn only_listed(facts: &Facts<'_>) -> Vec<String> {
    let rules = rules::all().filter(|rule| rule.listed_for == Filter::Listing);
    let found = rules.filter_map(|rule| {
        let (job, why) = (rule.find)(facts, Filter::Listing)?;
        Some(described(rule.name, &job.partitions(), why))
    });
    found.collect()
}

/// What is due for whom, in order, and when a rule is to be asked again.
fn decisions() -> String {
    let mut text = String::new();
    let all = scenarios().into_iter().chain(of_reads());
    let all = all.chain(of_partitions()).chain(of_flush_worker());
    for (name, facts) in all {
        writeln!(text, "{name}").unwrap();
        for (who, filter) in [
            ("worker", Filter::Worker),
            ("waiter", Filter::Waiter),
            ("failures", Filter::Failure(None)),
            ("failures of 1", Filter::Failure(Some(PartitionId(1)))),
        ] {
            let mut due = found(&facts, filter);
            let is_other = !matches!(filter, Filter::Failure(Some(_)));
            if due.is_empty() && is_other {
                due.push("nothing".to_owned());
            }
            if !due.is_empty() {
                writeln!(text, "    {who}: {}", due.join(", then ")).unwrap();
            }
        }
        let listed = only_listed(&facts);
        if !listed.is_empty() {
            writeln!(text, "    listed: {}", listed.join(", then ")).unwrap();
        }
        let later = rules::all().filter_map(|rule| Some((rule.name, (rule.due_in)(&facts)?)));
        for (name, time) in later.filter(|(_, time)| !time.is_zero()) {
            writeln!(text, "    in {} s: {name}", time.as_secs()).unwrap();
        }
    }
    text
}

#[test]
fn decisions_are_as_they_are_written_down() {
    let found = decisions();
    if std::env::var_os("UNIKV_REWRITE").is_some() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/jobs/plan/tests/decisions.txt"
        );
        std::fs::write(path, &found).unwrap();
        return;
    }
    let written = include_str!("tests/decisions.txt");
    for (n, (found, written)) in found.lines().zip(written.lines()).enumerate() {
        assert_eq!(found, written, "line {n}; UNIKV_REWRITE=1 writes it again");
    }
    assert_eq!(found.lines().count(), written.lines().count());
}

/// What a settling does is no partition, and stands in no text.
#[test]
fn settling_does_no_more_than_there_is_and_than_may_be_done() {
    use super::rules::settle::{SETTLE, wanted};
    use super::{Job, Settling};
    for bits in 0..1_u32 << 6 {
        let is_set = |bit: u32| bits >> bit & 1 == 1;
        let unsettled = Unsettled {
            memtable_hides: is_set(0),
            has_many_deletes: is_set(1),
            may_seal: is_set(2),
            generations_hide: is_set(3),
            may_freeze: is_set(4),
            gone_await_flush: is_set(5),
        };
        let hides = is_set(0) || is_set(3);
        for (time, is_idle, is_long_idle) in [
            (999, false, false),
            (1_000, true, false),
            (4_999, true, false),
            (5_000, true, true),
        ] {
            let facts = Facts {
                unsettled,
                idle: idle(time),
                ..facts()
            };
            let is_time = is_long_idle || (is_idle && (hides || is_set(5)));
            let expected = Settling {
                seals: is_time && (is_set(0) || is_set(1) || is_set(5)),
                freezes: is_time && hides,
            };
            let found = wanted(&facts, facts.idle.time).map(|(what, _)| what);
            assert_eq!(found.unwrap_or_default(), expected, "{facts:?}");
            let expected = Settling {
                seals: expected.seals && is_set(2),
                freezes: expected.freezes && is_set(4),
            };
            let found = (SETTLE.find)(&facts, Filter::Worker).map(|(job, _)| match job {
                Job::Settle(what) => what,
                _ => panic!("another job"),
            });
            let expected = (expected != Settling::default()).then_some(expected);
            assert_eq!(found, expected, "{facts:?}");
            assert!((SETTLE.find)(&facts, Filter::Waiter).is_none());
        }
    }
}
