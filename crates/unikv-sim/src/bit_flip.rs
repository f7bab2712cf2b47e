//! The bit-flip explorer: a small database, and one damaged bit in each byte of each file.
//!
//! Below the marks of what was synced, the offline check must name the damaged file for every
//! flip. Wherever the bit is: opening and reading give right data or a typed error that names the
//! file; never wrong data, never a missing key, never a panic. The same for files that are cut
//! short, missing, or replaced by another file of their kind.

use crate::config::Config;
use crate::oracle::{Change, Ending, Oracle, State};
use crate::runner::{DIR, env};
use crate::story;
use crate::value::{Value, show, show_option};
use crate::verify;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Batch, Clustering, Db, Durability, Error, ErrorKind, Iter};

/// Bytes of the manifest's last record, a mark that says that everything before it is synced.
/// Nothing vouches for the mark itself.
const LAST_MARK_LEN: u64 = 24;

/// A database on a disk, and what it holds.
pub struct Specimen {
    disk: SimVfs,
    config: Config,
    oracle: Oracle,
    /// For each file, the length that must be vouched for.
    sure: BTreeMap<PathBuf, u64>,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Bits flipped.
    pub flips: u64,
    /// Of these, how many made the database refuse to open.
    pub refused: u64,
    /// Of the rest, how many made some read fail.
    pub failed_reads: u64,
}

fn config(clustering: Clustering, seed: u64) -> Config {
    Config {
        durability: Durability::Periodic(Duration::from_secs(3600)),
        clustering,
        memtable_bytes: 1 << 20,
        unsorted_bytes: 1 << 20,
        partition_bytes: if seed.is_multiple_of(3) {
            1 << 40
        } else {
            4 << 10
        },
        inline_value_bytes: if seed.is_multiple_of(2) { 16 } else { 0 },
        max_space_amp: 1.5,
        key_table_bytes: 1 << 10,
        block_bytes: 256,
        memory_budget: 4 << 20,
        background_threads: 2,
        scan_merge_limit: 1,
    }
}

impl Specimen {
    /// A database with key tables, value logs, UnsortedStore tables, a scan run, a manifest with several
    /// edits, and a log of which a part is synced.
    pub fn build(seed: u64, clustering: Clustering) -> Specimen {
        let config = config(clustering, seed);
        let vfs = SimVfs::new();
        let (db, runtime) = verify::open(&vfs, &config, seed);
        let mut oracle = Oracle::new();
        let mut stamp = seed as u32 * 1000;
        let write = |oracle: &mut Oracle, stamp: &mut u32, n: u32| {
            *stamp += 1;
            let stamp = *stamp;
            let key = format!("key{:02}", n % 130).into_bytes();
            let deletes = stamp.is_multiple_of(7);
            let value = (!deletes).then(|| {
                Value {
                    stamp,
                    len: (n * 13 % 60) as usize,
                }
                .bytes()
            });
            let done = match &value {
                Some(value) => db.put(&key, value),
                None => db.delete(&key),
            };
            done.expect("a write");
            oracle.acknowledged(vec![(key, value)] as Vec<Change>);
        };
        (0..140).for_each(|n| write(&mut oracle, &mut stamp, n));
        db.compact().expect("a compaction");
        // A flush may make a partition split and so merge what scans would have paid for.
        for round in 0.. {
            if db.stats().scan_merges > 0 {
                break;
            }
            assert!(round < 30, "no scan merge: {:#?}", db.stats());
            (0..10).for_each(|n| write(&mut oracle, &mut stamp, n * (3 + round % 2)));
            db.flush().expect("a flush");
            db.quiesce().expect("quiet");
            for _ in 0..20 {
                assert!(db.iter().all(|entry| entry.is_ok()), "a scan");
                db.quiesce().expect("quiet");
            }
        }
        let may_split = config.partition_bytes < 1 << 40;
        assert_eq!(db.stats().partitions.len() > 1, may_split, "partitions");
        runtime.run_until_idle();
        (0..4).for_each(|n| write(&mut oracle, &mut stamp, n * 11));
        let mut synced = Batch::new();
        let value = Value { stamp, len: 30 }.bytes();
        synced.put(b"synced", &value);
        db.write_with(&synced, Durability::Sync).expect("a write");
        oracle.acknowledged(vec![(b"synced".to_vec(), Some(value))]);
        oracle.synced();
        let mut sure = BTreeMap::new();
        let mut measure = |logs: bool| {
            for path in files(&vfs) {
                let is_log = path.extension().is_some_and(|ext| ext == "wal");
                let len = vfs.read_file(&path).map_or(0, |bytes| bytes.len() as u64);
                let is_manifest = name_of(&path).starts_with("MANIFEST");
                if is_log == logs {
                    sure.insert(
                        path,
                        if is_manifest {
                            len - LAST_MARK_LEN
                        } else {
                            len
                        },
                    );
                }
            }
        };
        measure(true);
        // The records that vouch for what was synced, and some that nothing vouches for.
        (0..3).for_each(|n| write(&mut oracle, &mut stamp, n * 7));
        measure(false);
        let disk = vfs.process_kill();
        Specimen {
            disk,
            config,
            oracle,
            sure,
        }
    }

