//! What is collected alone, when no merge takes it along in time (see
//! [`crate::jobs::compact::gc`]).
//!
//! One choice of victims serves many partitions ([`Round`]), and small partitions share a job.

use super::passes::pass_over;
use super::{Choices, Look, Round};
use crate::base::keys::PartitionId;
use crate::error::Error;
use crate::jobs::compact::gc::{self, Scope};
use crate::jobs::plan::{COLLECT, Facts, Filter, Pass};
use crate::jobs::space::garbage::Pressure;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::cmp::Reverse;
use std::sync::Arc;

impl Choices {
    /// Adds what of the present choice, or of a new one, can be reclaimed now.
    pub(crate) fn add_collection(
        &self,
        facts: &mut Facts<'_>,
        version: &Arc<Version>,
        filter: Filter,
    ) {
        facts.garbage.next = self.next_collection(facts, version, filter);
        if facts.garbage.next.is_some() {
            let limit = self.space.space_limit();
            let space = self.space.space_of(version, limit.horizon);
            facts.garbage.bytes = space.reclaimable_bytes();
            facts.garbage.begins_at = space.begins_at(limit, self.pressure_due());
        }
    }

    fn next_collection(
        &self,
        facts: &Facts<'_>,
        version: &Arc<Version>,
        filter: Filter,
    ) -> Option<Pass> {
        let may = |id| filter.may_take(facts, COLLECT, id);
        // While the disk is full, each pass may leave room for other victims than before.
        if filter != Filter::Worker || self.space.tight_space().is_some() {
            let (victims, partition) = self.first_collection(version, &may)?;
            return Some(pass_over(vec![partition.id], &victims));
        }
        let scope = self.due_scope(version, &may);
        let rounds = &self.collections;
        let present = rounds.present(|pressure| *pressure == scope.pressure);
        let present = present.filter(|round| still_serves(&scope, round));
        let next = |round| self.next_of_collections(&scope, &round, facts);
        // A choice made now serves: workers must find every collection that waiters find.
        let begun = || next(self.begin_collections(&scope)?);
        let pass = present.and_then(next).or_else(begun)?;
        (!pass.partitions.is_empty()).then_some(pass)
    }

    /// The same under the pressure that is due.
    fn due_scope<'a>(
        &'a self,
        version: &'a Arc<Version>,
        can_run: &'a dyn Fn(PartitionId) -> bool,
    ) -> Scope<'a> {
        self.space.scope(version, self.pressure_due(), can_run)
    }

    fn pressure_due(&self) -> Pressure {
        if self.garbage_requests.any() {
            Pressure::Riding
        } else {
            Pressure::Alone
        }
    }

    /// The next job of a choice; it is empty while others work on the rest. `None`: nothing is left
    /// that could be done.
    fn next_of_collections(
        &self,
        scope: &Scope<'_>,
        round: &Round<Pressure>,
        facts: &Facts<'_>,
    ) -> Option<Pass> {
        let version = scope.version;
        let victims = round.files_in(version, |file| !scope.left_alone.contains(file));
        let numbers = gc::numbers(&victims);
        let bytes_in = |partition: &Partition| {
            if round.is_of_files() {
                gc::bytes_in(partition, &numbers)
            } else {
                scope.obsolete_in(partition)
            }
        };
        let look = Look {
            version,
            is_free: &|id| facts.is_free(id, Filter::Worker),
            bytes_in: &bytes_in,
            cost_if_due: &|bytes, partition| {
                // A failure would cost the others of its job what has been done for them.
                let cost = if facts.has_failed(COLLECT, partition.id) {
                    u64::MAX
                } else {
                    bytes.saturating_add(partition.key_table_bytes())
                };
                (scope.can_run)(partition.id).then_some(cost)
            },
        };
        let most_bytes = self.most_together_bytes(version);
        let partitions = self.collections.next(round, most_bytes, &look)?;
        Some(pass_over(partitions, &victims))
    }

    /// Makes a new choice in the place of the present one, if anything is to be reclaimed.
    fn begin_collections(&self, scope: &Scope<'_>) -> Option<Round<Pressure>> {
        let victims = scope.victims();
        let mut found = scope.partitions_of(&victims);
        if found.is_empty() {
            self.collections.end();
            return None;
        }
        found.sort_by_key(|(gain, _)| Reverse(*gain));
        let is_of_files = found.iter().any(|(gain, _)| gain.moved_bytes > 0);
        let victims = if is_of_files { &victims[..] } else { &[] };
        let partitions = found.iter().map(|(_, partition)| partition.id);
        let round = Round::new(victims, partitions, scope.pressure);
        self.collections.begin(round.clone());
        Some(round)
    }

    /// What garbage collection is to reclaim alone, and where first, among the partitions that may
    /// be.
    pub(crate) fn first_collection<'a>(
        &'a self,
        version: &'a Arc<Version>,
        can_run: &'a dyn Fn(PartitionId) -> bool,
    ) -> Option<(Vec<Arc<RecordFile>>, &'a Arc<Partition>)> {
        let scope = self.due_scope(version, can_run);
        let victims = match self.space.tight_space() {
            None => scope.victims(),
            Some(free_bytes) => gc::victims_on_full_disk(version, free_bytes, &scope.left_alone),
        };
        let partition = scope.partition_of(&victims)?;
        Some((victims, partition))
    }

    /// What a merge takes along.
    pub(crate) fn riding_victims(&self, version: &Arc<Version>) -> Vec<Arc<RecordFile>> {
        self.space
            .scope(version, Pressure::Riding, &|_| true)
            .victims()
    }

    /// Why garbage stays that is out of bounds: what it is in could not be read.
    pub(crate) fn why_garbage_stays(&self, version: &Arc<Version>) -> Option<Error> {
        let error = self.space.why_left_alone()?;
        let is_there = self.space.has_garbage(version, Pressure::Alone);
        let is_due = self.first_collection(version, &|_| true).is_some();
        (is_there && !is_due).then_some(error)
    }
}

/// Whether a choice is still to be reclaimed, and there is room for it.
fn still_serves(scope: &Scope<'_>, round: &Round<Pressure>) -> bool {
    if !round.is_of_files() {
        return scope.is_obsolete_due();
    }
    let victims = round.files_in(scope.version, |file| !scope.left_alone.contains(file));
    let live = victims
        .iter()
        .map(|file| scope.version.live(file.meta().number).bytes);
    scope.excess() > 0 && live.sum::<u64>() <= scope.most_live_bytes()
}
