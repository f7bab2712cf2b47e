//! A position in the whole of a view: partitions in key order, in each the merge of memtables,
//! UnsortedStore tables and SortedStore (paper §III-F).
//!
//! Memtables span all partitions; a partition's merge is bounded by the partition's range, and the
//! next one takes over at its end.

use super::cursor::{Cursor, RunCursor};
use super::merging::MergingCursor;
use super::scan_sources::{self, AccessCost};
use super::view::View;
use crate::base::keys::{PartitionId, SeqNo};
use crate::base::seeded::slip;
use crate::error::Result;
use crate::key_table::KeyEntry;
use crate::partition::hidden::around::{HiddenAround, Newest, has_ranges};
use crate::version::{Generation, Partition};
use crate::vfs::Access;
use crate::vfs::clock::Clock;
use std::sync::Arc;

/// A position among all versions of all keys of a view, in internal order.
pub(crate) struct ViewCursor {
    view: Arc<View>,
    /// The partition that `merge` reads.
    at: usize,
    merge: Option<MergingCursor>,
    /// How many scan runs `merge` reads or could read.
    sound_runs: usize,
    access_cost: AccessCost,
    /// The partitions in which a merge has become worth its cost since the last account.
    charged: Vec<PartitionId>,
    /// Where there are range tombstones: what is hidden.
    hidden: Option<HiddenAround>,
}

impl ViewCursor {
    pub(crate) fn new(view: Arc<View>) -> ViewCursor {
        ViewCursor {
            view,
            at: 0,
            merge: None,
            sound_runs: 0,
            access_cost: AccessCost::default(),
            charged: Vec::new(),
            hidden: None,
        }
    }

    /// Accounts for what the cursor has done since. Says where a merge of a generation's keys has
    /// become worth its cost.
    pub(crate) fn settle(&mut self) -> Vec<PartitionId> {
        self.settle_here();
        std::mem::take(&mut self.charged)
    }

    fn settle_here(&mut self) {
        if let Some(partition) = self.view.version.partitions().get(self.at) {
            self.charged.extend(self.access_cost.settle(partition));
        }
    }

    /// Whether damage was met in a scan run since this cursor came into its partition: another one
    /// would do without that run.
    pub(crate) fn has_lost_run(&self) -> bool {
        let partition = self.partition();
        partition.is_some_and(|partition| scan_sources::sound_runs(partition) < self.sound_runs)
    }