    /// Whether there are files of the kinds that the explorer is meant for.
    pub fn assert_complete(&self) {
        for kind in ["rec", "key", "wal"] {
            let count = self
                .sure
                .keys()
                .filter(|p| p.extension().is_some_and(|e| e == kind));
            assert!(
                count.count() > 0,
                "no .{kind} file among {:?}",
                self.sure.keys()
            );
        }
        let recovered = verify::recovered(
            &self.disk.process_kill(),
            &self.config,
            &mut self.oracle.clone(),
            Ending::Kill,
        );
        drop(recovered);
        verify::check_clean(&self.disk.process_kill());
    }

    /// Flips one bit in every `stride`-th byte of every file.
    pub fn flip_all(&self, seed: u64, stride: usize, tally: &mut Tally) {
        for path in files(&self.disk) {
            let len = self
                .disk
                .read_file(&path)
                .map_or(0, |bytes| bytes.len() as u64);
            for offset in (seed % stride as u64..len).step_by(stride) {
                let bit = offset * 8 + (seed ^ offset.wrapping_mul(0x9e37_79b9)) % 8;
                let _bit = story::scope("UNIKV_FLIP", format!("{}:{bit}", path.display()));
                let disk = self.disk.process_kill();
                disk.flip_bit(&path, bit);
                let sure = offset < self.sure.get(&path).copied().unwrap_or(0);
                self.examine(&disk, &path, sure, tally);
                tally.flips += 1;
            }
        }
    }

    /// Cuts short, removes and replaces every file that is never appended to again.
    pub fn damage_files(&self, tally: &mut Tally) {
        let whole: Vec<PathBuf> = files(&self.disk)
            .into_iter()
            .filter(|path| name_of(path) == "CURRENT" || is_data(path))
            .collect();
        for path in &whole {
            let bytes = self.disk.read_file(path).expect("a listed file");
            for len in [0, 1, 95, 96, bytes.len() / 2, bytes.len() - 1] {
                let _cut = story::scope("UNIKV_TRUNCATE", format!("{}:{len}", path.display()));
                let disk = self.disk.process_kill();
                disk.write_file(path, &bytes[..len.min(bytes.len() - 1)]);
                self.examine(&disk, path, true, tally);
            }
            let kin = |other: &&PathBuf| *other != path && other.extension() == path.extension();
            for other in whole.iter().filter(kin) {
                let _swap = story::scope(
                    "UNIKV_REPLACE",
                    format!("{}:{}", path.display(), other.display()),
                );
                let disk = self.disk.process_kill();
                disk.write_file(path, &self.disk.read_file(other).expect("a listed file"));
                self.examine(&disk, path, true, tally);
            }
        }
    }

