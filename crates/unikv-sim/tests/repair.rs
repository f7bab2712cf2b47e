//! Salvage: small databases of several shapes, damage of every kind in every file, and an oracle
//! that knows every value that a key ever had.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unikv::vfs::sim::{Fault, FaultRule, Keep, Op, SimRuntime, SimVfs};
use unikv::vfs::{Env, Vfs};
use unikv::{
    Batch, Clustering, Db, Durability, ErrorKind, Options, RepairOptions, RepairTrust, Tuning,
};
use unikv_sim::oracle::State;
use unikv_sim::runner::DIR;
use unikv_sim::salvage::{self, Salvaged, TO, Truth, contents, show_keys as show};
use unikv_sim::value::Bytes;
use unikv_sim::verify;

fn env(disk: &SimVfs) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(11),
    }
}

/// A database as a process left it that was killed, and everything ever written to it.
struct Specimen {
    disk: SimVfs,
    /// All values that each key ever had.
    history: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    state: State,
    commit_tag: Option<Vec<u8>>,
    /// Operations of the largest batch.
    most_ops: usize,
}

struct Builder {
    db: Db,
    runtime: Arc<SimRuntime>,
    specimen: Specimen,
    stamp: u32,
}

fn options() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(1 << 20)
                .unsorted_bytes(1 << 20)
                .key_table_bytes(1 << 10)
                .block_bytes(256)
                .scan_merge_limit(1),
        )
        .memory_budget(4 << 20)
        .inline_value_bytes(24)
}

impl Builder {
    fn new(options: Options) -> Builder {
        let disk = SimVfs::new();
        let runtime = SimRuntime::new(5);
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: runtime.clone(),
        };
        Builder {
            db: Db::open(DIR, options.env(env)).unwrap(),
            runtime,
            specimen: Specimen {
                disk,
                history: BTreeMap::new(),
                state: State::new(),
                commit_tag: None,
                most_ops: 1,
            },
            stamp: 0,
        }
    }

    /// The next change of a key: a value that names key and time, or a delete.
    fn change(&mut self, n: u32, len: usize) -> (Vec<u8>, Option<Vec<u8>>) {
        self.stamp += 1;
        let key = format!("key{n:03}").into_bytes();
        let value = (!self.stamp.is_multiple_of(6)).then(|| {
            let mut value = format!("{n:03}@{}", self.stamp).into_bytes();
            value.resize(value.len() + len, b'.');
            value
        });
        self.note(&key, value.as_deref());
        (key, value)
    }

    fn note(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => {
                let values = self.specimen.history.entry(key.to_vec()).or_default();
                values.insert(value.to_vec());
                self.specimen.state.insert(key.to_vec(), value.into());
            }
            None => drop(self.specimen.state.remove(key)),
        }
    }

    fn write(&mut self, n: u32, len: usize) {
        match self.change(n, len) {
            (key, Some(value)) => self.db.put(key, value).unwrap(),
            (key, None) => self.db.delete(key).unwrap(),
        }
    }

    fn writes(&mut self, numbers: impl Iterator<Item = u32>) {
        numbers.for_each(|n| self.write(n, (n * 13 % 60) as usize));
    }

    fn batch(&mut self, numbers: &[u32], len: usize, commit_tag: &str) {
        let mut batch = Batch::new();
        for n in numbers {
            match self.change(*n, len) {
                (key, Some(value)) => batch.put(key, value),
                (key, None) => batch.delete(key),
            };
        }
        batch.set_commit_tag(commit_tag);
        self.db.write_with(&batch, Durability::Sync).unwrap();
        self.specimen.commit_tag = Some(commit_tag.into());
        self.specimen.most_ops = self.specimen.most_ops.max(numbers.len());
    }

    fn ingest(&mut self, numbers: impl Iterator<Item = u32>) {
        let changes: Vec<_> = numbers.map(|n| self.change(n, 40)).collect();
        self.db
            .ingest_sorted(changes.into_iter().map(unikv::Result::Ok), None)
            .unwrap();
    }

    fn flush(&mut self) {
        self.db.flush().unwrap();
    }

    fn compact(&mut self) {
        self.db.compact().unwrap();
        self.db.wait_until_idle().unwrap();
    }

    fn scan_until_merged(&mut self) {
        for _ in 0..30 {
            assert_eq!(self.db.iter().count(), self.specimen.state.len());
            self.db.wait_until_idle().unwrap();
        }
        assert!(self.db.stats().scan_merges > 0, "{:#?}", self.db.stats());
    }

    /// The last writes, of which a part is synced, and the death of the process.
    fn kill(mut self) -> Specimen {
        self.runtime.run_until_idle();
        self.writes((0..12).map(|n| n * 11 % 140));
        self.batch(&[3, 50, 90, 139], 20, "the mark");
        self.writes((0..6).map(|n| n * 17 % 140));
        self.db.sync().unwrap();
        let mut specimen = self.specimen;
        specimen.disk = specimen.disk.process_kill();
        specimen
    }
}

