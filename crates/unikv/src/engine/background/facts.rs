//! The one place in which facts are made, and where those ask the rules that run nothing: callers
//! that wait, the account of failures, slices that give way, and a person.

use super::Background;
use crate::base::keys::PartitionId;
use crate::engine::catalog::CatalogState;
use crate::engine::stats::holders::DueJob;
use crate::error::ErrorKind;
use crate::jobs::plan::facts::{
    Cause, Disk, Garbage, Gone, HeldBack, Hints, IDLE_FOR_SCANS, Idle, Memtables, Scans,
    TableWishes, Unsettled, Vacant,
};
use crate::jobs::plan::rules::{self, cluster, freeze, merge, settle};
use crate::jobs::plan::{FLUSH, Facts, Filter, Job, JobName, OfCatalog, Rule, Why};
use crate::jobs::space::tombstones;
use crate::key_table::Wish;
use crate::options::Clustering;
use crate::version::Version;
#[cfg(any(test, debug_assertions))]
use std::collections::BTreeSet;
use std::time::Duration;

impl Background {
    /// What is known with the catalog's lock, but for what a rule asks for ([`Self::look_up`]).
    pub(super) fn facts_of<'a>(&self, catalog: &'a CatalogState) -> Facts<'a> {
        Facts {
            partitions: catalog.partitions(),
            leased: self.scheduler.leases.held(),
            ..self.facts()
        }
    }

    /// Adds what a rule goes by of the catalog.
    pub(super) fn look_up(
        &self,
        facts: &mut Facts<'_>,
        of: OfCatalog,
        catalog: &CatalogState,
        filter: Filter,
    ) {
        let version = &catalog.version;
        match of {
            OfCatalog::Nothing => {}
            OfCatalog::BlockedFlushes => self.add_blocked_flushes(facts, catalog, filter),
            OfCatalog::Unsettled if settle::may_be_due(facts, filter) => {
                self.add_unsettled(facts, catalog);
            }
            OfCatalog::Unsettled => {}
            OfCatalog::Lending => facts.lend_at = self.core.memory.lend_at(facts.now),
            OfCatalog::Gone => facts.gone = self.gone(catalog),
            OfCatalog::Joins => {
                facts.memtables.are_blocked =
                    filter == Filter::Worker && self.catalog.flush_is_blocked(catalog);
                facts.gone.joins = catalog.joins_of_gone(self.space.partition_limits());
            }
            OfCatalog::Merges => {
                facts.blocking = self.catalog.blocking_partition(catalog);
                facts.most_together_bytes = self.choices.most_together_bytes(version);
            }
            OfCatalog::Collections => self.choices.add_collection(facts, version, filter),
            OfCatalog::Tombstones if freeze::may_freeze_for_scans(facts) => {
                let many = tombstones::perhaps_many(version);
                let due = many.filter(|p| catalog.may_freeze(p) && self.counted.is_due(p));
                facts.scans.tombstones = due.map(|p| p.id).collect();
            }
            OfCatalog::Tombstones => {}
            OfCatalog::Slices => {
                facts.scans.give_way_for = self.choices.gives_way_for(facts, version);
                let is_next = cluster::to_be_merged_first(facts).is_empty();
                if is_next && cluster::may_slice(facts) {
                    facts.scans.next_slice = self.choices.next_slice(facts, version, filter);
                }
            }
            OfCatalog::Indexes => {
                facts.scans.lack_indexes = facts.clusters_when_idle() && self.lack_indexes(version);
            }
        }
    }

    /// What is known without the catalog's lock.
    fn facts(&self) -> Facts<'static> {
        let full = &self.space.full_disk;
        let now = self.core.now();
        let view = self.read.view.load();
        Facts {
            now,
            most_partition_bytes: self.space.partition_limits().data_bytes,
            merges_since_join: self.scheduler.merges_since_join(),
            memtables: Memtables {
                bytes: view.memtables().map(|it| it.table.bytes() as u64).sum(),
                sealed: view.sealed.len(),
                are_blocked: false,
            },
            disk: Disk {
                is_full: full.is_full(),
                wants_freeze: full.reclaim.wants_freeze(),
                look_at: full.look_at(),
            },
            unsettled: Unsettled {
                memtable_hides: self.space.is_worth_a_flush(&view.memtable),
                has_many_deletes: self.space.has_many_deletes(),
                may_seal: self.write.may_seal_when_idle(&view),
                ..Unsettled::default()
            },
            note_clock_at: self.core.clock.note_at(),
            hints: Hints {
                are_left: self.warmth.is_left(),
                had_turn: self.warmth.had_turn(),
                note_at: self.warmth.note_hints_at(),
            },
            idle: Idle {
                time: self.idle_time(now),
                is_asked_for: self.idle.asked.any(),
            },
            garbage: Garbage {
                look_again_in: self.space.look_again_in(),
                ..Garbage::default()
            },
            wishes: TableWishes {
                index: self.core.cache.wishes().of(Wish::Index).are_any(),
                blocks: self.core.cache.wishes().of(Wish::Blocks).are_any(),
            },
            scans: Scans {
                may_cluster: self.core.options.clustering == Clustering::Automatic,
                ..Scans::default()
            },
            held_back: self.held_back(),
            #[cfg(test)]
            chores: self.chores_due(),
            ..Facts::default()
        }
    }

    /// By what it is known when time alone makes a job of `rules` due.
    pub(super) fn facts_of_waits(&self, rules: &[Rule], now: Duration) -> Facts<'static> {
        let mut facts = self.facts();
        facts.now = now;
        facts.idle.time = self.idle_time(now);
        let is_asked = |of| rules.iter().any(|rule| rule.of_catalog == of);
        let view = self.read.view.load();
        if is_asked(OfCatalog::Tombstones) && facts.idle_in(IDLE_FOR_SCANS).is_some() {
            let many = tombstones::perhaps_many(&view.version);
            let due = many.filter(|partition| self.counted.is_due(partition));
            facts.scans.tombstones = due.map(|p| p.id).take(1).collect();
        }
        if is_asked(OfCatalog::Lending) {
            facts.lend_at = self.core.memory.lend_at(now);
        }
        if is_asked(OfCatalog::Slices) {
            facts.scans.give_way_for = self.choices.gives_way_for(&facts, &view.version);
        }
        facts
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
    fn add_blocked_flushes(&self, facts: &mut Facts<'_>, catalog: &CatalogState, filter: Filter) {
        if facts.memtables.sealed == 0 || !filter.allows(facts, FLUSH, None) {
            return;
        }
        facts.memtables.are_blocked = self.catalog.flush_is_blocked(catalog);
        if facts.memtables.are_blocked && filter == Filter::Worker {
            self.backpressure.note_blocked_flush();
        }
    }

    /// Adds what idle writers have left in generations, and of keyspaces that are gone.
    pub(super) fn add_unsettled(&self, facts: &mut Facts<'_>, catalog: &CatalogState) {
        let space = self.space.space_of(&catalog.version, self.space.horizon());
        let unsettled = &mut facts.unsettled;
        unsettled.gone_await_flush = catalog.gone_await_flush();
        unsettled.generations_hide = space.is_too_much_when_idle(self.space.space_limit(), 0);
        let hides = unsettled.generations_hide || unsettled.memtable_hides;
        unsettled.may_freeze = hides && catalog.may_freeze_any();
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

    /// Whether some tables have no pointer index, and there is room for the indexes of all.
    fn lack_indexes(&self, version: &Version) -> bool {
        let sums = version.partition_sums();
        let made_one_by_one = sums
            .pointer_index_bytes
            .saturating_add(sums.pointer_index_meanwhile);
        made_one_by_one <= self.core.cache.pointer_index_limit()
            && version.key_tables().any(|table| table.may_want_index())
    }
}

