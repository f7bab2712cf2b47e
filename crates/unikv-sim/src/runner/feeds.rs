//! Copies that follow the changes of the database, beside the run: see [`crate::feed`].

use super::{Interrupt, PATIENCE, Runner, Tolerance};
use crate::feed::{self, Copy, Followed};
use crate::history::Op;
use crate::oracle::Ending;
use crate::story;
use std::sync::Arc;
use unikv::{Changes, Db};

/// A copy follows after one operation in this many.
const OFTEN: u64 = 4;
/// In one of this many turns all that it holds is compared, which costs a scan of everything.
const TURNS_COMPARED: u64 = 4;

impl Runner {
    /// Has copies follow the changes after `op`, if it is their turn.
    pub(super) fn let_changes_follow(
        &mut self,
        op: &Op,
        has_failed: bool,
    ) -> Result<(), Interrupt> {
        // In storms of errors nobody follows.
        let is_stormy = matches!(self.tolerance, Tolerance::Storms(_));
        if is_stormy || self.config.change_window_bytes == 0 || feed::is_off(self.db()) {
            return Ok(());
        }
        let draw = (self.seed ^ (self.step as u64) << 20).wrapping_mul(0xd134_2543_de82_ef95) >> 33;
        let flushes = matches!(op, Op::Flush | Op::Compact);
        let all_flushed = flushes && !has_failed && self.oracle.unknowns() == 0;
        let (eager, durable) = (draw.is_multiple_of(OFTEN), draw % OFTEN == 1);
        if eager {
            self.eager_follows((draw / OFTEN).is_multiple_of(TURNS_COMPARED) || all_flushed)?;
        }
        if durable || all_flushed {
            self.durable_follows(all_flushed)?;
        }
        match draw / OFTEN % 12 {
            0 if self.feeds.late.is_none() => self.feeds.late = self.feeds.durable.clone(),
            1 | 2 if eager => self.late_follows()?,
            _ => {}
        }
        self.report(None);
        Ok(())
    }

    fn eager_follows(&mut self, compares: bool) -> Result<(), Interrupt> {
        let with_expiries = self.oracle.times.matters;
        let Some(mut copy) = self.feeds.eager.take() else {
            let begun = self.tried(|db, _| Copy::begin(db, true, with_expiries))?;
            self.feeds.eager = begun.map(Arc::new);
            return Ok(());
        };
        let mut held = self.held_changes.take();
        let followed = self.follows(Arc::make_mut(&mut copy), &mut held)?;
        self.held_changes = held;
        if let Some(Followed::On(_)) = followed {
            if compares {
                let what = "a copy that sees all changes";
                self.note_time();
                let times = self.oracle.times.clone();
                self.tried(|db, _| copy.assert_same(what, db, &times))?;
            }
            self.feeds.eager = Some(copy);
        }
        Ok(())
    }

    fn durable_follows(&mut self, all_flushed: bool) -> Result<(), Interrupt> {
        let with_expiries = self.oracle.times.matters;
        let Some(mut copy) = self.feeds.durable.take() else {
            // All that it begins with is to be durable.
            if all_flushed {
                let begun = self.tried(|db, _| Copy::begin(db, false, with_expiries))?;
                self.feeds.durable = begun.map(Arc::new);
            }
            return Ok(());
        };
        let followed = self.follows(Arc::make_mut(&mut copy), &mut None)?;
        if let Some(Followed::On(_)) = followed {
            if all_flushed {
                let what = "a copy that sees durable changes";
                self.note_time();
                let times = self.oracle.times.clone();
                self.tried(|db, _| copy.assert_same(what, db, &times))?;
            }
            self.feeds.durable = self.kept_durably(copy)?;
        }
        Ok(())
    }

    fn late_follows(&mut self) -> Result<(), Interrupt> {
        let Some(mut copy) = self.feeds.late.take() else {
            return Ok(());
        };
        Arc::make_mut(&mut copy).unsynced = true;
        let followed = self.follows(Arc::make_mut(&mut copy), &mut None)?;
        match followed {
            Some(Followed::On(_)) => {
                let what = "a copy that follows late";
                self.note_time();
                let times = self.oracle.times.clone();
                self.tried(|db, _| copy.assert_same(what, db, &times))?;
            }
            Some(Followed::Gone) => self.coverage.histories_gone += 1,
            None => {}
        }
        Ok(())
    }

    /// What it has read of ingested ranges is made durable before it is kept.
    fn kept_durably(&mut self, mut copy: Arc<Copy>) -> Result<Option<Arc<Copy>>, Interrupt> {
        if copy.is_ahead {
            self.maintain("sync", Db::sync, true)?;
            // If it fails, the next turn reads on, and then it is tried again.
            let is_durable = self.oracle.unknowns() == 0;
            Arc::make_mut(&mut copy).is_ahead = !is_durable;
        }
        Ok(Some(copy))
    }

    fn follows(
        &mut self,
        copy: &mut Copy,
        held: &mut Option<Changes>,
    ) -> Result<Option<Followed>, Interrupt> {
        let (with_expiries, was_cut) = (self.oracle.times.matters, self.feeds.was_cut);
        let followed = self.tried(|db, _| copy.follow(db, held, with_expiries, was_cut))?;
        if let Some(Followed::On(changes)) = followed {
            self.coverage.changes += changes;
        }
        Ok(followed)
    }

    /// A call that only reads, again where a read of the disk fails. `None`: it fails on and on.
    fn tried<T>(
        &mut self,
        mut call: impl FnMut(&Db, usize) -> unikv::Result<T>,
    ) -> Result<Option<T>, Interrupt> {
        for tried in 0..PATIENCE {
            let result = call(self.db(), tried);
            match self.must("the change feed", result) {
                Err(Interrupt::ReadFailed) => story::step("   once more".to_owned()),
                done => return done.map(Some),
            }
        }
        Ok(None)
    }

    /// The database has been opened again: it takes the tokens that it has given, or says that what
    /// comes after them is gone.
    pub(super) fn changes_go_on(&mut self, ending: Ending) -> Result<(), Interrupt> {
        self.feeds.was_cut |= ending == Ending::PowerCut;
        if feed::is_off(self.db()) {
            for copy in self.feeds.all_mut().flatten() {
                Arc::make_mut(copy).is_forgotten = true;
            }
            return Ok(());
        }
        let (times, feeds) = (self.oracle.times.clone(), self.feeds.clone());
        let held = self.tried(|db, _| feeds.verify(db, &times, ending))?;
        self.coverage.tokens_held += held.unwrap_or(0);
        // Where it has seen what is gone, it begins again.
        let was_cut = self.feeds.was_cut;
        let is_lost = |copy: &Arc<Copy>| copy.is_forgotten || copy.is_ahead && was_cut;
        for copy in self.feeds.all_mut() {
            if copy.as_ref().is_some_and(is_lost) {
                *copy = None;
            }
        }
        Ok(())
    }
}
