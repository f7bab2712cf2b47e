//! Edits that fit a version, and hand-made ones that each break one rule.

use super::super::edit::KeyspaceMeta;
use super::super::scan_run::ScanRunMeta;
use super::*;
use crate::base::keys::{DatabaseId, FileUid, KeyspaceId, SeqNo, Slot};
use crate::codec::FileCompression;
use crate::key_table::{Expiring, KeyTableMeta, RecordFileRefs};
use crate::record::RecordFileMeta;
use crate::version::edit::PartitionMeta;
use crate::vfs::Env;
use crate::vfs::sim::{SimRuntime, SimVfs};
use std::path::PathBuf;

const LEFT: PartitionId = PartitionId(1);
const RIGHT: PartitionId = PartitionId(2);
/// A partition that never was.
const NONE: PartitionId = PartitionId(99);
/// What was flushed stands in the left partition, what was ingested in the right one.
const FLUSHED: GenerationId = GenerationId(1);
const INGESTED: GenerationId = GenerationId(2);
/// The key table of the version, which points into the value log.
const KEYS: FileNumber = FileNumber(20);
const VALUES: FileNumber = FileNumber(12);

type Unlisted<'a> = &'a dyn Fn(FileNumber) -> Option<Arc<RecordFile>>;

/// Where files would be: none is read.
struct Machine {
    store: Arc<FileStore>,
    cache: Arc<ReadCache>,
}

impl Machine {
    fn new() -> Machine {
        let env = Env {
            vfs: Arc::new(SimVfs::new()),
            runtime: SimRuntime::new(1),
        };
        Machine {
            store: FileStore::new(env, PathBuf::from("db"), DatabaseId([0xdb; 16]), 16),
            cache: ReadCache::new(0),
        }
    }

    fn apply_with(
        &self,
        version: &Version,
        edit: &VersionEdit,
        unlisted: Unlisted<'_>,
    ) -> Result<(Version, Dropped), String> {
        let mut context = ApplyContext {
            store: &self.store,
            cache: &self.cache,
            index: &mut |_, _| None,
            unlisted,
        };
        version.apply(edit, &mut context)
    }

    fn apply(&self, version: &Version, edit: &VersionEdit) -> Result<(Version, Dropped), String> {
        self.apply_with(version, edit, &|_| None)
    }

    /// Two partitions that meet at "m", with one of everything.
    fn version(&self) -> Version {
        let edit = VersionEdit {
            keyspaces: vec![KeyspaceMeta {
                id: KeyspaceId(1),
                data: KeyspaceId(1),
                since: SeqNo(0),
                name: "names".to_owned(),
                options: Vec::new(),
                default_ttl_ms: None,
            }],
            partitions: vec![partition(LEFT, "", Some("m")), partition(RIGHT, "m", None)],
            record_files: vec![
                record_file(10, "a", "f"),
                ingested(11, "n", "p"),
                record_file(VALUES.0, "b", "d"),
            ],
            tables: vec![place(LEFT, FLUSHED, 0, 10), place(RIGHT, INGESTED, 0, 11)],
            key_tables: vec![(LEFT, key_table(KEYS.0, "b", "d"))],
            scan_runs: vec![scan_run(1, vec![key_table(30, "a", "f")])],
            ..VersionEdit::default()
        };
        self.apply(&Version::default(), &edit).unwrap().0
    }
}

fn partition(id: PartitionId, start: &str, end: Option<&str>) -> PartitionMeta {
    PartitionMeta {
        id,
        start: start.into(),
        end: end.map(Into::into),
    }
}

fn record_file(number: u64, min_key: &str, max_key: &str) -> RecordFileMeta {
    RecordFileMeta {
        number: FileNumber(number),
        uid: FileUid(number),
        len: 1000,
        records_end: 900,
        count: 8,
        min_key: min_key.into(),
        max_key: max_key.into(),
        min_seq: SeqNo(1),
        max_seq: SeqNo(8),
        checksum: 7,
        expiry: None,
        has_range_deletes: false,
        ranges: None,
        key_section: true,
        refs: Vec::new(),
        ingest_seq: None,
        compression: FileCompression::default(),
    }
}

