//! A listed key table, open for reading.

pub(crate) mod iter;
pub(crate) mod section;
pub(crate) mod verify_file;

use super::cache::ReadCache;
use super::meta::KeyTableMeta;
use super::outliers::Outliers;
use super::pointer_index::{IndexSlot, PointerIndex};
use super::properties::FileFacts;
use super::refs::RecordFileRefs;
use crate::base::file_header::FileKind;
use crate::base::file_names;
use crate::base::keys::SeqNo;
use crate::base::sync::{ArcSwapOption, Guard};
use crate::error::Result;
use crate::key_table::block::entry::OwnedEntry;
use crate::key_table::cache::build_cost::BuildCost;
use crate::key_table::cache::wishes::Wish;
use crate::key_table::reader::iter::KeyIter;
use crate::key_table::reader::section::KeySection;
use crate::key_table::reader::verify_file::verify_file;
use crate::vfs::Access;
use crate::vfs::file_store::{DataFile, FileStore};
use std::path::Path;
use std::sync::Arc;

/// Look-ups after which a pointer index is worth its cost. Each may have cost a read for want of
/// it; making it reads the table, and takes some ten milliseconds of a processor for 4 MiB. What
/// takes the place of a table whose index was used is charged beforehand, and so is every table
/// when writers are idle and there is room for all.
const LOOKUPS_PER_MIB: u64 = 64;

/// A key table. Opening it reads nothing.
#[derive(Debug)]
pub(crate) struct KeyTable {
    meta: KeyTableMeta,
    file: Arc<DataFile>,
    section: Arc<KeySection>,
    pub(in crate::key_table) cache: Arc<ReadCache>,
    pub(in crate::key_table) index: Arc<IndexSlot>,
    pub(in crate::key_table) build_cost: BuildCost,
    /// `None`: not read yet.
    outliers: ArcSwapOption<Outliers>,
}

