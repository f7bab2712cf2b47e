//! The record files of a version, each with what the version's tables say of it.
//!
//! An edit adds and takes away what the tables say that it adds and drops, so a figure here is the
//! sum over all tables that there are ([`super::check`] compares them).

use super::Live;
use super::chunked::{Chunked, Item};
use super::half_merged::{Merged, section_worth_a_pass};
use crate::base::keys::FileNumber;
use crate::base::seeded::{seeded, slip};
use crate::key_table::{KeyTable, RecordFileRefs};
use crate::record::RecordFile;
use crate::version::generation::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What tables say of a record file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What key tables point to, and the large values of tables of UnsortedStores. A large value of
    /// a table that is merged in one partition and not yet in another may count twice until then.
    pub(crate) live: Live,
    /// Key tables that point to it.
    pub(super) key_tables: u64,
    /// Tables of UnsortedStores that have large values in it.
    pub(super) named_by: u64,
    /// Its places in UnsortedStores, being a table itself.
    pub(super) places: u64,
    /// Bytes of the shares that these have of it.
    pub(super) unmerged_bytes: u64,
}

impl Usage {
    /// Whether it is needed: as a table, or for what tables point to.
    pub(super) fn is_any(&self) -> bool {
        self.is_pointed_to() || self.places > 0
    }

    fn is_pointed_to(&self) -> bool {
        self.key_tables > 0 || self.named_by > 0
    }

    /// Adds (`by` 1) or takes away (`by` -1) as much. What a damaged manifest counts may be
    /// anything, so no sum may fail.
    fn count(&mut self, refs: &RecordFileRefs, by: i64) {
        let live = &mut self.live;
        live.count = moved(live.count, refs.count, by);
        live.bytes = moved(live.bytes, refs.bytes, by);
    }
}

fn moved(sum: u64, amount: u64, by: i64) -> u64 {
    if by < 0 {
        sum.wrapping_sub(amount)
    } else {
        sum.wrapping_add(amount)
    }
}

/// A record file of a version.
#[derive(Clone)]
pub(crate) struct Listed {
    /// That of the file, where a search finds it without a look at each file.
    number: FileNumber,
    pub(crate) file: Arc<RecordFile>,
    pub(crate) used: Usage,
}

impl Listed {
    /// Whether it is a table of an UnsortedStore.
    pub(crate) fn is_table(&self) -> bool {
        self.used.places > 0
    }

    /// Whether a table of an UnsortedStore has large values in it.
    pub(crate) fn is_named_by_tables(&self) -> bool {
        self.used.named_by > 0
    }

    /// What has been merged of it, if it is a table of an UnsortedStore.
    pub(crate) fn merged(&self) -> Option<Merged> {
        let used = &self.used;
        let of = || {
            let live_bytes = used.live.bytes;
            Merged::of(
                self.file.meta(),
                used.unmerged_bytes,
                live_bytes,
                used.places,
            )
        };
        self.is_table().then(of)
    }
}

/// Sums over record files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSums {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Bytes that compression has saved.
    pub(crate) saved_bytes: u64,
    /// Bytes of records that key tables point to, and of large values of tables.
    pub(crate) all_live_bytes: u64,
    /// Files that nothing needs.
    pub(crate) dead: u64,
    /// Whether anything expires.
    pub(crate) expires: bool,
    /// Bytes of records in value logs, and of what has been merged of tables.
    pub(crate) log_bytes: u64,
    /// Bytes of their key sections and footers.
    pub(crate) section_bytes: u64,
    /// Those that are worth a pass.
    pub(crate) dead_section_bytes: u64,
    /// Bytes of records there that key tables point to.
    pub(crate) live_bytes: u64,
    /// Of dead records, those in tables that only some of their partitions have merged.
    pub(crate) half_merged_bytes: u64,
    /// Bytes of large values of tables of UnsortedStores.
    pub(crate) unmerged_large_bytes: u64,
    /// Bytes of records that lie as flushes wrote them.
    pub(crate) flushed_bytes: u64,
    pub(in crate::version) memory_bytes: usize,
}