fn ingested(number: u64, min_key: &str, max_key: &str) -> RecordFileMeta {
    record_file(number, min_key, max_key).ingested_at(SeqNo(9))
}

/// With a pointer into the value log.
fn key_table(number: u64, min_key: &str, max_key: &str) -> KeyTableMeta {
    KeyTableMeta {
        number: FileNumber(number),
        uid: FileUid(number),
        len: 500,
        count: 3,
        min_key: min_key.into(),
        max_key: max_key.into(),
        min_seq: SeqNo(1),
        max_seq: SeqNo(8),
        checksum: 9,
        refs: vec![RecordFileRefs {
            file: VALUES,
            count: 3,
            bytes: 300,
        }],
        inline_bytes: 0,
        older_bytes: 0,
        newest: None,
        expiry: None,
        expiring: Expiring::default(),
        has_range_deletes: false,
        clip: None,
        compression: FileCompression::default(),
    }
}

fn place(partition: PartitionId, generation: GenerationId, slot: u16, file: u64) -> TablePlace {
    TablePlace {
        partition,
        generation,
        slot: Slot(slot),
        file: FileNumber(file),
        share: None,
        hidden_bytes: 0,
    }
}

/// A run of what was flushed.
fn scan_run(end: u16, tables: Vec<KeyTableMeta>) -> ScanRunMeta {
    ScanRunMeta {
        partition: LEFT,
        generation: FLUSHED,
        end: Slot(end),
        tables,
    }
}

/// An edit that lists a record file as a table.
fn with_table(
    partition: PartitionId,
    generation: GenerationId,
    slot: u16,
    file: RecordFileMeta,
) -> VersionEdit {
    VersionEdit {
        tables: vec![place(partition, generation, slot, file.number.0)],
        record_files: vec![file],
        ..VersionEdit::default()
    }
}

fn with_key_table(partition: PartitionId, meta: KeyTableMeta) -> VersionEdit {
    VersionEdit {
        key_tables: vec![(partition, meta)],
        ..VersionEdit::default()
    }
}

fn with_run(run: ScanRunMeta) -> VersionEdit {
    VersionEdit {
        scan_runs: vec![run],
        ..VersionEdit::default()
    }
}

#[test]
fn a_snapshot_of_a_version_makes_the_same_version() {
    let machine = Machine::new();
    let snapshot = machine.version().snapshot();
    let (again, dropped) = machine.apply(&Version::default(), &snapshot).unwrap();
    assert_eq!(again.snapshot(), snapshot);
    assert!(dropped.record_files.is_empty() && dropped.key_tables.is_empty());
}

/// The neighbours of what is refused below: so it is the one broken rule that is refused there.
#[test]
fn edits_that_keep_the_rules_are_taken() {
    let machine = Machine::new();
    let version = machine.version();
    let next_flush = with_table(LEFT, FLUSHED, 1, record_file(13, "a", "f"));
    let mut two_files = with_table(RIGHT, INGESTED, 1, ingested(13, "q", "r"));
    two_files.record_files.push(record_file(14, "x", "y"));
    let runs = [
        scan_run(0, Vec::new()),
        scan_run(1, vec![key_table(31, "", "c"), key_table(32, "d", "l")]),
    ];
    let sound = [
        next_flush,
        two_files,
        with_table(LEFT, GenerationId(3), 5, record_file(13, "a", "f")),
        with_key_table(LEFT, key_table(21, "e", "lz")),
        with_key_table(LEFT, key_table(21, "", "az")),
        with_key_table(RIGHT, key_table(21, "m", "z")),
    ];
    for (n, edit) in sound.into_iter().chain(runs.map(with_run)).enumerate() {
        let (next, _) = machine.apply(&version, &edit).unwrap();
        assert!(next.check_pointers().is_ok(), "edit {n}");
        assert_ne!(next.snapshot(), version.snapshot(), "edit {n}");
    }
}