impl KeyTable {
    /// The memory of the indexes of these tables, and what making one of them takes meanwhile.
    pub(crate) fn index_bytes_of<'a>(
        tables: impl IntoIterator<Item = &'a Arc<KeyTable>>,
    ) -> (u64, u64) {
        let (mut all, mut meanwhile) = (0_u64, 0);
        for table in tables {
            all = all.saturating_add(PointerIndex::bytes_of(&table.meta));
            meanwhile = PointerIndex::bytes_meanwhile(&table.meta).max(meanwhile);
        }
        (all, meanwhile)
    }

    /// The file itself.
    pub(crate) fn data_file(&self) -> &DataFile {
        &self.file
    }

    /// The table that `meta` describes.
    pub(crate) fn open(
        store: &Arc<FileStore>,
        meta: KeyTableMeta,
        cache: &Arc<ReadCache>,
    ) -> KeyTable {
        let path = store.dir().join(file_names::key_table(meta.number));
        let file = Arc::new(store.data_file(path, meta.number, meta.uid, Access::Random));
        let kind = FileKind::KeyTable;
        let section = KeySection::new(store, Arc::clone(&file), kind, meta.len, None, cache, None);
        KeyTable {
            build_cost: BuildCost::of(meta.len, LOOKUPS_PER_MIB),
            meta,
            file,
            section: Arc::new(section),
            cache: Arc::clone(cache),
            index: Arc::new(IndexSlot::new()),
            outliers: ArcSwapOption::empty(),
        }
    }

    /// What the manifest knows of it.
    pub(crate) fn meta(&self) -> &KeyTableMeta {
        &self.meta
    }

    /// The newest records that are much longer than the others; read from the file the first time
    /// that it is asked for and there are some.
    pub(crate) fn outliers(&self) -> Result<Arc<Outliers>> {
        if let Some(outliers) = self.outliers.load_full() {
            return Ok(outliers);
        }
        let outliers = Arc::new(match self.meta.outliers().count {
            0 => Outliers::default(),
            _ => self.facts()?.properties.outliers,
        });
        self.outliers.store(Some(Arc::clone(&outliers)));
        Ok(outliers)
    }

    /// The same, if they have been read.
    pub(crate) fn known_outliers(&self) -> Option<Arc<Outliers>> {
        self.outliers.load_full()
    }

    /// Memory of the handle and of what is known of the table.
    pub(crate) fn memory_bytes(&self) -> usize {
        let meta = &self.meta;
        let keys = meta.min_key.capacity() + meta.max_key.capacity();
        let refs = meta.refs.capacity() * size_of::<RecordFileRefs>();
        let section = self.section.memory_bytes();
        let outliers = meta.outliers().count as usize * size_of::<(u64, u64)>();
        size_of::<KeyTable>() + keys + outliers + refs + section + self.file.memory_bytes()
    }

    /// The newest version of `key` that is not newer than `snapshot`. Reads at most one block.
    pub(crate) fn get(&self, key: &[u8], snapshot: SeqNo) -> Result<Option<OwnedEntry>> {
        self.section.get(key, snapshot)
    }

    /// The pointer index, if there is one.
    #[inline]
    pub(crate) fn index(&self) -> Guard<Option<Arc<PointerIndex>>> {
        self.index.load()
    }

    /// Counts a look-up without the index. Whether it is the one by which an index is worth making.
    pub(crate) fn count_lookup(&self) -> bool {
        let is_worth_it = self.build_cost.charge();
        if is_worth_it {
            self.report_wish();
        }
        is_worth_it
    }

    fn report_wish(&self) {
        self.cache.wishes().of(Wish::Index).report(self.meta.number);
    }

    /// Whether an index is worth its cost that nobody is making.
    pub(crate) fn wants_index(&self) -> bool {
        self.build_cost.is_worth_it() && !self.index.is_set()
    }

    /// Has the index made if look-ups used that of one of the tables in whose place this one comes.
    pub(crate) fn succeed(&self, replaced: &[Arc<KeyTable>]) {
        let (first, last) = (&self.meta.min_key, &self.meta.max_key);
        let overlaps = |meta: &KeyTableMeta| meta.min_key <= *last && *first <= meta.max_key;
        let mut replaced = replaced.iter();
        if replaced.any(|table| table.index.is_used() && overlaps(&table.meta)) {
            self.want_index();
        }
    }

    /// Has the index made though no look-up has lost anything yet; once.
    pub(crate) fn want_index(&self) {
        // Charged beforehand beside an index, no look-up would report it once the index is gone.
        if self.index.is_set() {
            return;
        }
        self.build_cost.advance();
        if self.wants_index() {
            self.report_wish();
        }
    }

    /// Whether [`KeyTable::want_index`] may do something.
    pub(crate) fn may_want_index(&self) -> bool {
        !self.build_cost.is_advanced() && !self.index.is_set()
    }

    /// Whether to read all blocks is worth its cost, and nobody does it.
    #[cfg(test)]
    pub(crate) fn wants_blocks(&self) -> bool {
        self.section.wants_blocks()
    }

    /// Reads all blocks into the cache, if that is worth its cost; with no room for them, the next
    /// attempt costs more. Whether it did.
    pub(crate) fn read_blocks(&self, has_room: bool) -> bool {
        self.section.read_all_blocks(has_room)
    }

    /// The section that the file is.
    pub(crate) fn section(&self) -> &KeySection {
        &self.section
    }

    /// An iterator, not yet positioned; see [`KeySection::iter`].
    pub(crate) fn iter(self: &Arc<Self>, access: Access) -> KeyIter {
        self.section.iter(access)
    }

    /// See [`KeySection::part_before`].
    pub(crate) fn part_before(&self, key: &[u8]) -> Result<f64> {
        self.section.part_before(key)
    }

    /// See [`KeySection::key_at_fraction`].
    pub(crate) fn key_at_fraction(&self, part: f64) -> Result<Vec<u8>> {
        self.section.key_at_fraction(part)
    }

    /// The facts about the file that stand in its footer and properties.
    pub(crate) fn facts(&self) -> Result<FileFacts> {
        FileFacts::read(&self.file, self.meta.len)
    }

    /// Reads the whole file and compares it with the checksum in the manifest.
    pub(crate) fn verify(&self) -> Result<()> {
        verify_file(&self.file, self.meta.len, self.meta.checksum)
    }

    /// Lets the file be removed when nobody reads it any more.
    pub(crate) fn mark_obsolete(&self) {
        self.file.mark_obsolete(self.meta.len);
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
}
