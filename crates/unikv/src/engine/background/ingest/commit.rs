//! What an ingest waits for, and its commit.

use super::Ingest;
use crate::base::keys::{GenerationId, KEYSPACE_PREFIX_LEN, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::health::MERGE;
use crate::engine::write::Commit;
use crate::error::{Error, Result};
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::ingest::IngestPlan;
use crate::version::Partition;
use crate::version::edit::history::{ChangeKind, History, LoggedChange};
use crate::version::edit::{TablePlace, VersionEdit};

/// Whether a partition can take the generation of an ingest, and one for flushes after it.
fn can_take(partition: &Partition) -> bool {
    partition.generations.len() + 2 <= MAX_GENERATIONS
}

impl Ingest<'_> {
    /// Brings everything written into tables, while the commit lock keeps more from coming.
    pub(super) fn empty_memtables(&self, commit: &mut Commit) -> Result<()> {
        if self.background.core.health.is_suspended() {
            self.background.write.resume(commit)?;
        }
        if !commit.memtable.table.is_empty() {
            self.background.write.wait_for_flushes(true)?;
            self.background.write.seal(commit)?;
        }
        let flushed = || self.background.read.view.load().sealed.is_empty();
        self.background
            .core
            .wait_while(flushed, || self.background.write.check_flushes())
    }

    /// Whether each partition that the ingest meets can take it, and flushes need not wait.
    pub(super) fn has_room(&self, catalog: &CatalogState, plan: &IngestPlan) -> bool {
        let mut partitions = plan.partitions(&catalog.version);
        partitions.all(|p| can_take(p)) && !self.background.catalog.flush_is_blocked(catalog)
    }

    /// Refuses to wait for room while what would make it is failing: a flush, a merge for which
    /// flushes wait, or the merge of a partition that the ingest meets.
    pub(super) fn check_room(&self, plan: &IngestPlan) -> Result<()> {
        self.background.write.check_flushes()?;
        if !self.background.core.health.has_failures() {
            return Ok(());
        }
        let catalog = self.background.catalog.lock();
        let mut partitions = plan.partitions(&catalog.version);
        let failed = partitions.find_map(|p| {
            let failure = || self.background.core.health.failure(MERGE, Some(p.id));
            (!can_take(p)).then(failure).flatten()
        });
        failed.map_or(Ok(()), |failure| Err(failure.error))
    }

    /// What those that follow the changes see of it: of each keyspace, which range it has replaced.
    fn for_feed(
        &self,
        plan: &IngestPlan,
        first: SeqNo,
        commit_tag: Option<Vec<u8>>,
    ) -> Option<Box<History>> {
        let user = |key: &[u8]| key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default().to_vec();
        let parts = (first.0..).map(SeqNo).zip(plan.keyspaces());
        let mut changes: Vec<_> = parts
            .map(|(seq, (keyspace, least, greatest))| LoggedChange {
                seq,
                kind: ChangeKind::Ingest,
                keyspace: keyspace.0,
                keys: Some((user(least), user(greatest))),
                ..LoggedChange::default()
            })
            .collect();
        changes.last_mut()?.commit_tag = commit_tag;
        self.background.write.later(changes)
    }

    /// Gives the ingest its numbers, one for each keyspace, and commits it. There is no memtable
    /// with an entry.
    pub(super) fn commit_ingest(
        &self,
        commit: &mut Commit,
        catalog: &mut CatalogState,
        plan: &IngestPlan,
        commit_tag: Option<Vec<u8>>,
    ) -> Result<()> {
        let first = SeqNo(commit.last_seq.0 + 1);
        let seq = SeqNo(commit.last_seq.0 + plan.keyspaces().len().max(1) as u64);
        if seq >= SeqNo::MAX {
            let what = "the database has used up its 2^56 sequence numbers";
            return Err(Error::invalid(what, "copy it into a new database"));
        }
        // From here on the number may be in the manifest: it is never given again.
        commit.last_seq = seq;
        let last_generation = &catalog.last_generation;
        let generation = GenerationId(last_generation.fetch_add(1, Ordering::Relaxed) + 1);
        let later = self.for_feed(plan, first, commit_tag.clone());
        let low_water = self.background.write.low_water_of_nothing(commit);
        if low_water.is_some() {
            self.background.write.sync_for_window();
        }
        let edit = VersionEdit {
            last_seq: Some(seq),
            commit_tag,
            record_files: plan.metas(first),
            tables: plan.places(&catalog.version, generation),
            wal_low_water: low_water,
            later,
            ..VersionEdit::default()
        };
        let places = edit.tables.clone();
        let committed =
            self.background
                .catalog
                .commit_edit(catalog, edit, &Indexes::new(), |view| {
                    view.memtable.wal = low_water.unwrap_or(view.memtable.wal);
                });
        // An error may come when the edit is in force: from what is done after it.
        if catalog.version.counters.flushed_seq == seq {
            let ended = |_: &&TablePlace| !seeded!(IngestKeepsTargets);
            for place in places.iter().filter(ended) {
                catalog.end_target(place.partition);
            }
            // The view first: a reader that sees the number finds the tables.
            self.background.write.recent.not_in_memtables(seq);
            self.background.read.publish_unlogged_seq(seq);
            self.background.write.note_edit(commit, low_water);
        }
        committed
    }
}
