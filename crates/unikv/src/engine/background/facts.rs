//! The one place in which facts are made, and the rules as kinds of work.

use super::{Background, JobKind};
use crate::base::sync::atomic::Ordering;
use crate::engine::background::scheduler::Ask;
use crate::engine::catalog::CatalogState;
use crate::error::ErrorKind;
use crate::jobs::plan::facts::{
    Cause, Disk, Gone, HeldBack, Hints, Memtables, TableWishes, Vacant,
};
use crate::jobs::plan::{FLUSH, Facts, Job, JobName, OfCatalog, Rule, Why};
use crate::key_table::Wish;
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
        let mut facts = background.facts_of(ask.catalog);
        let catalog = ask.catalog;
        match self.0.of_catalog {
            OfCatalog::Nothing => {}
            OfCatalog::BlockedFlushes => background.add_blocked_flushes(&mut facts, ask),
            OfCatalog::Gone => facts.gone = background.gone(catalog),
            OfCatalog::Joins => {
                facts.memtables.are_blocked =
                    ask.is_by_worker() && background.catalog.flush_is_blocked(catalog);
                facts.gone.joins = background.joins_of_gone(catalog);
            }
        }
        (self.0.find)(&facts, ask.filter)
    }

    fn due_in(&self, background: &Background, _: Duration) -> Option<Duration> {
        (self.0.due_in)(&background.facts())
    }
}

impl Background {
    /// What is known with the catalog's lock, but for what a rule asks for.
    pub(super) fn facts_of<'a>(&self, catalog: &'a CatalogState) -> Facts<'a> {
        Facts {
            partitions: catalog.partitions(),
            leased: self.scheduler.leases.held(),
            ..self.facts()
        }
    }

    /// What is known without the catalog's lock.
    fn facts(&self) -> Facts<'static> {
        let full = &self.space.full_disk;
        let now = self.core.now();
        Facts {
            now,
            most_partition_bytes: self.space.partition_limits().data_bytes,
            merges: self.core.counters.merges.load(Ordering::Relaxed),
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
                note_at: self.note_hints_at(),
            },
            wishes: TableWishes {
                index: self.core.cache.wishes().are_any(Wish::Index),
                blocks: self.core.cache.wishes().are_any(Wish::Blocks),
            },
            held_back: self.held_back(),
            ..Facts::default()
        }
    }

    /// What has failed or was given up.
    pub(super) fn held_back(&self) -> Vec<HeldBack> {
        let failures = if self.core.health.has_failures() {
            self.core.health.failures()
        } else {
            Vec::new()
        };
        let failed = failures.into_iter().map(|failure| HeldBack {
            cause: match failure.error.kind() {
                ErrorKind::DiskFull => Cause::DiskFull,
                _ => Cause::Failed,
            },
            job: failure.job,
            partition: failure.partition,
            until: failure.retry_at,
        });
        failed.chain(self.scheduler.given_up()).collect()
    }

    /// Adds whether flushes wait for merges, and notes it where a worker would flush.
    fn add_blocked_flushes(&self, facts: &mut Facts<'_>, ask: &Ask<'_>) {
        if facts.memtables.sealed == 0 || !ask.filter.allows(facts, FLUSH, None) {
            return;
        }
        facts.memtables.are_blocked = self.catalog.flush_is_blocked(ask.catalog);
        if facts.memtables.are_blocked && ask.is_by_worker() {
            self.backpressure.note_blocked_flush();
        }
    }

    /// The partitions of keyspaces that are gone, without their joins.
    fn gone(&self, catalog: &CatalogState) -> Gone {
        let mut gone = Gone::default();
        let mut end = None;
        for partition in catalog.version.gone_partitions() {
            if !partition.is_empty() {
                gone.full.push(partition.id);
            } else if catalog.is_vacant(partition) {
                gone.vacant.push(Vacant {
                    id: partition.id,
                    follows: end == Some(partition.start.as_slice()),
                });
                end = partition.end.as_deref();
            }
        }
        gone
    }
}