impl FileSums {
    pub(super) fn add(&mut self, other: &FileSums) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.saved_bytes += other.saved_bytes;
        self.all_live_bytes = self.all_live_bytes.wrapping_add(other.all_live_bytes);
        self.dead += other.dead;
        self.expires |= other.expires;
        self.log_bytes += other.log_bytes;
        self.section_bytes += other.section_bytes;
        self.dead_section_bytes += other.dead_section_bytes;
        self.live_bytes = self.live_bytes.wrapping_add(other.live_bytes);
        self.half_merged_bytes += other.half_merged_bytes;
        self.unmerged_large_bytes += other.unmerged_large_bytes;
        self.flushed_bytes = self.flushed_bytes.wrapping_add(other.flushed_bytes);
        self.memory_bytes += other.memory_bytes;
    }
}

impl Item for Listed {
    type Key = FileNumber;
    type Sum = FileSums;

    fn key(&self) -> &FileNumber {
        &self.number
    }

    fn add_to(&self, _: Option<&Listed>, sum: &mut FileSums) {
        let (meta, live) = (self.file.meta(), self.used.live);
        let of_records = meta.record_bytes();
        let mut own = FileSums {
            files: 1,
            bytes: meta.len,
            saved_bytes: meta.compression.saved_bytes,
            all_live_bytes: live.bytes,
            dead: u64::from(!self.used.is_any()),
            expires: meta.expiry.is_some(),
            memory_bytes: size_of::<Listed>() + self.file.memory_bytes(),
            ..FileSums::default()
        };
        if let Some(merged) = self.merged() {
            own.log_bytes = merged.record_bytes;
            own.section_bytes = merged.section_bytes;
            own.live_bytes = merged.live_bytes;
            own.half_merged_bytes = merged.dead_bytes();
            // Large values of unmerged records are in value logs already.
            own.unmerged_large_bytes = meta.refs.iter().map(|r| r.bytes).sum();
        } else {
            own.log_bytes = of_records;
            own.section_bytes = meta.len.saturating_sub(of_records);
            own.dead_section_bytes = section_worth_a_pass(meta);
            own.live_bytes = live.bytes;
        }
        if meta.is_flushed() {
            own.flushed_bytes = if self.is_table() {
                of_records
            } else {
                live.bytes
            };
        }
        sum.add(&own);
    }
}

/// The record files of a version, by ascending number.
#[derive(Clone, Default)]
pub(crate) struct RecordFiles {
    pub(super) listed: Chunked<Listed>,
    /// What tables say of files that are not listed. A sound version has none.
    pub(super) missing: BTreeMap<FileNumber, Usage>,
}

impl RecordFiles {
    /// Every pointer names a file that is listed: of key tables, and of large values in tables.
    pub(in crate::version) fn check_pointers(&self) -> Result<(), String> {
        let mut missing = self.missing.iter();
        match missing.find(|(_, used)| used.is_pointed_to()) {
            Some((number, _)) => Err(format!("record file {} is pointed to and gone", number.0)),
            None => Ok(()),
        }
    }

    /// Every table of an UnsortedStore is listed.
    pub(in crate::version) fn check_tables(&self) -> Result<(), String> {
        match self.missing.iter().find(|(_, used)| used.places > 0) {
            Some((number, _)) => Err(format!("record file {} is a table and gone", number.0)),
            None => Ok(()),
        }
    }
}

impl RecordFiles {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<RecordFile>> + Clone {
        self.listed.iter().map(|listed| &listed.file)
    }