/// One partition; values inline and apart; overwritten and deleted records in value logs.
fn plain() -> Specimen {
    let mut b = Builder::new(options());
    b.writes(0..140);
    b.compact();
    b.writes((0..60).map(|n| n * 7 % 140));
    b.compact();
    b.writes((0..30).map(|n| n * 3));
    b.flush();
    b.writes((20..60).map(|n| n * 2));
    b.flush();
    b.kill()
}

/// Several partitions that share tables, of which some have been merged; scan runs.
fn divided() -> Specimen {
    let mut b = Builder::new(options().tuning(Tuning::default().partition_bytes(4 << 10)));
    b.writes(0..140);
    b.compact();
    b.writes((0..60).map(|n| n * 7 % 140));
    b.flush();
    b.db.compact_range("key000".."key020").unwrap();
    b.writes((0..40).map(|n| n * 3));
    b.flush();
    b.db.compact_range("key100".."key110").unwrap();
    for round in 0..12 {
        b.writes((0..12).map(|n| (n * 5 + round) % 140));
        b.flush();
    }
    b.scan_until_merged();
    b.writes((0..20).map(|n| n * 6));
    b.flush();
    assert!(b.db.stats().partitions.len() > 2);
    b.kill()
}

/// Large values, ingested tables merged and unmerged, values copied in merges, collected garbage.
fn mixed() -> Specimen {
    let options = options()
        .tuning(Tuning::default().memtable_bytes(16 << 10))
        .clustering(Clustering::Automatic)
        .max_space_amp(1.1);
    let mut b = Builder::new(options);
    b.writes(0..140);
    b.batch(&[1, 2, 70, 71], 5000, "early");
    b.compact();
    b.ingest((0..140).filter(|n| n % 4 == 0));
    b.compact();
    b.writes((0..70).map(|n| n * 2));
    b.batch(&[8, 9, 100], 5000, "later");
    b.compact();
    b.db.collect_garbage().unwrap();
    b.ingest((0..140).filter(|n| n % 9 == 0));
    b.writes((0..30).map(|n| n * 4));
    b.batch(&[20, 21], 6000, "flushed");
    b.flush();
    b.batch(&[33, 34, 35], 6000, "in the log");
    b.kill()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn is_kind(path: &Path, kind: &str) -> bool {
    match kind {
        "MANIFEST" => name_of(path).starts_with("MANIFEST"),
        "CURRENT" => name_of(path) == "CURRENT",
        _ => path.extension().is_some_and(|extension| extension == kind),
    }
}

/// The files of the database but for those whose bytes mean nothing.
fn files(disk: &SimVfs) -> Vec<PathBuf> {
    let mut all = disk.file_names();
    all.retain(|path| path.starts_with(DIR) && !["LOCK", "BALLAST"].contains(&&name_of(path)[..]));
    all
}

impl Truth for Specimen {
    fn state(&self) -> &State {
        &self.state
    }

    fn had(&self, key: &[u8], value: &Bytes) -> bool {
        let values = self.history.get(key);
        values.is_some_and(|values| values.contains(&value[..]))
    }
}

impl Specimen {
    fn repair(&self, disk: &SimVfs, options: &RepairOptions) -> unikv::Result<Salvaged> {
        salvage::repair(disk, options, self)
    }

    fn repaired(&self, disk: &SimVfs) -> Salvaged {
        let salvaged = self.repair(disk, &RepairOptions::default()).unwrap();
        salvaged.must_report();
        salvaged
    }

    /// Damages one file in one way and repairs.
    fn with(&self, damage: impl FnOnce(&SimVfs)) -> Salvaged {
        let disk = self.disk.process_kill();
        damage(&disk);
        self.repaired(&disk)
    }

    fn files_of(&self, kind: &str) -> Vec<PathBuf> {
        let mut files = files(&self.disk);
        files.retain(|path| is_kind(path, kind));
        assert!(!files.is_empty(), "no file of kind {kind}");
        files
    }

    fn len_of(&self, path: &Path) -> u64 {
        self.disk.read_file(path).unwrap().len() as u64
    }
}

/// Flips a bit in every `stride`-th byte of every file of a kind.
fn flip(specimen: &Specimen, kind: &str, stride: usize, look: impl Fn(&Salvaged, &str)) -> u64 {
    let mut flips = 0;
    for (i, path) in specimen.files_of(kind).iter().enumerate() {
        let len = specimen.len_of(path);
        for offset in (i as u64 % stride as u64..len).step_by(stride) {
            let bit = offset * 8 + offset.wrapping_mul(0x9e37_79b9) % 8;
            let salvaged = specimen.with(|disk| assert!(disk.flip_bit(path, bit)));
            look(&salvaged, &format!("{} at {offset}", name_of(path)));
            flips += 1;
        }
    }
    flips
}

fn specimens() -> [(&'static str, Specimen); 3] {
    [
        ("plain", plain()),
        ("divided", divided()),
        ("mixed", mixed()),
    ]
}

#[test]
fn a_database_without_damage_is_copied() {
    for (name, specimen) in specimens() {
        let salvaged = specimen.with(|_| ());
        salvaged.assert_exact(name);
        let report = &salvaged.report;
        assert!(report.is_complete(), "{name}: {report:#?}");
        assert_eq!(report.trust, RepairTrust::Manifest, "{name}");
        assert!(
            report.options_carried && report.tombstones > 0,
            "{name}: {report:#?}"
        );
        assert_eq!(
            report.commit_tag.as_deref(),
            specimen.commit_tag.as_deref(),
            "{name}"
        );
        let faults = report.files.iter().map(|file| file.fault_count);
        assert_eq!(faults.sum::<u64>(), 0, "{name}: {report:#?}");
    }
}

#[test]
fn without_current_the_newest_manifest_stands_in() {
    for (name, specimen) in specimens() {
        let current = specimen.files_of("CURRENT").remove(0);
        let salvaged = specimen.with(|disk| Vfs::remove(disk, &current).unwrap());
        salvaged.assert_exact(name);
        assert_eq!(salvaged.report.trust, RepairTrust::Manifest);
        flip(&specimen, "CURRENT", 9, |salvaged, what| {
            salvaged.assert_exact(&format!("{name}, {what}"));
        });
    }
}

#[test]
fn without_any_manifest_nothing_stale_comes_back() {
    for (name, specimen) in specimens() {
        let salvaged = specimen.with(|disk| {
            for path in specimen.files_of("MANIFEST") {
                Vfs::remove(disk, &path).unwrap();
            }
            Vfs::remove(disk, &specimen.files_of("CURRENT")[0]).unwrap();
        });
        let Salvaged {
            report,
            missing,
            stale,
            ..
        } = &salvaged;
        // What is missing must_report has found among the uncertain keys.
        assert!(missing.len() <= 5, "{name}: missing {}", show(missing));
        assert_eq!(report.trust, RepairTrust::Files);
        assert!(stale.is_empty(), "{name}: stale {}", show(stale));
    }
}

#[test]
fn a_damaged_manifest_leaves_what_its_beginning_and_the_files_say() {
    for (name, specimen) in specimens() {
        let flips = flip(&specimen, "MANIFEST", 41, |salvaged, what| {
            let Salvaged { missing, stale, .. } = salvaged;
            assert!(stale.is_empty(), "{name}, {what}: stale {}", show(stale));
            let uncertain = &salvaged.report.uncertain_keys;
            let told = |key: &&Vec<u8>| uncertain.iter().any(|k| k.key == key[..]);
            assert!(
                missing.iter().all(|key| told(&key)),
                "{name}, {what}: missing {}",
                show(missing)
            );
        });
        assert!(flips > 30, "{flips}");
    }
}

#[test]
fn a_flipped_bit_in_a_record_file_loses_one_record_at_most() {
    let (mut flips, mut losses) = (0, 0);
    for (name, specimen) in specimens() {
        let lost = std::cell::Cell::new(0);
        flips += flip(&specimen, "rec", 61, |salvaged, what| {
            let Salvaged {
                report,
                missing,
                stale,
                ..
            } = salvaged;
            assert_eq!(report.in_doubt, 0, "{name}, {what}: {report:#?}");
            assert_eq!(report.lost_range_count, 0, "{name}, {what}: {report:#?}");
            // Of a batch of the log that lacks a large value nothing is taken.
            let dropped = report.log.batches_dropped;
            let most = if dropped > 0 { specimen.most_ops } else { 1 };
            assert!(
                dropped > 0 || stale.is_empty(),
                "{name}, {what}: {}",
                show(stale)
            );
            assert!(
                missing.len() + stale.len() <= most,
                "{name}, {what}: {report:#?}"
            );
            assert!(report.lost <= most as u64, "{name}, {what}: {report:#?}");
            lost.set(lost.get() + report.lost);
        });
        losses += lost.get();
    }
    assert!(flips > 500 && losses > 50, "{flips} flips, {losses} losses");
}

#[test]
fn a_flipped_bit_in_a_key_table_loses_the_keys_of_a_block_at_most() {
    for (name, specimen) in specimens() {
        flip(&specimen, "key", 31, |salvaged, what| {
            let Salvaged {
                report,
                missing,
                stale,
                ..
            } = salvaged;
            assert!(stale.is_empty(), "{name}, {what}: stale {}", show(stale));
            assert_eq!(report.lost, 0, "{name}, {what}: {report:#?}");
            let outside = missing.iter().find(|key| !salvaged.in_lost_range(key));
            assert!(outside.is_none(), "{name}, {what}: {outside:?}");
            let ranges: BTreeSet<_> = report.lost_ranges.iter().map(|r| &r.file).collect();
            assert!(ranges.len() <= 1, "{name}, {what}: {report:#?}");
        });
    }
}

#[test]
fn what_a_damaged_key_table_held_is_proven_where_nothing_is_garbage() {
    let mut b = Builder::new(options());
    for n in 0..300u32 {
        let (key, value) = (format!("key{n:03}"), vec![b'a' + (n % 26) as u8; 60]);
        b.note(key.as_bytes(), Some(&value));
        b.db.put(key, value).unwrap();
    }
    b.compact();
    // Unmerged records above it do no harm.
    for n in 0..20u32 {
        b.note(format!("key{:03}", n * 7).as_bytes(), Some(b"newer"));
        b.db.put(format!("key{:03}", n * 7), b"newer").unwrap();
    }
    b.flush();
    let mut specimen = b.specimen;
    specimen.disk = specimen.disk.process_kill();
    let exact = |salvaged: &Salvaged, what: &str| {
        salvaged.assert_exact(what);
        assert!(
            salvaged.report.is_complete(),
            "{what}: {:#?}",
            salvaged.report
        );
    };
    assert!(flip(&specimen, "key", 7, exact) > 200);
    for path in specimen.files_of("key") {
        exact(
            &specimen.with(|disk| Vfs::remove(disk, &path).unwrap()),
            "missing",
        );
    }
    // A record that is damaged, too, leaves it open which of them was pointed to.
    let (keys, records) = (specimen.files_of("key"), specimen.files_of("rec"));
    let salvaged = specimen.with(|disk| {
        disk.flip_bit(&keys[0], 8 * 200);
        disk.flip_bit(&records[0], 8 * 1000);
    });
    assert!(!salvaged.report.is_complete(), "{:#?}", salvaged.report);
}

#[test]
fn a_damaged_record_of_an_ingested_table_is_lost_and_no_older_one_comes_back() {
    let mut b = Builder::new(options());
    b.writes(0..40);
    b.compact();
    b.ingest((0..40).filter(|n| n % 2 == 0));
    let specimen = b.kill();
    let losses = std::cell::Cell::new(0);
    flip(&specimen, "rec", 13, |salvaged, what| {
        let Salvaged { report, stale, .. } = salvaged;
        assert!(stale.is_empty(), "{what}: stale {}", show(stale));
        losses.set(losses.get() + report.lost);
    });
    assert!(losses.get() > 20, "{losses:?}");
}

#[test]
fn a_data_file_that_goes_on_after_its_end_is_read_up_to_there() {
    for (name, specimen) in specimens() {
        for kind in ["rec", "key"] {
            for path in specimen.files_of(kind) {
                let mut bytes = specimen.disk.read_file(&path).unwrap();
                bytes.extend_from_slice(&[0x5a; 700]);
                let salvaged = specimen.with(|disk| disk.write_file(&path, &bytes));
                salvaged.assert_exact(&format!("{name}, {}", name_of(&path)));
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_the_log_loses_one_batch() {
    for (name, specimen) in specimens() {
        flip(&specimen, "wal", 5, |salvaged, what| {
            let Salvaged {
                report,
                missing,
                stale,
                ..
            } = salvaged;
            let differ = missing.len() + stale.len();
            assert!(differ <= specimen.most_ops, "{name}, {what}: {report:#?}");
            let told = !report.log.gaps.is_empty() || report.log.cut.is_some();
            assert!(told || differ == 0, "{name}, {what}: {report:#?}");
            let (lost, ranges) = (report.lost, report.lost_range_count);
            assert_eq!((lost, ranges), (0, 0), "{name}, {what}: {report:#?}");
        });
    }
}

#[test]
fn a_batch_of_which_a_part_is_lost_is_left_out_unless_parts_are_wanted() {
    let specimen = mixed();
    let mut batches = 0;
    for path in specimen.files_of("rec") {
        let damaged = || {
            let disk = specimen.disk.process_kill();
            disk.flip_bit(&path, 8 * 300);
            disk
        };
        let differing = |salvaged: &Salvaged| salvaged.missing.len() + salvaged.stale.len();
        let without = specimen.repaired(&damaged());
        if without.report.log.batches_dropped == 0 {
            continue;
        }
        batches += 1;
        let parts = RepairOptions::default().partial_batches(true);
        let with = specimen.repair(&damaged(), &parts).unwrap();
        let lost = |salvaged: &Salvaged| (salvaged.report.lost, differing(salvaged) as u64);
        let (lost_with, differing_with) = lost(&with);
        assert!(
            lost_with <= 1 && lost_with == differing_with,
            "{:#?}",
            with.report
        );
        let (lost_without, differing_without) = lost(&without);
        assert!(lost_without > lost_with, "{:#?}", without.report);
        assert_eq!(lost_without, differing_without, "{:#?}", without.report);
    }
    assert!(batches > 0);
}

#[test]
fn cut_and_missing_files_lose_what_they_held_and_say_so() {
    for (_, specimen) in specimens() {
        for path in files(&specimen.disk) {
            let bytes = specimen.disk.read_file(&path).unwrap();
            let salvaged = specimen.with(|disk| Vfs::remove(disk, &path).unwrap());
            if is_kind(&path, "rec") {
                assert_eq!(salvaged.report.log.gaps.len(), 0);
            }
            for len in [0, 1, 95, 96, bytes.len() / 2, bytes.len() - 1] {
                let len = len.min(bytes.len() - 1);
                specimen.with(|disk| disk.write_file(&path, &bytes[..len]));
            }
        }
    }
}

#[test]
fn files_that_were_swapped_or_belong_to_others_are_not_believed() {
    let (specimen, other) = (plain(), divided());
    for kind in ["rec", "key", "wal"] {
        let own = specimen.files_of(kind);
        for (i, path) in own.iter().enumerate() {
            let kin = &own[(i + 1) % own.len()];
            let bytes = specimen.disk.read_file(kin).unwrap();
            specimen.with(|disk| disk.write_file(path, &bytes));
            let foreign = other.files_of(kind).into_iter().next_back().unwrap();
            let bytes = other.disk.read_file(&foreign).unwrap();
            specimen.with(|disk| disk.write_file(path, &bytes));
        }
        // Beside what is there, under a number of its own.
        let foreign = other.files_of(kind).remove(0);
        let bytes = other.disk.read_file(&foreign).unwrap();
        let own_bytes = specimen.disk.read_file(&own[0]).unwrap();
        for bytes in [&bytes, &own_bytes] {
            for without_manifest in [false, true] {
                let salvaged = specimen.with(|disk| {
                    if without_manifest {
                        lose_manifest(&specimen, disk);
                    }
                    disk.write_file(Path::new(&format!("{DIR}/999999.{kind}")), bytes);
                });
                assert!(salvaged.stale.is_empty(), "{}", show(&salvaged.stale));
                let ignored = salvaged.report.files.iter();
                let ignored = ignored.filter(|file| file.ignored.is_some()).count();
                assert!(ignored > 0, "{:#?}", salvaged.report);
            }
        }
    }
}

fn lose_manifest(specimen: &Specimen, disk: &SimVfs) {
    for path in specimen.files_of("MANIFEST") {
        Vfs::remove(disk, &path).unwrap();
    }
    Vfs::remove(disk, &specimen.files_of("CURRENT")[0]).unwrap();
}

#[test]
fn without_a_manifest_a_record_file_without_its_first_sector_is_reported() {
    for (name, specimen) in specimens() {
        for path in specimen.files_of("rec") {
            let mut bytes = specimen.disk.read_file(&path).unwrap();
            let sector = bytes.len().min(4096);
            bytes[..sector].fill(0);
            let salvaged = specimen.with(|disk| {
                lose_manifest(&specimen, disk);
                disk.write_file(&path, &bytes);
            });
            // What is out of date must_report accepts where anything is in doubt.
            let stale = salvaged.stale.len() as u64;
            let in_doubt = salvaged.report.in_doubt;
            assert!(in_doubt >= stale, "{name}, {}: {stale}", name_of(&path));
        }
    }
}

#[test]
fn from_record_files_alone_each_value_is_one_that_the_key_had() {
    for (name, specimen) in specimens() {
        let disk = specimen.disk.process_kill();
        for path in files(&disk) {
            if !is_kind(&path, "rec") {
                Vfs::remove(&disk, &path).unwrap();
            }
        }
        let salvaged = specimen.repaired(&disk.process_kill());
        let all = RepairOptions::default().include_uncertain(true);
        let all = specimen.repair(&disk, &all).unwrap();
        assert!(all.report.uncertain_included);
        assert!(all.pairs.len() >= salvaged.pairs.len(), "{name}");
        assert!(
            // Values that stand beside their keys may stand nowhere else.
            all.pairs.len() * 4 >= specimen.state.len() * 3,
            "{name}: {} of {}",
            all.pairs.len(),
            specimen.state.len()
        );
        assert!(!all.report.is_complete());
    }
}

#[test]
fn several_damages_at_once_are_all_reported() {
    for (name, specimen) in specimens() {
        for seed in 0..40u64 {
            let draw = |i: usize| {
                let x = (seed * 1_000_003 + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (x >> 60, x >> 20)
            };
            let salvaged = specimen.with(|disk| {
                let files = files(disk);
                let hits_manifest = |(i, path): (usize, &PathBuf)| {
                    name_of(path).starts_with("MANIFEST") && draw(i).0 < 4
                };
                // A file that is gone, and that nobody names any more, leaves no trace.
                let is_named = !files.iter().enumerate().any(hits_manifest);
                for (i, path) in files.iter().enumerate() {
                    let len = disk.read_file(path).unwrap().len() as u64;
                    match draw(i) {
                        (0, _) if is_named => Vfs::remove(disk, path).unwrap(),
                        (0..4, x) => drop(disk.flip_bit(path, x % (len * 8))),
                        _ => {}
                    }
                }
            });
            assert!(salvaged.report.saved > 0, "{name}: seed {seed}");
        }
    }
}

#[test]
fn sectors_that_the_device_refuses_are_lost_and_no_more() {
    let specimen = plain();
    let path = specimen.files_of("rec").remove(0);
    let disk = specimen.disk.process_kill();
    let bad = path.clone();
    disk.set_read_fault(Box::new(move |call| {
        (call.path == bad && call.offset < 4096).then_some(std::io::ErrorKind::Other)
    }));
    let salvaged = specimen.repaired(&disk);
    let report = &salvaged.report;
    assert!(report.lost > 0 && report.saved > 0, "{report:#?}");
    let of_file = report
        .files
        .iter()
        .find(|f| f.name == name_of(&path))
        .unwrap();
    let told = of_file
        .faults
        .iter()
        .any(|f| f.what.contains("cannot read"));
    assert!(told, "{of_file:#?}");
    assert!(salvaged.stale.is_empty(), "{}", show(&salvaged.stale));
}

/// The same files, all of them durable.
fn durable(disk: &SimVfs) -> SimVfs {
    let copy = SimVfs::new();
    for path in disk.file_names() {
        copy.write_file(&path, &disk.read_file(&path).unwrap());
    }
    copy
}

#[test]
fn a_repair_that_is_cut_leaves_the_source_and_no_half_of_a_database() {
    let specimen = mixed();
    let options = with_little_memory();
    let whole = durable(&specimen.disk);
    let before = contents(&whole);
    let first = whole.calls();
    Db::repair(DIR, TO, &options.clone().env(env(&whole))).unwrap();
    let calls = whole.calls() - first;
    assert!(calls > 20, "{calls}");
    let mut complete = 0;
    for at in 0..calls {
        let disk = durable(&specimen.disk);
        let first = disk.calls();
        disk.set_fault(Box::new(move |call| {
            if call.index == first + at {
                Fault::PowerCut
            } else {
                Fault::None
            }
        }));
        let done = Db::repair(DIR, TO, &options.clone().env(env(&disk)));
        assert!(done.is_err(), "cut at call {at}");
        for (i, keep) in [Keep::Nothing, Keep::All, Keep::Torn(at)]
            .into_iter()
            .enumerate()
        {
            let disk = disk.power_cut(keep);
            assert!(
                contents(&disk) == before,
                "the source has changed: call {at}"
            );
            match Db::open_existing(TO, Options::default().env(env(&disk))) {
                Ok(db) => {
                    // The commit tag has gone: all of it is there.
                    complete += 1;
                    assert_eq!(db.iter().count(), specimen.state.len(), "call {at}, {i}");
                    db.close().unwrap();
                    continue;
                }
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Incompatible),
                    "call {at}, {i}: {error:?}"
                ),
            }
            if i == at as usize % 3 {
                let report = Db::repair(DIR, TO, &options.clone().env(env(&disk))).unwrap();
                assert_eq!(report.saved, specimen.state.len() as u64, "call {at}, {i}");
            }
        }
    }
    assert!(complete < 30, "{complete}");
}

/// So little memory that keys are sorted on the disk.
fn with_little_memory() -> RepairOptions {
    RepairOptions::default().options(Options::default().memory_budget(64 << 10))
}

/// A repair during which some calls fail.
struct Hindered<'a> {
    specimen: &'a Specimen,
    options: &'a RepairOptions,
    before: Vec<(PathBuf, Vec<u8>)>,
    what: String,
}

impl Hindered<'_> {
    /// Repairs a disk on which the rules for calls that change it and for those that look are set.
    /// Whether that fails. `is_left`: whether something may be left, as the faults go on.
    fn repair(&self, disk: &SimVfs, is_left: bool) -> bool {
        let what = &self.what;
        let done = Db::repair(DIR, TO, &self.options.clone().env(env(disk)));
        disk.clear_faults();
        assert!(
            contents(disk) == self.before,
            "{what}: the source has changed"
        );
        let failed = match done {
            Ok(report) => {
                let salvaged = salvage::judge(disk, report, self.specimen);
                salvaged.must_report();
                // What could not be looked at counts as damaged.
                if salvaged.report.is_complete() {
                    salvaged.assert_exact(what);
                }
                return false;
            }
            Err(error) => error,
        };
        let is_of_target = failed.file().is_some_and(|file| file.starts_with(TO));
        let is_typed = match failed.kind() {
            ErrorKind::Io | ErrorKind::DiskFull => true,
            // The salvaged database could not be checked.
            ErrorKind::Corruption => is_of_target,
            _ => false,
        };
        assert!(is_typed, "{what}: {failed:?}");
        let is_named = failed.kind() == ErrorKind::DiskFull || failed.file().is_some();
        assert!(
            is_named && !failed.remedy().is_empty(),
            "{what}: {failed:?}"
        );
        // A lock file is in nobody's way.
        let is_of_it = |path: &PathBuf| path.starts_with(TO) && !path.ends_with("LOCK");
        let left: Vec<_> = disk.file_names().into_iter().filter(is_of_it).collect();
        assert!(is_left || left.is_empty(), "{what}: {failed:?}: {left:?}");
        match Db::open_existing(TO, Options::default().env(env(disk))) {
            Ok(db) => {
                // The commit tag had gone, and could not be put back.
                assert!(is_left, "{what}: something opens");
                let found = verify::scan(db.iter()).unwrap();
                verify::same_pairs(what, &found, &self.specimen.state);
                db.close().unwrap();
                return true;
            }
            Err(error) => {
                let kinds = [ErrorKind::NotFound, ErrorKind::Incompatible];
                assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
            }
        }
        let again = Db::repair(DIR, TO, &self.options.clone().env(env(disk)));
        let again = again.unwrap_or_else(|error| panic!("{what}, then again: {error:?}"));
        salvage::judge(disk, again, self.specimen).assert_exact(what);
        true
    }
}

#[test]
fn any_call_of_a_repair_may_fail_and_a_second_repair_succeeds() {
    let (mut failures, mut tries) = (0, 0);
    for (name, specimen) in specimens() {
        let options = with_little_memory();
        let disk = specimen.disk.process_kill();
        let first = (disk.calls(), disk.looks());
        Db::repair(DIR, TO, &options.clone().env(env(&disk))).unwrap();
        let (calls, looks) = (disk.calls() - first.0, disk.looks() - first.1);
        let errors = [std::io::ErrorKind::Other, std::io::ErrorKind::StorageFull];
        let changes = (0..calls).flat_map(|at| {
            let with = move |error| [(at, error, false, false), (at, error, true, false)];
            errors.into_iter().flat_map(with)
        });
        let seen = (0..looks).map(|at| (at, errors[0], false, true));
        for (at, error, goes_on, looking) in changes.chain(seen.step_by(3)) {
            let disk = specimen.disk.process_kill();
            let hindered = Hindered {
                specimen: &specimen,
                options: &options,
                before: contents(&disk),
                what: format!("{name}: {error} at call {at}, on: {goes_on}, look: {looking}"),
            };
            let first = if looking { disk.looks() } else { disk.calls() };
            let rule: FaultRule = Box::new(move |call| {
                let hits = call.index == first + at || (goes_on && call.index > first + at);
                // A full disk takes away what it is asked to.
                let frees = matches!(call.op, Op::Remove | Op::RemoveDir);
                if hits && !(frees && error == std::io::ErrorKind::StorageFull) {
                    Fault::Fail(error)
                } else {
                    Fault::None
                }
            });
            if looking {
                disk.set_look_fault(rule)
            } else {
                disk.set_fault(rule)
            }
            failures += u64::from(hindered.repair(&disk, goes_on));
            tries += 1;
        }
    }
    println!("{failures} of {tries} repairs fail");
    assert!(failures > 500, "{failures} of {tries}");
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    let specimen = mixed();
    let (mut failed, mut bytes) = (0, 0);
    loop {
        let disk = specimen.disk.process_kill();
        disk.set_free_space(Some(bytes));
        match Db::repair(DIR, TO, &RepairOptions::default().env(env(&disk))) {
            Ok(report) => {
                assert_eq!(report.saved, specimen.state.len() as u64);
                break;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::DiskFull, "{error:?}"),
        }
        let left = disk.file_names();
        let left: Vec<_> = left.iter().filter(|path| path.starts_with(TO)).collect();
        assert!(left.is_empty(), "{left:?}");
        failed += 1;
        bytes += 3000;
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_dry_run_reports_the_same_and_writes_nothing() {
    let specimen = divided();
    let disk = specimen.disk.process_kill();
    for path in specimen.files_of("rec").iter().take(2) {
        disk.flip_bit(path, 1000);
    }
    let options = with_little_memory();
    let dry = options.clone().dry_run(true);
    let dry = Db::repair(DIR, TO, &dry.clone().env(env(&disk))).unwrap();
    assert!(disk.file_names().iter().all(|path| !path.starts_with(TO)));
    let wet = Db::repair(DIR, TO, &options.clone().env(env(&disk))).unwrap();
    assert_eq!(dry.written, None);
    assert_eq!((dry.saved, dry.lost), (wet.saved, wet.lost));
    assert_eq!(dry.lost_keys, wet.lost_keys);
    assert!(disk.file_names().iter().all(|path| !is_kind(path, "sort")));
}

#[test]
fn a_directory_that_is_in_use_or_not_a_database_is_refused() {
    let specimen = plain();
    let options = RepairOptions::default();
    let repair = |disk: &SimVfs, dir: &str, to: &str| {
        let done = Db::repair(dir, to, &options.clone().env(env(disk)));
        done.unwrap_err().kind()
    };
    let disk = specimen.disk.process_kill();
    assert_eq!(repair(&disk, "/nothing", TO), ErrorKind::NotFound);
    assert_eq!(repair(&disk, DIR, DIR), ErrorKind::InvalidArgument);
    disk.write_file(Path::new("/other/notes.txt"), b"mine");
    assert_eq!(repair(&disk, DIR, "/other"), ErrorKind::InvalidArgument);
    assert_eq!(repair(&disk, "/other", TO), ErrorKind::NotFound);
    let db = Db::open(DIR, Options::default().env(env(&disk))).unwrap();
    assert_eq!(repair(&disk, DIR, TO), ErrorKind::Locked);
    drop(db);
    disk.write_file(Path::new("/db/CURRENT"), b"MANIFEST-000005\n");
    assert_eq!(repair(&disk, DIR, TO), ErrorKind::Incompatible);
}