    /// Moves to the first entry at or after (key, seq); then go on with [`Self::next`].
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.view.version.partition_index(key);
        self.enter(at, |merge| merge.seek(key, seq))?;
        self.skip_forward()
    }

    /// Moves to the last entry before (key, seq); then go on with [`Self::prev`].
    pub(crate) fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.view.version.partition_index(key);
        self.enter(at, |merge| merge.seek_before(key, seq))?;
        self.skip_backward()
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        self.access_cost.step();
        if let Some(merge) = &mut self.merge {
            merge.next()?;
        }
        self.skip_forward()
    }

    pub(crate) fn prev(&mut self) -> Result<()> {
        self.access_cost.step();
        if let Some(merge) = &mut self.merge {
            merge.prev()?;
        }
        self.skip_backward()
    }

    /// Whether range tombstones may hide something here.
    #[inline(always)]
    pub(crate) fn may_hide(&self) -> bool {
        self.hidden.is_some()
    }

    /// Whether range tombstones hide an entry at the position from who sees `snapshot`.
    #[cold]
    pub(crate) fn hides(&self, entry: &KeyEntry<'_>, snapshot: SeqNo) -> Result<bool> {
        let (Some(hidden), Some(merge)) = (&self.hidden, &self.merge) else {
            return Ok(false);
        };
        match self.partition() {
            Some(partition) if !hidden.is_clear(merge, snapshot) => {
                hidden.hides(&self.view, partition, merge, entry, snapshot)
            }
            _ => Ok(false),
        }
    }

    /// Goes on, past many keys at once where many in a row have been hidden.
    #[inline]
    pub(crate) fn next_visible(&mut self) -> Result<()> {
        self.next()?;
        if self.may_hide() {
            self.skip_hidden()
        } else {
            Ok(())
        }
    }

    /// Going back, moves past many keys at once where many in a row have been hidden.
    #[cold]
    pub(crate) fn skip_hidden_back(&mut self) -> Result<()> {
        if self.skip_wide()? {
            self.skip_backward()
        } else {
            Ok(())
        }
    }

    #[cold]
    fn skip_hidden(&mut self) -> Result<()> {
        if self.skip_wide()? {
            self.skip_forward()
        } else {
            Ok(())
        }
    }

    /// Moves past many keys if many in a row have been hidden; whether it did.
    fn skip_wide(&mut self) -> Result<bool> {
        let partition = self.view.version.partitions().get(self.at);
        match (&self.hidden, &mut self.merge, partition) {
            (Some(hidden), Some(merge), Some(partition)) if hidden.is_wide() => {
                self.access_cost.seek();
                hidden.skip(merge, partition)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The view that it reads.
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The entry at the position.
    pub(crate) fn entry(&self) -> Option<KeyEntry<'_>> {
        self.merge.as_ref()?.entry()
    }

    /// The time of the database.
    pub(crate) fn clock(&self) -> &Clock {
        &self.view.clock
    }

    /// Memory of the position, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.merge.as_ref().map_or(0, MergingCursor::memory_bytes)
    }

    fn partition(&self) -> Option<&Arc<Partition>> {
        self.view.version.partitions().get(self.at)
    }

    fn skip_forward(&mut self) -> Result<()> {
        while let (Some(merge), Some(partition)) = (&self.merge, self.partition()) {
            let next = self.at + 1;
            let Some(after) = self.view.version.partitions().get(next) else {
                return Ok(());
            };
            let inside = match (merge.entry(), &partition.end) {
                (Some(entry), Some(end)) => entry.key < end.as_slice(),
                (entry, _) => entry.is_some(),
            };
            if inside {
                return Ok(());
            }
            let start = after.start.clone();
            self.enter(next, |merge| merge.seek(&start, SeqNo::MAX))?;
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while let (Some(merge), Some(partition)) = (&self.merge, self.partition()) {
            let start = partition.start.as_slice();
            let inside = merge
                .entry()
                .is_some_and(|e| slip!(FirstKeyPassedBack, e.key > start, e.key >= start));
            let Some(before) = self.at.checked_sub(1) else {
                return Ok(());
            };
            if inside {
                return Ok(());
            }
            let end = partition.start.clone();
            self.enter(before, |merge| merge.seek_before(&end, SeqNo::MAX))?;
        }
        Ok(())
    }

    fn enter(&mut self, at: usize, go: impl Fn(&mut MergingCursor) -> Result<()>) -> Result<()> {
        if self.merge.is_none() || self.at != at {
            self.settle_here();
            self.merge = None;
            self.at = at;
        }
        let Some(partition) = self.view.version.partitions().get(at) else {
            return Ok(());
        };
        self.access_cost.seek();
        if let Some(hidden) = &self.hidden {
            hidden.leave_block();
        }
        loop {
            let merge = match &mut self.merge {
                Some(merge) => merge,
                None => {
                    self.sound_runs = scan_sources::sound_runs(partition);
                    self.access_cost.set_sources(partition);
                    let Sources { cursors, newest } = sources(&self.view, partition)?;
                    self.hidden = newest.map(HiddenAround::new);
                    self.merge.insert(MergingCursor::new(cursors))
                }
            };
            let went = go(merge);
            if went.is_ok() || scan_sources::sound_runs(partition) == self.sound_runs {
                return went;
            }
            // A scan run is damaged: the key sections hold the same.
            self.merge = None;
        }
    }
}

/// The sources of a partition, newest first.
struct Sources {
    cursors: Vec<Cursor>,
    /// How new each can be, where there are range tombstones.
    newest: Option<Vec<Newest>>,
}

impl Sources {
    fn add(&mut self, cursor: Cursor, newest: Newest) {
        self.cursors.push(cursor);
        if let Some(all) = &mut self.newest {
            all.push(newest);
        }
    }
}

fn sources(view: &View, partition: &Arc<Partition>) -> Result<Sources> {
    // Room for no more than there are: one piece of a common size.
    let tables: usize = partition
        .generations
        .iter()
        .map(Generation::scan_sources)
        .sum();
    let mut sources = Sources {
        cursors: Vec::with_capacity(1 + view.sealed.len() + tables + 1),
        newest: has_ranges(view, partition).then(Vec::new),
    };
    if view.memtable.table.has_entries() {
        // More may come.
        let memtable = Cursor::Memtable(view.memtable.table.iter());
        sources.add(memtable, Newest::Is(SeqNo::MAX));
    }
    for handle in view
        .sealed
        .iter()
        .filter(|handle| handle.table.has_entries())
    {
        let memtable = Cursor::Memtable(handle.table.iter());
        let newest = handle.table.max_seq().unwrap_or(SeqNo::MAX);
        sources.add(memtable, Newest::Is(newest));
    }
    for (number, generation) in partition.generations.iter().enumerate() {
        for source in scan_sources::for_scan(generation) {
            sources.add(source?, Newest::OfGeneration(number));
        }
    }
    if !partition.key_tables.is_empty() {
        let run = RunCursor::sorted_store(Arc::clone(partition), Access::Random);
        sources.add(Cursor::Run(run), Newest::OfSortedStore);
    }
    Ok(sources)
}
