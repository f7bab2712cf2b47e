//! The verdict on one damaged database.

use super::plan::{Damage, What};
use super::specimen::{FileKind, Specimen, Touched, name_of};
use super::{Memory, Tally};
use crate::oracle::{Ending, Oracle, State};
use crate::runner::{DIR, env};
use crate::spaces;
use crate::value::{show, show_option};
use crate::verify;
use std::path::Path;
use unikv::vfs::sim::SimVfs;
use unikv::{Db, Error, ErrorKind, Iter};

/// What a look at a damaged database may take of memory beyond what the sound one took.
const MEMORY_SLACK: usize = 64 << 10;

/// Looks at one damaged database after the other.
pub(super) struct Exam<'a> {
    specimen: &'a Specimen,
    memory: Option<Memory>,
    /// What a look at the sound database took at its peak.
    sound_peak: usize,
    pub(super) tally: Tally,
}

/// Values of which parts are read, and how long these are: more than a chunk, and across some.
const LARGE_BYTES: usize = 1000;
const PART_STEP: usize = 300;

/// Every read.
pub(super) const ALL: Touched = Touched {
    get: u64::MAX,
    forward: u64::MAX,
    backward: u64::MAX,
};

/// What came of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Refused,
    FailedReads,
    Shortened,
    Equal,
}

/// Errors that a damage explains: they name the file, say where, and what to do.
pub(super) fn explains(specimen: &Specimen, damage: &Damage, error: &Error) -> bool {
    let kind = match error.kind() {
        ErrorKind::Corruption => error.offset().is_some(),
        ErrorKind::Incompatible => true,
        // The system itself refuses.
        ErrorKind::Io => matches!(
            damage.what,
            What::Unreadable | What::Directory | What::Extra | What::Missing
        ),
        _ => false,
    };
    let named = error
        .file()
        .is_some_and(|file| blames(specimen, damage, file));
    kind && named && !error.remedy().is_empty()
}

/// Whether a damage may be reported as one of `file`. Where two files say different things and
/// nobody else can be asked, it may be either.
fn blames(specimen: &Specimen, damage: &Damage, file: &Path) -> bool {
    if name_of(file) == name_of(&damage.path) {
        return true;
    }
    match specimen.files.get(&damage.path).map(|facts| facts.kind) {
        // The manifest that it names is another one, or none.
        Some(FileKind::Current) => name_of(file).starts_with("MANIFEST"),
        // An older state of a log wants what the directory had then.
        Some(FileKind::Manifest | FileKind::Wal) => {
            !specimen.is_vouched_for(&damage.path, &damage.changed)
        }
        _ => false,
    }
}

