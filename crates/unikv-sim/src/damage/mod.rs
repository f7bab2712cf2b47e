//! The corruption matrix: small databases of every shape, and each of them damaged in every way.
//!
//! # Damages
//! In each file, at each byte: one bit flipped, 0x00, 0xFF. At each length: the file cut short
//! there; at its end: zeros and garbage. Each two sectors, pages, blocks of keys, record frames and
//! records of a log exchanged. Pieces of these kinds, and the sections of a table, of every other
//! file of the form put over each own piece of the kind: of files of the same database, of the same
//! file of another database with the same layout and other values, and of an older incarnation of
//! the file in the same database. Where that makes very many pairs, a fixed stride takes some
//! (`exchange`). Whole files exchanged, missing, empty, unreadable, a directory in their place.
//! Files that nothing lists, under the names that come next and under absurd ones. `LOCK` and
//! `BALLAST` are damaged too: that must mean nothing.
//!
//! # Verdicts
//! Opening refuses with an error that names file and remedy, and the place where there is one; or
//! the database opens, and each read gives what it gave before or such an error. It may be an error
//! only where the undamaged database *reads the damaged bytes for that very read*
//! (`specimen::Touched`): so damage costs the keys that it touches, and no others. What is derived
//! from other files or from other parts of its file may cost nothing at all. The offline check
//! names the damaged file.
//!
//! All of this holds for each keyspace. What the oracle knows of them are keys as well, that a
//! keyspace is there among them (`spaces`); no value of one shows in another, or in a later one of
//! the same name.
//!
//! The end of a log is special: damage above the last durable mark is taken for a torn end, and
//! what opens is a prefix of the order of writes that holds everything synced. Who cuts a log takes
//! the marks away, too. What is left may be a state that the log once had; where no mark is left
//! that says more, it opens as a shorter prefix, and neither an older write nor a half one ever
//! shows.
//!
//! # Outside the model
//! A whole directory that is rolled back to an older state of itself is that older state: nothing
//! in it can say. So is the end of the newest log, as said above: when the newest segment is
//! missing or cut, the writes in it are gone, synced ones as well, and nobody says so. The newest
//! segment is known by its own header alone, so that of a copy of the database which lived on by
//! itself is taken for the own one. Damage that repairs all checksums is not damage but forgery.
//!
//! # The change window
//! What only those need that follow the changes may keep nobody from the data: a database with a
//! damaged segment or large value of the window opens with all that it had. From each token its
//! feed shows the changes that it showed before, in their order, to the last one or to an error
//! that says why there are no more (`window`).
//!
//! # Jobs
//! One in `LIVE_EVERY` of the damages that change bytes of record files and key tables in place,
//! and let the database open, it also lives on with: writes, flushes, merges, collections, and
//! scans run on the damaged files, with a snapshot held. They may fail with an error that names the
//! file. Then the file gets its bytes back, and everything must be right again, in the same process
//! and in the next. The other files are made again by an opening, or read by it alone.
//!
//! # Repairs
//! For one in some fifty damages of bytes, and every other one of whole files, the database is
//! repaired as well: keys whose reads do not meet the damage are saved as they were, no value comes
//! back that its key never had, and what is missing or old is reported (`rescue`). A keyspace that
//! is known by its number alone is reported as such, and all that it holds is in doubt.

mod exam;
mod exchange;
mod live;
mod maker;
mod meaning;
mod pieces;
pub mod plan;
mod reads;
mod rescue;
pub mod shapes;
pub mod specimen;
mod window;

use crate::story;
use plan::Damage;
use specimen::Specimen;
use std::ops::AddAssign;

/// What was looked at, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes changed: one bit flipped, 0x00, 0xFF.
    pub bytes: u64,
    /// Files cut short.
    pub cuts: u64,
    /// Files that have grown.
    pub grown: u64,
    /// Pieces of a file exchanged.
    pub swaps: u64,
    /// Pieces from other files, databases and times.
    pub foreign: u64,
    /// Files exchanged, missing, unreadable, or directories.
    pub files: u64,
    /// Files that nothing lists.
    pub extra: u64,
    /// How many of these damages made the database refuse to open.
    pub refused: u64,
    /// How many made some read fail.
    pub failed_reads: u64,
    /// How many made a log end early.
    pub shortened: u64,
    /// How many changed no answer at all.
    pub equal: u64,
    /// Damages of derived parts, which changed no answer: among `equal`.
    pub derived: u64,
    /// How many of the damages jobs ran upon.
    pub live: u64,
    /// Jobs and calls that failed there.
    pub live_failures: u64,
    /// How many of the damaged databases were repaired.
    pub repairs: u64,
    /// How many of these repairs lost something.
    pub lossy_repairs: u64,
    /// Repairs that were refused.
    pub refused_repairs: u64,
    /// Damages of files that the change window alone needs, or nothing.
    pub kept: u64,
    /// How often the change feed ended early.
    pub feeds_ended: u64,
}

impl Tally {
    /// All damages.
    pub fn damages(&self) -> u64 {
        self.bytes + self.cuts + self.grown + self.swaps + self.foreign + self.files + self.extra
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.bytes += other.bytes;
        self.cuts += other.cuts;
        self.grown += other.grown;
        self.swaps += other.swaps;
        self.foreign += other.foreign;
        self.files += other.files;
        self.extra += other.extra;
        self.refused += other.refused;
        self.failed_reads += other.failed_reads;
        self.shortened += other.shortened;
        self.equal += other.equal;
        self.derived += other.derived;
        self.live += other.live;
        self.live_failures += other.live_failures;
        self.repairs += other.repairs;
        self.lossy_repairs += other.lossy_repairs;
        self.refused_repairs += other.refused_repairs;
        self.kept += other.kept;
        self.feeds_ended += other.feeds_ended;
    }
}

/// The memory of this thread, as an allocator counts it that only a test binary can have.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Lets the peak begin again.
    pub begin: fn(),
    /// Bytes allocated at the peak, beyond those at the beginning.
    pub peak: fn() -> usize,
}

/// How often jobs run on the damaged database: once in this many damages that they can meet.
const LIVE_EVERY: u64 = 37;

/// Damages a database in every way. `UNIKV_DAMAGE` names one damage to look at alone.
pub fn explore(specimen: &Specimen, memory: Option<Memory>) -> Tally {
    let _shape = story::scope("UNIKV_SHAPE", specimen.name);
    let only = std::env::var("UNIKV_DAMAGE").ok();
    let mut exam = exam::Exam::new(specimen, memory);
    let rescue = rescue::Rescue::new(specimen);
    let (mut number, mut worked) = (0, 0);
    plan::each(specimen, &mut |damage: &Damage| {
        if only.as_ref().is_some_and(|only| *only != damage.name) {
            return;
        }
        number += 1;
        let _damage = story::scope("UNIKV_DAMAGE", &damage.name);
        story::place(|| {
            if exam.examine(damage) && live::can_work(specimen, damage) {
                worked += 1;
                if only.is_some() || worked % LIVE_EVERY == 0 {
                    live::live_on(specimen, damage, worked, &mut exam.tally);
                }
            }
            if only.is_some() || rescue::is_sampled(damage, number) {
                rescue.repair(damage, &mut exam.tally);
            }
        });
    });
    story::assert_none_failed();
    exam.tally
}