#[test]
fn a_scan_run_that_is_dropped_or_replaced_hands_out_its_tables() {
    let machine = Machine::new();
    let version = machine.version();
    let drop_it = VersionEdit {
        dropped_scan_runs: vec![(LEFT, FLUSHED)],
        ..VersionEdit::default()
    };
    let replace_it = with_run(scan_run(1, vec![key_table(31, "a", "f")]));
    for (edit, runs) in [(drop_it, 0), (replace_it, 1)] {
        let (next, dropped) = machine.apply(&version, &edit).unwrap();
        assert_eq!(next.scan_runs().count(), runs);
        let numbers = dropped.key_tables.iter().map(|t| t.meta().number);
        assert_eq!(numbers.collect::<Vec<_>>(), [FileNumber(30)]);
    }
}

/// An edit, and why it is refused.
type Contradiction = (VersionEdit, &'static str);

/// What names something that is not there, or adds what is there.
fn unknown_or_twice() -> Vec<Contradiction> {
    let none = VersionEdit::default;
    let gone = GenerationId(0);
    vec![
        (
            VersionEdit {
                record_files: vec![record_file(10, "a", "f")],
                ..none()
            },
            "record file 10 is added twice",
        ),
        (
            VersionEdit {
                dropped_record_files: vec![FileNumber(77)],
                ..none()
            },
            "record file 77 is unknown",
        ),
        (
            VersionEdit {
                tables: vec![place(LEFT, FLUSHED, 1, 77)],
                ..none()
            },
            "record file 77 is unknown",
        ),
        (
            with_table(NONE, FLUSHED, 1, record_file(13, "a", "f")),
            "partition 99 is unknown",
        ),
        (
            with_table(LEFT, gone, 0, record_file(13, "a", "f")),
            "generation 0 is gone",
        ),
        (
            with_table(LEFT, FLUSHED, 0, record_file(13, "a", "f")),
            "slot 0 is used twice",
        ),
        (
            with_table(LEFT, FLUSHED, 60_000, record_file(13, "a", "f")),
            "slot 60000 comes too early",
        ),
        (
            VersionEdit {
                dropped_generations: vec![(LEFT, INGESTED)],
                ..none()
            },
            "generation 2 is unknown",
        ),
        (
            VersionEdit {
                dropped_generations: vec![(NONE, FLUSHED)],
                ..none()
            },
            "partition 99 is unknown",
        ),
        (
            VersionEdit {
                dropped_key_tables: vec![(LEFT, FileNumber(77))],
                ..none()
            },
            "key table 77 is unknown",
        ),
        (
            VersionEdit {
                dropped_key_tables: vec![(RIGHT, KEYS)],
                ..none()
            },
            "key table 20 is unknown",
        ),
        (
            with_key_table(NONE, key_table(21, "e", "f")),
            "partition 99 is unknown",
        ),
        (
            VersionEdit {
                dropped_scan_runs: vec![(LEFT, gone)],
                ..none()
            },
            "generation 0 is unknown",
        ),
        (
            VersionEdit {
                dropped_scan_runs: vec![(RIGHT, INGESTED)],
                ..none()
            },
            "generation 2 has no scan run",
        ),
        (
            VersionEdit {
                dropped_scan_runs: vec![(NONE, FLUSHED)],
                ..none()
            },
            "partition 99 is unknown",
        ),
    ]
}

/// What overlaps, leaves its partition or stands in another order than it must.
fn out_of_place() -> Vec<Contradiction> {
    let run = |tables| with_run(scan_run(1, tables));
    let beyond = ScanRunMeta {
        partition: RIGHT,
        ..scan_run(1, vec![key_table(31, "n", "p")])
    };
    vec![
        (
            with_key_table(LEFT, key_table(21, "e", "m")),
            "key table 21 leaves its partition",
        ),
        (
            with_key_table(RIGHT, key_table(21, "lz", "n")),
            "key table 21 leaves its partition",
        ),
        (
            with_key_table(LEFT, key_table(21, "d", "e")),
            "key table 21 overlaps another",
        ),
        (
            with_key_table(LEFT, key_table(21, "a", "b")),
            "key table 21 overlaps another",
        ),
        (
            VersionEdit {
                dropped_key_tables: vec![(LEFT, KEYS)],
                ..with_key_table(LEFT, key_table(KEYS.0, "b", "e"))
            },
            "key table 20 has changed",
        ),
        (
            with_table(RIGHT, INGESTED, 1, record_file(13, "q", "r")),
            "table 13 is in a generation of another kind",
        ),
        (
            with_table(LEFT, FLUSHED, 1, ingested(13, "a", "f")),
            "table 13 is in a generation of another kind",
        ),
        (
            with_table(RIGHT, INGESTED, 1, ingested(13, "p", "r")),
            "ingested table 13 is out of order",
        ),
        (
            with_table(RIGHT, INGESTED, 2, ingested(13, "q", "r")),
            "ingested table 13 is out of order",
        ),
        (
            run(vec![key_table(31, "a", "m")]),
            "a scan run of partition 1 leaves it",
        ),
        (
            with_run(ScanRunMeta {
                tables: vec![key_table(31, "l", "n")],
                ..beyond.clone()
            }),
            "a scan run of partition 2 leaves it",
        ),
        (
            run(vec![key_table(31, "a", "c"), key_table(32, "c", "f")]),
            "tables of a scan run overlap in 1",
        ),
        (with_run(beyond), "generation 1 is unknown"),
        (
            with_run(scan_run(2, vec![key_table(31, "a", "f")])),
            "a scan run of generation 1 covers slots to come",
        ),
    ]
}

/// Partitions that leave a gap, overlap or are there already.
fn wrong_partitions() -> Vec<Contradiction> {
    let with = |dropped: &[PartitionId], partitions: &[PartitionMeta]| VersionEdit {
        partitions: partitions.to_vec(),
        dropped_partitions: dropped.to_vec(),
        ..VersionEdit::default()
    };
    let third = |start, end| partition(PartitionId(3), start, end);
    let uncovered = "the partitions do not cover the key space, each key once";
    vec![
        (with(&[NONE], &[]), "partition 99 is unknown"),
        (
            with(&[], &[partition(RIGHT, "x", None)]),
            "partition 2 is added twice",
        ),
        (with(&[RIGHT], &[]), uncovered),
        (with(&[LEFT], &[]), uncovered),
        (with(&[LEFT, RIGHT], &[]), uncovered),
        (with(&[], &[third("x", None)]), uncovered),
        (with(&[RIGHT], &[third("n", None)]), uncovered),
        (with(&[RIGHT], &[third("l", None)]), uncovered),
        (with(&[RIGHT], &[third("m", Some("z"))]), uncovered),
    ]
}

#[test]
fn an_edit_that_breaks_a_rule_is_refused_with_the_reason() {
    let machine = Machine::new();
    let version = machine.version();
    let before = version.snapshot();
    let all = [unknown_or_twice(), out_of_place(), wrong_partitions()].concat();
    for (edit, why) in all {
        let refused = machine.apply(&version, &edit).err();
        assert_eq!(refused.as_deref(), Some(why), "{edit:?}");
    }
    assert_eq!(version.snapshot(), before, "a refusal changes nothing");
}

/// The file of a large value is read before any version lists it; the edit must mean that file.
#[test]
fn a_record_file_that_is_in_use_already_keeps_its_handle_and_must_be_the_same() {
    let machine = Machine::new();
    let version = machine.version();
    let meta = record_file(13, "a", "f");
    let edit = VersionEdit {
        record_files: vec![meta.clone()],
        ..VersionEdit::default()
    };
    let open = |meta| Arc::new(RecordFile::open(&machine.store, meta, &machine.cache));
    let same = open(meta.clone());
    let known = |number| (number == meta.number).then(|| Arc::clone(&same));
    let (next, _) = machine.apply_with(&version, &edit, &known).unwrap();
    assert!(Arc::ptr_eq(next.record_file(meta.number).unwrap(), &same));
    let other = open(RecordFileMeta {
        checksum: 8,
        ..meta
    });
    let refused = machine.apply_with(&version, &edit, &|_| Some(Arc::clone(&other)));
    assert_eq!(refused.err().unwrap(), "record file 13 has changed");
}

#[test]
fn a_record_file_that_keys_point_to_may_not_go() {
    let machine = Machine::new();
    let version = machine.version();
    assert_eq!(version.check_pointers(), Ok(()));
    let edit = VersionEdit {
        dropped_record_files: vec![VALUES],
        ..VersionEdit::default()
    };
    let (next, dropped) = machine.apply(&version, &edit).unwrap();
    assert_eq!(dropped.record_files.len(), 1);
    let refused = next.check_pointers().unwrap_err();
    assert_eq!(refused, "record file 12 is pointed to and gone");
    let with_its_keys = VersionEdit {
        dropped_key_tables: vec![(LEFT, KEYS)],
        ..edit
    };
    let (next, _) = machine.apply(&version, &with_its_keys).unwrap();
    assert_eq!(next.check_pointers(), Ok(()));
}

#[test]
fn a_record_file_that_is_a_table_may_not_go() {
    let machine = Machine::new();
    let version = machine.version();
    assert_eq!(version.check_tables(), Ok(()));
    let edit = VersionEdit {
        dropped_record_files: vec![FileNumber(10)],
        ..VersionEdit::default()
    };
    let (next, _) = machine.apply(&version, &edit).unwrap();
    let refused = next.check_tables().unwrap_err();
    assert_eq!(refused, "record file 10 is a table and gone");
    let with_its_generation = VersionEdit {
        dropped_generations: vec![(LEFT, FLUSHED)],
        ..edit
    };
    let (next, _) = machine.apply(&version, &with_its_generation).unwrap();
    assert_eq!(next.check_tables(), Ok(()));
}

/// What figures are after each of the edits, of which the sums are those of a walk.
fn sums_after(machine: &Machine, version: Version, edits: &[VersionEdit]) -> Version {
    edits
        .iter()
        .enumerate()
        .fold(version, |version, (n, edit)| {
            // Known before the edit, so that it shows what is kept of them.
            version.check_sums().unwrap();
            let (next, _) = machine.apply(&version, edit).unwrap();
            let refused = next.check_sums().err();
            assert_eq!(refused, None, "edit {n}");
            next
        })
}

/// The left partition in two, each with a part of its table and of its keys.
fn split_left() -> VersionEdit {
    let (first, second) = (PartitionId(3), PartitionId(4));
    let share = |records, bytes| Some(TableShare { records, bytes });
    VersionEdit {
        dropped_partitions: vec![LEFT],
        partitions: vec![
            partition(first, "", Some("c")),
            partition(second, "c", Some("m")),
        ],
        tables: vec![
            TablePlace {
                share: share(3, 400),
                ..place(first, FLUSHED, 0, 10)
            },
            TablePlace {
                share: share(5, 600),
                ..place(second, FLUSHED, 0, 10)
            },
        ],
        key_tables: vec![
            (first, key_table(21, "a", "b")),
            (second, key_table(22, "c", "d")),
        ],
        ..VersionEdit::default()
    }
}

#[test]
fn sums_follow_tables_that_come_and_go() {
    let machine = Machine::new();
    let merged = VersionEdit {
        dropped_generations: vec![(LEFT, FLUSHED)],
        dropped_key_tables: vec![(LEFT, KEYS)],
        ..with_key_table(LEFT, key_table(21, "a", "f"))
    };
    let without_keys = VersionEdit {
        dropped_key_tables: vec![(LEFT, FileNumber(21))],
        ..VersionEdit::default()
    };
    let mut with_large = with_table(RIGHT, GenerationId(3), 0, record_file(13, "x", "y"));
    with_large.record_files[0].refs = key_table(0, "", "").refs;
    let merged_too = VersionEdit {
        dropped_generations: vec![(RIGHT, GenerationId(3))],
        dropped_record_files: vec![FileNumber(10)],
        ..VersionEdit::default()
    };
    let version = machine.version();
    assert_eq!(version.live(VALUES).bytes, 300);
    let version = sums_after(&machine, version, &[merged, without_keys, with_large]);
    let dead = |version: &Version| version.dead_record_files();
    assert_eq!(
        dead(&version),
        [FileNumber(10)],
        "a large value keeps the other"
    );
    assert_eq!(version.file_sums().dead, 1);
    assert_eq!(version.live(VALUES).count, 3);
    let version = sums_after(&machine, version, &[merged_too]);
    assert_eq!(dead(&version), [VALUES, FileNumber(13)]);
    assert_eq!(version.live(VALUES), Default::default());
    let sums = version.partition_sums();
    assert_eq!((sums.partitions, sums.key_tables), (2, 0));
    assert_eq!((sums.unsorted_bytes, sums.most_tables), (1000, 1));
    assert_eq!(version.file_sums().half_merged_bytes, 0);
}

#[test]
fn sums_follow_splits_and_joins() {
    let machine = Machine::new();
    let joined = VersionEdit {
        dropped_partitions: vec![PartitionId(3), PartitionId(4)],
        partitions: vec![partition(PartitionId(5), "", Some("m"))],
        key_tables: vec![
            (PartitionId(5), key_table(21, "a", "b")),
            (PartitionId(5), key_table(22, "c", "d")),
        ],
        ..VersionEdit::default()
    };
    let merged = |id| VersionEdit {
        dropped_generations: vec![(PartitionId(id), FLUSHED)],
        ..VersionEdit::default()
    };
    let version = sums_after(&machine, machine.version(), &[split_left(), merged(3)]);
    assert_eq!(
        version.partition(PartitionId(4)).unwrap().unsorted_bytes(),
        600
    );
    assert!(version.file_sums().half_merged_bytes > 0);
    let version = sums_after(&machine, version, &[merged(4), joined]);
    assert!(version.partition(PartitionId(4)).is_none());
    assert_eq!(version.dead_record_files(), [FileNumber(10)]);
    assert_eq!(version.live(VALUES).count, 6);
}

#[test]
fn an_edit_of_one_partition_copies_as_much_of_a_large_version_as_of_a_small_one() {
    let machine = Machine::new();
    let copied = |partitions: u64| {
        let key = |n: u64| match n {
            0 => String::new(),
            _ => format!("{n:08}"),
        };
        let all = (0..partitions).map(|n| {
            let end = (n + 1 < partitions).then(|| key(n + 1));
            partition(PartitionId(n + 1), &key(n), end.as_deref())
        });
        let edit = VersionEdit {
            partitions: all.collect(),
            record_files: vec![record_file(VALUES.0, "b", "d")],
            ..VersionEdit::default()
        };
        let (version, _) = machine.apply(&Version::default(), &edit).unwrap();
        let middle = format!("{:08}x", partitions / 2);
        let edit = with_key_table(
            PartitionId(partitions / 2 + 1),
            key_table(20, &middle, &middle),
        );
        let next = sums_after(&machine, version.clone(), &[edit]);
        let partitions = next.partitions().not_shared_with(version.partitions());
        partitions.count()
    };
    assert_eq!(copied(5000), copied(200));
}