    /// Checks a damaged disk: the offline check, opening, and every read.
    fn examine(&self, disk: &SimVfs, path: &Path, sure: bool, tally: &mut Tally) {
        let runtime = SimRuntime::new(3);
        let named = match Db::check_in(&env(disk, &runtime), DIR) {
            Ok(report) => report
                .problems
                .iter()
                .any(|problem| same_file(&problem.file, path)),
            Err(err) => names(&err, path),
        };
        assert!(named || !sure, "the check does not name {}", path.display());
        let db = match Db::open_in(env(disk, &runtime), DIR, self.config.options()) {
            Ok(db) => db,
            Err(err) => {
                assert!(
                    names(&err, path),
                    "opening fails without naming the file: {err:?}"
                );
                tally.refused += 1;
                return;
            }
        };
        let mut oracle = self.oracle.clone();
        if sure {
            assert!(
                !is_log(path),
                "a damaged log below what was synced is opened"
            );
        } else {
            // The tail may be cut, so the content is that of a prefix; all of it can be read.
            verify::content(&db, &mut oracle, Ending::PowerCut);
        }
        if self.read_everything(&db, &oracle, path) > 0 {
            tally.failed_reads += 1;
        }
    }

    /// Reads in every way; every answer is right or an error that names the file. How many fail.
    fn read_everything(&self, db: &Db, oracle: &Oracle, path: &Path) -> u64 {
        let mut failed = 0;
        for key in oracle.keys() {
            match db.get(key) {
                Ok(got) => {
                    let want = oracle.state().get(key).map(|v| &v[..]);
                    let (key, got_text) = (show(key), show_option(got.as_deref()));
                    let want_text = show_option(want);
                    assert!(
                        got.as_deref() == want,
                        "get of {key}: {got_text}, not {want_text}"
                    );
                }
                Err(err) => {
                    assert!(
                        names(&err, path),
                        "get fails without naming the file: {err:?}"
                    );
                    failed += 1;
                }
            }
        }
        failed += read_scan(db.iter(), oracle.state(), path, false);
        failed + read_scan(db.iter(), oracle.state(), path, true)
    }
}

/// Follows a scan to its end or first error; every pair up to there is the right one.
fn read_scan(mut iter: Iter, state: &State, path: &Path, back: bool) -> u64 {
    let mut want = state.iter();
    loop {
        let got = if back { iter.next_back() } else { iter.next() };
        let want = if back { want.next_back() } else { want.next() };
        let want = want.map(|(key, value)| (&key[..], &value[..]));
        match got.transpose() {
            Ok(got) => {
                let got = got.as_ref().map(|(key, value)| (&key[..], &value[..]));
                let (got_text, want_text) = (verify::show_pair(got), verify::show_pair(want));
                assert!(got == want, "a scan yields {got_text}, not {want_text}");
                if got.is_none() {
                    return 0;
                }
            }
            Err(err) => {
                assert!(
                    names(&err, path),
                    "a scan fails without naming the file: {err:?}"
                );
                return 1;
            }
        }
    }
}

/// The files of the database but for those whose bytes mean nothing: lock and ballast.
fn files(vfs: &SimVfs) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = vfs.file_names();
    all.retain(|path| !["LOCK", "BALLAST"].contains(&&name_of(path)[..]));
    all.sort();
    all
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

fn is_data(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ext| ext == "rec" || ext == "key")
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "wal") || name_of(path).starts_with("MANIFEST")
}

fn same_file(a: &Path, b: &Path) -> bool {
    name_of(a) == name_of(b)
}

fn names(err: &Error, path: &Path) -> bool {
    matches!(err.kind(), ErrorKind::Corruption | ErrorKind::Incompatible)
        && err.file().is_some_and(|file| same_file(file, path))
}