impl Background {
    /// What a rule finds.
    pub(super) fn find(
        &self,
        rule: &Rule,
        catalog: &CatalogState,
        filter: Filter,
    ) -> Option<(Job, Why)> {
        let mut facts = self.facts_of(catalog);
        self.look_up(&mut facts, rule.of_catalog, catalog, filter);
        (rule.find)(&facts, filter)
    }

    /// The first rule by which a job is due, leased partitions left aside.
    pub(crate) fn what_is_due(&self, catalog: &mut CatalogState) -> Option<&'static Rule> {
        self.note_charged(catalog);
        let mut rules = rules::all();
        rules.find(|rule| self.find(rule, catalog, Filter::Waiter).is_some())
    }

    /// The most urgent job of each rule that is due, those that run left aside, in the order in
    /// which workers take them.
    pub(crate) fn due_jobs(&self) -> Vec<DueJob> {
        let (mut all, now, held_back) = (Vec::new(), self.core.now(), self.held_back());
        for rule in rules::all() {
            let mut catalog = self.catalog.lock();
            self.note_charged(&mut catalog);
            let found = self.find(rule, &catalog, rule.listed_for);
            drop(catalog);
            let Some((job, why)) = found else {
                continue;
            };
            let of = job.partitions();
            let mut due = DueJob::new(rule.name, &of, why);
            let first = of.first().copied();
            let held = held_back.iter().filter(|held| {
                (held.job, held.partition) == (rule.name, first) && held.until > now
            });
            due.retry_in = held.map(|held| held.until.saturating_sub(now)).max();
            // Joins have two turns.
            if !all.contains(&due) {
                all.push(due);
            }
        }
        all
    }

    /// Whether a merge could be run now if nobody held the partitions `held`.
    pub(crate) fn is_merge_due(&self, held: &[PartitionId]) -> bool {
        let catalog = self.catalog.lock();
        let mut facts = self.facts_of(&catalog);
        facts.leased.retain(|id| !held.contains(id));
        merge::ready(&facts, Filter::Worker).next().is_some()
    }

    /// Whether a collection could be run now if nobody held the partitions `held`.
    pub(crate) fn is_collection_due(&self, held: &[PartitionId]) -> bool {
        let catalog = self.catalog.lock();
        let mut facts = self.facts_of(&catalog);
        facts.leased.retain(|id| !held.contains(id));
        let of = OfCatalog::Collections;
        self.look_up(&mut facts, of, &catalog, Filter::Worker);
        facts.garbage.next.is_some()
    }

    /// Whether the job of a failure is still due.
    pub(crate) fn is_still_due(
        &self,
        catalog: &CatalogState,
        name: JobName,
        of: Option<PartitionId>,
    ) -> bool {
        let mut rules = rules::all().filter(|rule| rule.name == name);
        rules.any(|rule| self.find(rule, catalog, Filter::Failure(of)).is_some())
    }

    /// How long from `now` until a job of `rules` may be due that failed, was given up or waits for
    /// its time.
    pub(crate) fn retry_in(&self, rules: &[Rule], now: Duration) -> Option<Duration> {
        let is_of = |name| rules.iter().any(|rule| rule.name == name);
        let backoff = self.core.health.backoff_left(is_of, now);
        let given_up = self.scheduler.left_alone_for(now);
        let facts = self.facts_of_waits(rules, now);
        let due = rules.iter().filter_map(|rule| (rule.due_in)(&facts));
        // What is due now and could not be chosen becomes free with a notification.
        let later = due.filter(|rest| !rest.is_zero());
        backoff.into_iter().chain(given_up).chain(later).min()
    }

    /// Whether the facts have every partition in which something is due: by the figures, and by a
    /// walk over all partitions. What is left out, nothing would ever ask for again.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_facts(&self, catalog: &CatalogState) -> Result<(), String> {
        catalog.check_figures()?;
        let many = tombstones::perhaps_many(&catalog.version);
        let found: BTreeSet<_> = many.map(|p| p.id).collect();
        let mut due = catalog.version.partitions().iter();
        match due.find(|p| self.counted.is_due(p) && !found.contains(&p.id)) {
            Some(missed) => Err(format!(
                "counting tombstones of {:?} is not found",
                missed.id
            )),
            None => Ok(()),
        }
    }
}
