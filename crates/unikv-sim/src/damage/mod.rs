//! The corruption matrix: small databases of every shape, and each of them damaged in every way.
//! `docs/testing.md`, "Explorers", lists the damages, the verdicts and what is outside the model.
//!
//! Invariants:
//! - A read gives what it gave before, or an error that names file and remedy. It may be an error
//!   only where the undamaged database reads the damaged bytes for that very read
//!   (`specimen::Touched`). Damage of what is derived costs nothing. This holds for each keyspace.
//! - Damage above the last durable point of a log is a torn end: what opens is a prefix of the
//!   order of writes with everything synced.
//! - Damage of what the change window alone keeps costs no data (`window`).

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
