//! The tables of a secondary: the manifest read on, hash indexes that grow, files that are held
//! open.
//!
//! Invariants:
//! - The version is that of the edits up to [`Files::edits`]. An error has all of it read afresh.
//! - An index has the keys of all tables that are known to be entered, and perhaps of tables that
//!   no state shows. Readers pass over slots that their version does not have, and a slot with
//!   another table makes a new index.
//! - A number stands for the same file as before, or the secondary refuses to go on: see
//!   [`history`](super::history).
//! - No state is shown before all of its files are open, and none is closed before the last state
//!   that has it is gone. Where the process may not keep as many open, see [`Files::open_all`].

use super::history::{History, Lister};
use super::shared::Shared;
use crate::base::keys::{FileNumber, FileUid, GenerationId, PartitionId, Slot};
use crate::base::seeded::seeded;
use crate::engine::open::recovery::{check_version, forget_lost_runs, index_generation};
use crate::error::{Error, ErrorKind, Result};
use crate::hash_index::HashIndex;
use crate::jobs::flush::index_build::enter_keys;
use crate::jobs::flush::placing::GenerationLimits;
use crate::partition::MemtableHandle;
use crate::record::RecordFile;
use crate::version::file_names;
use crate::version::manifest::ManifestTail;
use crate::version::{ApplyContext, Generation, Partition, Version};
use crate::vfs::file_store::DataFile;
use std::collections::HashMap;
use std::sync::Arc;

/// An index, and the tables whose keys it has, oldest first.
struct Entered {
    index: Arc<HashIndex>,
    tables: Vec<(Slot, FileUid)>,
}

#[derive(Default)]
pub(super) struct Files {
    tail: Option<ManifestTail>,
    version: Option<Arc<Version>>,
    indexes: HashMap<(PartitionId, GenerationId), Entered>,
    history: History,
}

impl Files {
    /// The manifest is to be read from its beginning. Indexes are kept: they say of what they are.
    pub(super) fn begin_again(&mut self) {
        (self.tail, self.version) = (None, None);
    }

    /// How many edits are known.
    pub(super) fn edits(&self) -> u64 {
        self.tail.as_ref().map_or(0, ManifestTail::edits)
    }

    /// The manifest that is read.
    pub(super) fn tail(&self) -> Option<&ManifestTail> {
        self.tail.as_ref()
    }

    /// The version after the edits up to the one with the number `edits`. `large` has the files of
    /// large values that the log names.
    pub(super) fn follow(
        &mut self,
        shared: &Shared,
        edits: u64,
        large: &dyn Fn(FileNumber) -> Option<Arc<RecordFile>>,
    ) -> Result<Arc<Version>> {
        if let Some(version) = &self.version
            && self.edits() >= edits
        {
            return Ok(Arc::clone(version));
        }
        let followed = self.read_on(shared, edits, large);
        followed.inspect_err(|_| self.begin_again())
    }

    fn read_on(
        &mut self,
        shared: &Shared,
        edits: u64,
        large: &dyn Fn(FileNumber) -> Option<Arc<RecordFile>>,
    ) -> Result<Arc<Version>> {
        let store = &shared.core.store;
        let vfs = &*store.env().vfs;
        let known = self.version.clone();
        let is_current = match &self.tail {
            Some(tail) => tail.is_current(vfs, store.dir())?,
            None => false,
        };
        if !is_current {
            let tail = ManifestTail::open(vfs, store.dir(), Some(store.database()))?;
            (self.tail, self.version) = (Some(tail), None);
        }
        let none = || Error::internal("a manifest that is not open");
        let tail = self.tail.as_mut().ok_or_else(none)?;
        tail.reload()?;
        let mut next = match &self.version {
            Some(version) => Version::clone(version),
            None => Version::default(),
        };
        while let Some(edit) = tail.next(edits)? {
            // What is open already stays the same file, if it is known in the same way.
            let is_open = |number| {
                let meta = edit
                    .record_files
                    .iter()
                    .find(|meta| meta.number == number)?;
                let listed = known.as_ref().and_then(|known| known.record_file(number));
                let found = listed.cloned().or_else(|| large(number));
                found.filter(|file| file.meta() == meta)
            };
            let mut context = ApplyContext {
                store,
                cache: &shared.core.cache,
                index: &mut |_, _| None,
                unlisted: &is_open,
            };
            let applied = next.apply_in_place(&edit, &mut context);
            applied.map_err(|what| Error::corruption(tail.path(), 0, what))?;
        }
        check_version(&next, tail.path())?;
        if self.version.is_none() {
            // As an opening does, whose manifest may not be there yet.
            forget_lost_runs(store, &mut next);
        }
        self.note_version(shared, &next)?;
        self.enter(shared, &mut next)?;
        self.open_all(shared, &next)?;
        next.read_ranges();
        let version = Arc::new(next);
        self.version = Some(Arc::clone(&version));
        Ok(version)
    }

