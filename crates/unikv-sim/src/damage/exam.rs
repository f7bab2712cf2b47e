//! The verdict on one damaged database.

use super::plan::{Damage, What};
use super::reads::failed_reads;
use super::specimen::{FileKind, Specimen, Touched, name_of};
use super::{Memory, Tally, window};
use crate::oracle::{Ending, Oracle};
use crate::runner::{DIR, env};
use crate::spaces;
use crate::value::show;
use crate::verify;
use std::path::Path;
use unikv::vfs::sim::SimVfs;
use unikv::{Db, Error, ErrorKind};

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
        let db = match Db::open(DIR, options.env(env(&disk, &runtime))) {
            Ok(db) => db,
            Err(error) => {
                let why = format!("opening fails and does not say why: {error:?}");
                assert!(explains(self.specimen, damage, &error), "{why}");
                // What is in nobody's way until something is written, a check does not see.
                let must = damage.what != What::Extra;
                assert!(named || !must, "the check finds nothing, opening {error:?}");
                // Nothing of another database may stand there, whatever it is for.
                let is_idle = window::keeps_nothing_from(self.specimen, damage)
                    && error.kind() != ErrorKind::Incompatible;
                assert!(!is_idle, "the change window keeps from the data: {error:?}");
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
        let is_own = self.specimen.whose_log(damage).is_none();
        let is_idle = window::keeps_nothing_from(self.specimen, damage);
        assert!(
            !(is_idle && is_own) || verdict == Verdict::Equal,
            "the change window keeps from the data"
        );
        self.tally.kept += u64::from(is_idle);
        let is_shorter = verdict == Verdict::Shortened;
        self.tally.feeds_ended += window::follow(self.specimen, damage, &db, is_shorter);
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
        match env(disk, &runtime).check(DIR) {
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
                    && !self.specimen.is_past_end(&damage.path, &damage.changed)
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
        let found = spaces::whole(db, matters);
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
        let mut oracle = if keeps_marks {
            specimen.oracle.clone()
        } else {
            specimen.history.clone()
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
        if shorter {
            Verdict::Shortened
        } else {
            Verdict::Equal
        }
    }

    /// Every read gives what it gave before or, where it reads what is damaged, an error that says
    /// so.
    fn reads_are_right(&self, damage: &Damage, db: &Db) -> Verdict {
        let touched = if self.specimen.is_twofold(&damage.path, &damage.changed) {
            ALL
        } else {
            self.specimen.touched(damage)
        };
        let failed = failed_reads(self.specimen, damage, db, touched);
        match failed {
            0 => Verdict::Equal,
            _ => Verdict::FailedReads,
        }
    }
}
