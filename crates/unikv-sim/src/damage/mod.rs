//! The corruption matrix: small databases of every shape, and each of them damaged in every way.
//!
//! # Damages
//! In each file, at each byte: one bit flipped, 0x00, 0xFF. At each length: the file cut short there; at
//! its end: zeros and garbage. Each two sectors, pages, blocks of keys and record frames exchanged.
//! Sectors taken from other files of the kind, from the same file of another database with the same
//! layout, and from an older incarnation of the file in the same database. Whole files exchanged,
//! missing, empty, unreadable, a directory in their place. Files that nothing lists, under the names
//! that come next and under absurd ones. `LOCK` and `BALLAST` are damaged too: that must mean nothing.
//!
//! # Verdicts
//! Opening refuses with an error that names file and remedy, and the place where there is one; or the
//! database opens, and each read gives what it gave before or such an error. It may be an error only
//! where the undamaged database *reads the damaged bytes for that very read* (`specimen::Touched`):
//! so damage costs the keys that it touches, and no others. What is derived from other files or from
//! other parts of its file may cost nothing at all. The offline check names the damaged file.
//!
//! The end of a log is special: damage above the last durable mark is taken for a torn end, and what
//! opens is a prefix of the order of writes that holds everything synced. Who cuts a log takes the
//! marks away, too. What is left may be a state that the log once had; where no mark is left that says
//! more, it opens as a shorter prefix, and neither an older write nor a half one ever shows.
//!
//! # Outside the model
//! A whole directory that is rolled back to an older state of itself is that older state: nothing in
//! it can tell. So is the end of the newest log, as said above. Damage that repairs all checksums is
//! not damage but forgery.
//!
//! # Jobs
//! For a sample of the damages, the database also lives on: writes, flushes, merges, collections, and
//! scans run on the damaged files, with a snapshot held. They may fail with an error that names the file.
//! Then the file gets its bytes back, and everything must be right again, in the same process and in
//! the next.

mod exam;
mod live;
mod maker;
pub mod plan;
pub mod shapes;
pub mod specimen;

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
    }
}

/// The memory of this thread, as an allocator counts it that only a test binary can have.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Lets the peak begin anew.
    pub begin: fn(),
    /// Bytes allocated at the peak, beyond those at the beginning.
    pub peak: fn() -> usize,
}

/// How often jobs run on the damaged database: once in so many damages that let it open.
const LIVE_EVERY: u64 = 97;

/// Damages a database in every way. `UNIKV_DAMAGE` names one damage to look at alone.
pub fn explore(specimen: &Specimen, memory: Option<Memory>) -> Tally {
    let _shape = story::scope("UNIKV_SHAPE", specimen.name);
    let only = std::env::var("UNIKV_DAMAGE").ok();
    let mut exam = exam::Exam::new(specimen, memory);
    let mut opened = 0;
    plan::each(specimen, &mut |damage: &Damage| {
        if only.as_ref().is_some_and(|only| *only != damage.name) {
            return;
        }
        let _damage = story::scope("UNIKV_DAMAGE", &damage.name);
        story::place(|| {
            if exam.examine(damage) {
                opened += 1;
                if only.is_some() || opened % LIVE_EVERY == 0 {
                    live::live_on(specimen, damage, opened, &mut exam.tally);
                }
            }
        });
    });
    story::assert_none_failed();
    exam.tally
}