    /// Gives each generation of `version` its hash index.
    pub(super) fn enter(&mut self, shared: &Shared, version: &mut Version) -> Result<()> {
        let options = &shared.core.options;
        let limits = GenerationLimits::of(options.unsorted_bytes, options.memory_budget);
        let seed = version.counters.hash_seed;
        let mut before = std::mem::take(&mut self.indexes);
        let indexes = &mut self.indexes;
        version.replace_indexes(|partition, generation| {
            if generation.is_ingested() {
                return Ok(Arc::clone(&generation.index));
            }
            let id = (partition.id, generation.id);
            let mut known = before.remove(&id);
            let goes_on = match &mut known {
                Some(known) => known.go_on(partition, generation, seed)?,
                None => false,
            };
            let entered = match known.filter(|_| goes_on) {
                Some(known) => known,
                None => Entered {
                    index: index_generation(partition, generation, limits, seed)?,
                    tables: tables_of(generation).collect(),
                },
            };
            let index = Arc::clone(&entered.index);
            indexes.insert(id, entered);
            Ok(index)
        })
    }

    /// Notes the files of `version`, before anything of them is read.
    ///
    /// # Errors
    /// `Incompatible` if an older state has taken the place of what was followed.
    pub(super) fn note_version(&mut self, shared: &Shared, version: &Version) -> Result<()> {
        let files = files_of(version).map(|file| (file.number, file.uid));
        self.note(shared, Lister::Version, files)
    }

    /// Opens the files of large values that `memtables` name, and that no table has yet.
    ///
    /// # Errors
    /// As of [`Files::note_version`].
    pub(super) fn hold_large<'a>(
        &mut self,
        shared: &Shared,
        memtables: impl IntoIterator<Item = &'a MemtableHandle>,
    ) -> Result<()> {
        let large: Vec<_> = memtables.into_iter().flat_map(|m| m.large.all()).collect();
        let files = large
            .iter()
            .map(|file| (file.meta().number, file.meta().uid));
        self.note(shared, Lister::Memtables, files)?;
        large
            .iter()
            .try_for_each(|file| file.data_file().open_now().map(drop))
    }

    fn note(
        &mut self,
        shared: &Shared,
        lister: Lister,
        files: impl Iterator<Item = (FileNumber, FileUid)>,
    ) -> Result<()> {
        if self.history.note(lister, files) {
            return Ok(());
        }
        let path = shared.core.store.dir().join(file_names::CURRENT);
        let what = "an older state of the database has taken the place of what was followed";
        Err(Error::incompatible(&path, what, "open another secondary"))
    }

    /// Opens the files of `version` that are not open yet. Where the process may not keep as many
    /// open, each is opened when it is read: until the writer removes it.
    pub(super) fn open_all(&self, shared: &Shared, version: &Version) -> Result<()> {
        let store = &shared.core.store;
        let most = store.env().vfs.max_open_files();
        let needed = files_of(version).count();
        let missing = files_of(version).filter(|listed| !listed.file.is_open());
        if store.open_files() + missing.count() > 2 * most {
            store.let_files_go(most, needed);
            return Ok(());
        }
        store.keep_files();
        for Listed { file, len, .. } in files_of(version) {
            if file.is_open() {
                continue;
            }
            let found = match file.open_now() {
                // Others of this process have taken them.
                Err(error) if error.lacks_descriptors() => {
                    store.let_files_go(most, needed);
                    return Ok(());
                }
                found => found?,
            };
            if found != len {
                let what = format!("the file has {found} bytes where the manifest lists {len}");
                return Err(Error::corruption(file.path(), found.min(len), what));
            }
        }
        Ok(())
    }
}

impl Entered {
    /// Enters the tables that the generation has got since. False: it is another one, or the index
    /// is full or lacks tables that are damaged.
    fn go_on(&mut self, partition: &Partition, generation: &Generation, seed: u64) -> Result<bool> {
        let mut tables = tables_of(generation);
        if !self
            .tables
            .iter()
            .all(|known| tables.next() == Some(*known))
        {
            return Ok(false);
        }
        let more: Vec<_> = tables.collect();
        if seeded!(SecondaryIndexStale) {
            return Ok(true);
        }
        if more.is_empty() {
            return Ok(true);
        }
        if generation.records() as usize > self.index.capacity() {
            return Ok(false);
        }
        let mut writer = self.index.writer();
        for (slot, table) in generation.shares().rev() {
            let Some(new) = more.iter().find(|(new, _)| *new == slot) else {
                continue;
            };
            // From here on it may hold keys of the table, whatever comes.
            self.tables.push(*new);
            match enter_keys(&mut writer, slot, table, partition.range(), seed) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// A file that a version lists.
struct Listed<'a> {
    number: FileNumber,
    uid: FileUid,
    len: u64,
    file: &'a DataFile,
}

fn files_of(version: &Version) -> impl Iterator<Item = Listed<'_>> {
    let records = version.record_files().iter().map(|file| Listed {
        number: file.meta().number,
        uid: file.meta().uid,
        len: file.meta().len,
        file: file.data_file(),
    });
    let of_runs = version.scan_runs().flat_map(|run| run.tables());
    let tables = version.key_tables().chain(of_runs).map(|table| Listed {
        number: table.meta().number,
        uid: table.meta().uid,
        len: table.meta().len,
        file: table.data_file(),
    });
    records.chain(tables)
}

/// The tables of a generation, oldest first.
fn tables_of(generation: &Generation) -> impl Iterator<Item = (Slot, FileUid)> + '_ {
    let tables = generation.tables().rev();
    tables.map(|(slot, file)| (slot, file.meta().uid))
}
