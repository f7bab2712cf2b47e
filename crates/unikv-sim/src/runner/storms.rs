//! Storms: errors of the disk that come again and again by rules, with calms between.
//!
//! While one rages, writes that fail are endured, and one after the other goes on; what cannot be
//! done in it is done in a calm. Whenever too many outcomes are unknown, and at each lull, writing
//! must come back.

use super::{Interrupt, Runner, Tolerance};
use crate::history::Exit;
use crate::story;
use unikv::vfs::sim::Rule;

/// Operations that a storm lasts, and the lull after it.
const STORM_OPS: usize = 40;
const LULL_OPS: usize = 10;
/// Writes of unknown outcome that are endured. The operation that meets the last of them may add
/// some.
const MOST_ENDURED: usize = 4;

/// The storms of a run.
#[derive(Clone, Debug)]
pub struct Storms {
    rules: fn(u64) -> Vec<Rule>,
    seed: u64,
    raging: bool,
}

impl Storms {
    /// Storms whose rules are made from numbers that begin with `seed`.
    pub fn new(seed: u64, rules: fn(u64) -> Vec<Rule>) -> Storms {
        Storms {
            rules,
            seed,
            raging: false,
        }
    }
}

impl Runner {
    /// Begins a storm, if the run has any.
    pub(super) fn rage(&mut self) {
        if let Tolerance::Storms(storms) = &mut self.tolerance {
            storms.raging = true;
            storms.seed = storms.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
            let rules = (storms.rules)(storms.seed);
            story::step(format!("   a storm: {rules:?}"));
            self.vfs.set_rules(rules);
        }
    }

    /// Ends the storm.
    pub fn calm(&mut self) {
        if let Tolerance::Storms(storms) = &mut self.tolerance {
            storms.raging = false;
            self.vfs.clear_faults();
        }
    }

    pub(super) fn is_raging(&self) -> bool {
        matches!(&self.tolerance, Tolerance::Storms(storms) if storms.raging)
    }

    /// Whether a failure is left as it is, and more may come.
    pub(super) fn endures(&self) -> bool {
        self.is_raging() && self.oracle.unknowns() < MOST_ENDURED
    }

    /// A storm or a lull, as the number of the operation says; in a lull writing comes back.
    pub(super) fn change_weather(&mut self, number: usize) -> Result<(), Interrupt> {
        if !matches!(self.tolerance, Tolerance::Storms(_)) {
            return Ok(());
        }
        // The commit of a transaction that failed is not tried again, and so ends no storm.
        if self.oracle.unknowns() >= MOST_ENDURED {
            self.calm();
            self.resume()?;
            self.clear_up()?;
        }
        match number % (STORM_OPS + LULL_OPS) {
            at if at < STORM_OPS && !self.is_raging() => self.rage(),
            STORM_OPS => {
                self.calm();
                self.let_time_pass();
                self.resume()?;
                self.clear_up()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Finds out what became of writes of unknown outcome: after a power cut the disk shows it,
    /// once and for all.
    pub(super) fn clear_up(&mut self) -> Result<(), Interrupt> {
        if matches!(self.tolerance, Tolerance::Storms(_)) && self.oracle.unknowns() > 0 {
            return self.reopen(Exit::PowerCut(0), None);
        }
        Ok(())
    }
}
