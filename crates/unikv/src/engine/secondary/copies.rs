//! Checkpoints and backups of what a secondary shows: made beside a writer, which neither takes
//! part nor waits.
//!
//! # Invariants
//! - They are made of one state, whose files are open. Whatever becomes of their names, and of the
//!   writer, the copy is the state.
//! - Nothing of the copy is the writer's but data files, which never change. The log is written
//!   from the memtables of the state, up to its number.
//! - Numbers of files that the copy alone has are above all that it lists. The writer may use them,
//!   too: from its first opening on the copy goes its own way.
//!
//! No locks: `progress` is not held, so refreshes go on meanwhile.

use super::Follow;
use super::shared::Shown;
use crate::base::keys::FileNumber;
use crate::base::seeded::seeded;
use crate::engine::checkpoint::{self, Checkpoint, Log, Numbers, Pinned, Wanted};
use crate::engine::core::Core;
use crate::error::Result;
use crate::partition::{MemtableHandle, View};
use std::path::Path;
use std::sync::Arc;

impl Follow {
    /// What all its states have in common with an open database.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.shared.core
    }

    /// Makes a checkpoint of what `shown` is, in `dir`, which is not there yet.
    pub(crate) fn checkpoint(&self, shown: &Shown, dir: &Path) -> Result<Checkpoint> {
        checkpoint::create(self.core(), dir, || Ok(self.pin(shown)))
    }

    /// What `shown` is, as files.
    pub(crate) fn pin(&self, shown: &Shown) -> Pinned<'_> {
        let view = shown.read.view.load_full();
        let last = last_number(&view);
        let numbers = Numbers {
            manifest: FileNumber(last + 2),
            next_file: last + 3,
            edits_before: 0,
        };
        let mut memtables: Vec<MemtableHandle> = view.memtables().cloned().collect();
        memtables.reverse();
        let flushed = view.version.counters.flushed_seq;
        let tagged = shown.commit_tag_in_memory.clone();
        let wanted = Wanted {
            memtables,
            numbers: (flushed, shown.seq),
            commit_tag: tagged.filter(|(at, _)| *at > flushed && !seeded!(SecondaryCopiesNoMark)),
        };
        let log = Log::Read(wanted, FileNumber(last + 1));
        let tagged = (shown.seq, shown.commit_tag.clone());
        Pinned::new(self.core(), &view, tagged, numbers, log)
    }
}

/// The greatest number of a file that `view` knows of.
fn last_number(view: &View) -> u64 {
    let version = &view.version;
    let large = view.memtables().flat_map(|memtable| memtable.large.all());
    let records = version.record_files().iter().cloned().chain(large);
    let records = records.map(|file| file.meta().number);
    let of_runs = version.scan_runs().flat_map(|run| run.tables());
    let tables = version.key_tables().chain(of_runs);
    let tables = tables.map(|table| table.meta().number);
    let segments = view.memtables().map(|memtable| memtable.wal);
    let counted = [version.counters.wal_low_water].into_iter();
    let all = records.chain(tables).chain(segments).chain(counted);
    let last = all.map(|number| number.0).max().unwrap_or_default();
    last.max(version.counters.next_file)
}

#[cfg(test)]
mod tests;
