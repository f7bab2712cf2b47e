//! The one place in which facts are made, and the rules as kinds of work.

use super::{Background, JobKind};
use crate::engine::background::kinds::merge;
use crate::engine::background::scheduler::Ask;
use crate::jobs::plan::facts::{Disk, HeldBack, Hints, Memtables};
use crate::jobs::plan::{FLUSH, Facts, Job, JobName, OfCatalog, Rule, Why};
use std::time::Duration;

/// A kind of work that is found by a rule.
pub(super) struct ByRule(pub(super) Rule);

impl JobKind for ByRule {
    fn name(&self) -> JobName {
        self.0.name
    }

    fn is_for_reads(&self) -> bool {
        self.0.is_for_reads
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let mut facts = background.facts();
        match self.0.of_catalog {
            OfCatalog::Nothing => {}
            OfCatalog::BlockedFlushes => background.add_blocked_flushes(&mut facts, ask),
            OfCatalog::ReadyMerges if facts.hints.are_left => {
                facts.hints.is_merge_ready = merge::ready(ask).any(|p| ask.is_free(p.id));
            }
            OfCatalog::ReadyMerges => {}
        }
        (self.0.find)(&facts, ask.filter)
    }

    fn due_in(&self, background: &Background, _: Duration) -> Option<Duration> {
        (self.0.due_in)(&background.facts())
    }
}

impl Background {
    /// What is known without a look at the catalog.
    fn facts(&self) -> Facts {
        let full = &self.space.full_disk;
        let now = self.core.now();
        Facts {
            now,
            memtables: Memtables {
                sealed: self.read.view.load().sealed.len(),
                are_blocked: false,
            },
            disk: Disk {
                is_full: full.is_full(),
                wants_freeze: full.reclaim.wants_freeze(),
            },
            note_clock_at: self.core.clock.note_at(),
            hints: Hints {
                are_left: self.warmth.is_left(),
                had_turn: self.warmth.had_turn(),
                is_merge_ready: false,
                note_at: self.note_hints_at(),
            },
            held_back: self.held_back(),
        }
    }

    /// What has failed or was given up.
    fn held_back(&self) -> Vec<HeldBack> {
        let failures = if self.core.health.has_failures() {
            self.core.health.failures()
        } else {
            Vec::new()
        };
        let failed = failures.into_iter().map(|failure| HeldBack {
            job: failure.job,
            partition: failure.partition,
            until: failure.retry_at,
        });
        failed.chain(self.scheduler.given_up()).collect()
    }

    /// Adds whether flushes wait for merges, and notes it where a worker would flush.
    fn add_blocked_flushes(&self, facts: &mut Facts, ask: &Ask<'_>) {
        if facts.memtables.sealed == 0 || !ask.allows(FLUSH, None) {
            return;
        }
        facts.memtables.are_blocked = self.catalog.flush_is_blocked(ask.catalog);
        if facts.memtables.are_blocked && ask.is_by_worker() {
            self.backpressure.note_blocked_flush();
        }
    }
}