impl<'a> Exam<'a> {
    pub(super) fn new(specimen: &'a Specimen, memory: Option<Memory>) -> Exam<'a> {
        let mut exam = Exam {
            specimen,
            memory,
            sound_peak: usize::MAX / 4,
            tally: Tally::default(),
        };
        let nothing = Damage {
            name: "nothing".to_owned(),
            what: What::Extra,
            path: Path::new(DIR).join("notes.txt"),
            changed: 0..0,
            bytes: Some(Vec::new()),
        };
        let (_, peak) = exam.measured(|exam| exam.verdict(&nothing));
        exam.sound_peak = peak;
        exam
    }

    fn measured<T>(&mut self, look: impl FnOnce(&mut Exam<'a>) -> T) -> (T, usize) {
        let Some(memory) = self.memory else {
            return (look(self), 0);
        };
        (memory.begin)();
        let found = look(self);
        (found, (memory.peak)())
    }

    /// Looks at the database with this damage. Whether it opens.
    pub(super) fn examine(&mut self, damage: &Damage) -> bool {
        let (verdict, peak) = self.measured(|exam| exam.verdict(damage));
        // A damaged file can be read whole and its section be built again; a length that lies is no
        // reason to take more.
        let file = damage.bytes.as_ref().map_or(0, Vec::len);
        // The log is as long as a memtable is large.
        let log = self.specimen.config.memtable_bytes as usize;
        let most = self.sound_peak + 8 * file + log + MEMORY_SLACK;
        assert!(peak <= most, "{peak} bytes taken, at most {most} expected");
        let tally = &mut self.tally;
        *match damage.what {
            What::Byte => &mut tally.bytes,
            What::Cut => &mut tally.cuts,
            What::Grown => &mut tally.grown,
            What::Swap => &mut tally.swaps,
            What::Foreign => &mut tally.foreign,
            What::Extra => &mut tally.extra,
            _ => &mut tally.files,
        } += 1;
        *match verdict {
            Verdict::Refused => &mut tally.refused,
            Verdict::FailedReads => &mut tally.failed_reads,
            Verdict::Shortened => &mut tally.shortened,
            Verdict::Equal => &mut tally.equal,
        } += 1;
        verdict != Verdict::Refused
    }

    fn verdict(&mut self, damage: &Damage) -> Verdict {
        let disk = self.specimen.disk.process_kill();
        damage.apply(&disk);
        let named = self.check(damage, &disk);
        let runtime = self.specimen.oracle.times.runtime(3);
        let options = self.specimen.config.options();
        let db = match Db::open_in(env(&disk, &runtime), DIR, options) {
            Ok(db) => db,
            Err(error) => {
                let why = format!("opening fails and does not say why: {error:?}");
                assert!(explains(self.specimen, damage, &error), "{why}");
                // What is in nobody's way until something is written, a check does not see.
                let must = damage.what != What::Extra;
                assert!(named || !must, "the check finds nothing, opening {error:?}");
                return Verdict::Refused;
            }
        };
        let facts = self.specimen.files.get(&damage.path);
        let verdict = match facts.map(|facts| facts.kind) {
            Some(FileKind::Wal | FileKind::Manifest) => self.log_is_cut(damage, &db),
            _ => self.reads_are_right(damage, &db),
        };
        let in_place = matches!(damage.what, What::Byte | What::Swap | What::Foreign);
        if in_place && self.specimen.is_derived_part(&damage.path, &damage.changed) {
            assert_eq!(verdict, Verdict::Equal, "what is derived was missed");
            self.tally.derived += 1;
        }
        self.must_be_named(damage, named, verdict);
        assert!(
            db.stats().job_errors.is_empty(),
            "jobs failed by themselves"
        );
        drop(db.garbage());
        verdict
    }

    /// Whether the offline check names the file; it must not blame another.
    fn check(&self, damage: &Damage, disk: &SimVfs) -> bool {
        let runtime = self.specimen.oracle.times.runtime(3);
        let is_it = |path: &Path| blames(self.specimen, damage, path);
        match Db::check_in(&env(disk, &runtime), DIR) {
            Ok(report) => {
                let wrong = report.problems.iter().find(|p| !is_it(&p.file));
                assert!(wrong.is_none(), "the check blames another file: {wrong:?}");
                !report.is_clean()
            }
            Err(error) => {
                let why = format!("the check fails and does not say why: {error:?}");
                assert!(explains(self.specimen, damage, &error), "{why}");
                true
            }
        }
    }

    /// Where something vouches for what is damaged, the check must have found it.
    fn must_be_named(&self, damage: &Damage, named: bool, verdict: Verdict) {
        let Some(facts) = self.specimen.files.get(&damage.path) else {
            assert!(!named, "the check calls a file damage that nothing lists");
            return;
        };
        let must = match facts.kind {
            _ if !facts.is_needed => false,
            FileKind::Wal | FileKind::Manifest => {
                damage.what != What::Grown
                    && self.specimen.is_vouched_for(&damage.path, &damage.changed)
            }
            _ => true,
        };
        assert!(
            named || !must,
            "the check does not name the file ({verdict:?})"
        );
        let idle = facts.kind == FileKind::Idle;
        assert!(!(idle && named), "the check cares about what means nothing");
    }

    /// A damaged log that opens has lost its end at most.
    fn log_is_cut(&self, damage: &Damage, db: &Db) -> Verdict {
        let specimen = self.specimen;
        let vouched = specimen.is_vouched_for(&damage.path, &damage.changed);
        let grown = damage.what == What::Grown;
        let matters = specimen.oracle.times.matters;
        let found = spaces::content_of(db, db, verify::scan, matters);
        let found = found.unwrap_or_else(|err| panic!("a scan fails: {err:?}"));
        let shorter = found != specimen.state;
        assert!(
            !(shorter && vouched),
            "durable writes are lost and nobody says so"
        );
        assert!(!(shorter && grown), "what stands behind a log changes it");
        // A change within the end of a log leaves the marks before it, which say what is
        // durable.
        let keeps_marks = matches!(damage.what, What::Byte | What::Grown);
        let mut oracle = match keeps_marks {
            true => specimen.oracle.clone(),
            false => specimen.history.clone(),
        };
        if let Some(twin) = specimen.whose_log(damage) {
            // The newest segment is known by its own header alone: a batch of either database may
            // be here.
            for (key, value) in &found {
                let was = |history: &Oracle| history.ever_was(key, value);
                assert!(
                    was(&specimen.history) || was(&twin.history),
                    "{}",
                    show(key)
                );
            }
            return Verdict::Shortened;
        }
        verify::content(db, &mut oracle, Ending::PowerCut);
        match shorter {
            true => Verdict::Shortened,
            false => Verdict::Equal,
        }
    }

    /// Every read gives what it gave before or, where it reads what is damaged, an error that says
    /// so.
    fn reads_are_right(&self, damage: &Damage, db: &Db) -> Verdict {
        let touched = match self.specimen.is_twofold(&damage.path, &damage.changed) {
            true => ALL,
            false => self.specimen.touched(damage),
        };
        let failed = failed_reads(self.specimen, damage, db, touched);
        match failed {
            0 => Verdict::Equal,
            _ => Verdict::FailedReads,
        }
    }
}

/// Reads everything; how many reads fail. Those alone may that are `touched`.
pub(super) fn failed_reads(specimen: &Specimen, damage: &Damage, db: &Db, touched: Touched) -> u64 {
    let mut failed = 0;
    let mut fails = |error: &Error, what: &str, may: bool| {
        assert!(
            explains(specimen, damage, error),
            "{what} fails and does not say why: {error:?}"
        );
        assert!(
            may,
            "{what} fails, and does not read what is damaged: {error:?}"
        );
        failed += 1;
    };
    for (i, key) in specimen.keys.iter().enumerate() {
        let want = specimen.state.get(key).map(|value| &value[..]);
        match db.get(key) {
            Ok(got) => {
                let (key, got_text) = (show(key), show_option(got.as_deref()));
                let want_text = show_option(want);
                assert!(
                    got.as_deref() == want,
                    "get of {key}: {got_text}, not {want_text}"
                );
            }
            Err(error) => fails(&error, "a get", touched.get >> i & 1 == 1),
        }
        parts_are_right(specimen, damage, db, (key, want));
    }
    for back in [false, true] {
        let mask = if back {
            touched.backward
        } else {
            touched.forward
        };
        each_failure_of_scans(specimen, db, back, &mut |error, at| {
            fails(error, "a scan", mask & passed_over(specimen, at) != 0);
        });
    }
    match specimen.sizes_of(db) {
        Ok((all, half)) => {
            assert_eq!(all, specimen.sizes.0, "the size of everything");
            assert!(half <= all, "the half is larger than the whole");
        }
        Err(error) => fails(&error, "an estimate", true),
    }
    failed
}

/// Reads parts of a large value. Each is right, or its damage is explained; and that only where the
/// whole value cannot be read.
fn parts_are_right(
    specimen: &Specimen,
    damage: &Damage,
    db: &Db,
    (key, want): (&[u8], Option<&[u8]>),
) {
    let Some(want) = want.filter(|want| want.len() >= LARGE_BYTES) else {
        return;
    };
    for start in (0..want.len()).step_by(PART_STEP) {
        let range = start..want.len().min(start + PART_STEP);
        match db.get_range(key, range.clone()) {
            Ok(part) => assert!(
                part.as_deref() == Some(&want[range.clone()]),
                "the part {range:?} of {}: {}",
                show(key),
                show_option(part.as_deref())
            ),
            Err(error) => {
                assert!(explains(specimen, damage, &error), "a part: {error:?}");
                assert!(db.get(key).is_err(), "a part fails alone: {error:?}");
            }
        }
    }
}

/// The keys that a scan may look at for the one with this number: it passes over those that are
/// deleted, and looks at what follows.
fn passed_over(specimen: &Specimen, at: usize) -> u64 {
    let is_there = |i: &usize| specimen.state.contains_key(&specimen.keys[*i]);
    let last = specimen.keys.len() - 1;
    let first = (0..at).rev().find(is_there).unwrap_or(0);
    let last = (at + 1..last).find(is_there).unwrap_or(last);
    (first..=last).fold(0, |keys, i| keys | 1 << i)
}

/// Scans everything, one way, beginning again after each failure. Whatever comes is right. Calls
/// back with each error and the number of the key at which it came.
fn each_failure_of_scans(
    specimen: &Specimen,
    db: &Db,
    back: bool,
    fails: &mut dyn FnMut(&Error, usize),
) {
    let keys = &specimen.keys;
    // What is left: keys from `low` to before `high`.
    let (mut low, mut high) = (0, keys.len());
    while low < high {
        let (first, last) = (&keys[low][..], &keys[high - 1][..]);
        let mut iter = db.range(first..=last);
        let failure = match back {
            false => follow(&mut iter, &specimen.state, first, last),
            true => follow_back(iter, &specimen.state, first, last),
        };
        let Some((error, next)) = failure else {
            return;
        };
        // The key that should have come, or the end of the keys that are there.
        let at = next.map(|key| keys.binary_search(&key).expect("a key that was written"));
        let at = at.unwrap_or(if back { low } else { high - 1 });
        fails(&error, at);
        if back {
            high = at;
        } else {
            low = at + 1;
        }
    }
}

/// An error, and the key that should have come in its place.
type Failure = (Error, Option<Vec<u8>>);

fn follow(iter: &mut Iter, state: &State, first: &[u8], last: &[u8]) -> Option<Failure> {
    let range = state.range::<[u8], _>(bounds(first, last));
    compare(iter, range.map(|(key, value)| (&key[..], &value[..])))
}

fn follow_back(iter: Iter, state: &State, first: &[u8], last: &[u8]) -> Option<Failure> {
    let range = state.range::<[u8], _>(bounds(first, last)).rev();
    compare(
        &mut iter.rev(),
        range.map(|(key, value)| (&key[..], &value[..])),
    )
}

fn bounds<'a>(
    first: &'a [u8],
    last: &'a [u8],
) -> (std::ops::Bound<&'a [u8]>, std::ops::Bound<&'a [u8]>) {
    use std::ops::Bound::Included;
    (Included(first), Included(last))
}

fn compare<'s>(
    got: &mut dyn Iterator<Item = unikv::Result<(unikv::Bytes, unikv::Bytes)>>,
    mut want: impl Iterator<Item = (&'s [u8], &'s [u8])>,
) -> Option<Failure> {
    loop {
        let want = want.next();
        match got.next().transpose() {
            Ok(got) => {
                let got = got.as_ref().map(|(key, value)| (&key[..], &value[..]));
                let (got_text, want_text) = (verify::show_pair(got), verify::show_pair(want));
                assert!(got == want, "a scan yields {got_text}, not {want_text}");
                got?;
            }
            Err(error) => return Some((error, want.map(|(key, _)| key.to_vec()))),
        }
    }
}