    /// With what tables say of them.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Listed> {
        self.listed.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.listed.len()
    }

    pub(crate) fn get(&self, number: FileNumber) -> Option<&Listed> {
        self.listed.find(&number)
    }

    pub(crate) fn sums(&self) -> FileSums {
        let mut all = FileSums::default();
        self.listed.sums().for_each(|sum| all.add(sum));
        all
    }

    /// Lists a file. False: it is listed.
    pub(in crate::version) fn add(&mut self, file: Arc<RecordFile>) -> bool {
        let used = self.missing.remove(&file.meta().number);
        let used = used.unwrap_or_default();
        let number = file.meta().number;
        self.listed.insert(Listed { number, file, used })
    }

    /// Takes a file out of the list.
    pub(in crate::version) fn remove(&mut self, number: FileNumber) -> Option<Arc<RecordFile>> {
        let Listed { file, used, .. } = self.listed.remove(&number)?;
        if used.is_any() {
            self.missing.insert(number, used);
        }
        Some(file)
    }

    /// Numbers of files that nothing needs, ascending.
    pub(in crate::version) fn dead(&self) -> Vec<FileNumber> {
        let chunks = self
            .listed
            .where_sums(|sum| sum.dead > 0 || seeded!(DropUnmergedTable));
        let is_needed =
            |used: &Usage| slip!(DropUnmergedTable, used.is_pointed_to(), used.is_any());
        let dead = chunks.filter(|listed| !is_needed(&listed.used));
        dead.map(|listed| *listed.key()).collect()
    }

    /// How many files there are in chunks of the list that `other` does not share.
    pub(in crate::version) fn count_beside(&self, other: &RecordFiles) -> usize {
        self.listed.not_shared_with(&other.listed).count()
    }

    fn change(&mut self, number: FileNumber, change: impl FnOnce(&mut Usage)) {
        if let Some(listed) = self.listed.find_mut(&number) {
            change(&mut listed.used);
            return;
        }
        let used = self.missing.entry(number).or_default();
        change(used);
        if !used.is_any() {
            self.missing.remove(&number);
        }
    }

    /// A key table is listed (`by` 1) or no longer (`by` -1).
    fn count_key_table(&mut self, table: &KeyTable, by: i64) {
        for refs in &table.meta().refs {
            self.change(refs.file, |used| {
                used.count(refs, by);
                used.key_tables = moved(used.key_tables, 1, by);
            });
        }
    }

    pub(in crate::version) fn key_table_added(&mut self, table: &KeyTable) {
        self.count_key_table(table, 1);
    }

    pub(in crate::version) fn key_table_removed(&mut self, table: &KeyTable) {
        if !seeded!(StaleLiveCounts) {
            self.count_key_table(table, -1);
        }
    }

    /// A record file has (`by` 1) or loses (`by` -1) a place in an UnsortedStore. Its large values
    /// count from the first place to the last.
    fn count_place(&mut self, table: &Table, by: i64) {
        let (mut before, mut after) = (0, 0);
        self.change(table.file.meta().number, |used| {
            before = used.places;
            used.places = moved(used.places, 1, by);
            used.unmerged_bytes = moved(used.unmerged_bytes, table.share().bytes, by);
            after = used.places;
        });
        if (before == 0) == (after == 0) {
            return;
        }
        for refs in &table.file.meta().refs {
            self.change(refs.file, |used| {
                used.count(refs, by);
                used.named_by = moved(used.named_by, 1, by);
            });
        }
    }

    pub(in crate::version) fn place_added(&mut self, table: &Table) {
        self.count_place(table, 1);
    }

    pub(in crate::version) fn place_removed(&mut self, table: &Table) {
        self.count_place(table, -1);
    }
}

#[cfg(test)]
impl RecordFiles {
    pub(crate) fn to_vec(&self) -> Vec<Arc<RecordFile>> {
        self.iter().cloned().collect()
    }
}

#[cfg(test)]
impl std::ops::Index<usize> for RecordFiles {
    type Output = Arc<RecordFile>;

    fn index(&self, at: usize) -> &Arc<RecordFile> {
        &self.listed[at].file
    }
}
