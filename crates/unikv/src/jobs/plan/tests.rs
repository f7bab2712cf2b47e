//! Decisions as text: a scenario of facts, and what is due in it for whom. `UNIKV_REWRITE=1` writes
//! `tests/decisions.txt` again.

use super::facts::{Disk, HeldBack, Hints, Memtables};
use super::{
    CLOCK_NOTES, FLUSH, FLUSHES, FREEZE_FOR_SPACE, Facts, Filter, HINT_NOTES, Rule, WARM_START,
};
use std::fmt::Write as _;
use std::time::Duration;

const RULES: [Rule; 5] = [
    FLUSHES,
    CLOCK_NOTES,
    WARM_START,
    FREEZE_FOR_SPACE,
    HINT_NOTES,
];

const NOW: Duration = Duration::from_secs(100);

fn facts() -> Facts {
    Facts {
        now: NOW,
        ..Facts::default()
    }
}

fn sealed(sealed: usize, are_blocked: bool) -> Memtables {
    Memtables {
        sealed,
        are_blocked,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn scenarios() -> Vec<(&'static str, Facts)> {
    let hints = |had_turn, is_merge_ready| Hints {
        are_left: true,
        had_turn,
        is_merge_ready,
        note_at: None,
    };
    let noted = |at| Hints {
        note_at: Some(seconds(at)),
        ..Hints::default()
    };
    let full = |wants_freeze| Disk {
        is_full: true,
        wants_freeze,
    };
    let held_back = |until| {
        vec![HeldBack {
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
                hints: hints(true, false),
                ..facts()
            },
        ),
        (
            "hints are left, and a merge could begin",
            Facts {
                hints: hints(false, true),
                ..facts()
            },
        ),
        (
            "hints are left and had their turn, and a merge could begin",
            Facts {
                hints: hints(true, true),
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

/// What is due for whom, in order, and when a rule is to be asked again.
fn decisions() -> String {
    let mut text = String::new();
    for (name, facts) in scenarios() {
        writeln!(text, "{name}").unwrap();
        for (who, filter) in [
            ("worker", Filter::Worker),
            ("waiter", Filter::Waiter),
            ("failures", Filter::Failure(None)),
        ] {
            let found = RULES
                .iter()
                .filter_map(|rule| Some((rule.name, (rule.find)(&facts, filter)?)));
            let due: Vec<_> = found
                .map(|(name, (_, why))| format!("{name} ({why})"))
                .collect();
            let due = if due.is_empty() {
                "nothing".to_owned()
            } else {
                due.join(", then ")
            };
            writeln!(text, "    {who}: {due}").unwrap();
        }
        let later = RULES
            .iter()
            .filter_map(|rule| Some((rule.name, (rule.due_in)(&facts)?)));
        for (name, time) in later.filter(|(_, time)| !time.is_zero()) {
            writeln!(text, "    in {} s: {name}", time.as_secs()).unwrap();
        }
    }
    text
}

#[test]
fn decisions_are_as_they_are_written_down() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/jobs/plan/tests/decisions.txt"
    );
    if std::env::var_os("UNIKV_REWRITE").is_some() {
        std::fs::write(path, decisions()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(decisions(), written, "UNIKV_REWRITE=1 writes it again");
}
