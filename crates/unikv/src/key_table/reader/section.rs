//! Reading the key section of a listed file: its fences, its blocks, and one key.

mod all_blocks;
pub(crate) mod block_spans;
mod neighbours;

use crate::base::checksum::bound;
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::keys::{DatabaseId, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::OnceLock;
use crate::error::{Error, ErrorKind, Result};
use crate::key_table::block::Block;
use crate::key_table::block::entry::{EntryValue, Malformed, OwnedEntry, OwnedValue, RawEntry};
use crate::key_table::block::fences::{BlockPlace, Fences};
use crate::key_table::builder::rebuilt::{OfFile, Rebuilt, SpareEntries};
use crate::key_table::cache::ReadCache;
use crate::key_table::cache::build_cost::BuildCost;
use crate::key_table::cache::pin::PinnedFences;
use crate::key_table::cache::taken::Taken;
use crate::key_table::footer::Footer;
use crate::key_table::read_terms;
use crate::vfs::file_store::{DataFile, FileStore};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// The key section of a file. Nothing is read before it is asked for; then the fences go to the
/// cache and come back from it, or from the file when it has dropped them.
#[derive(Debug)]
pub(crate) struct KeySection {
    file: Arc<DataFile>,
    kind: FileKind,
    database: DatabaseId,
    file_len: u64,
    /// The number of all entries, whatever they say; then each key has one entry.
    ingest_seq: Option<SeqNo>,
    cache: Arc<ReadCache>,
    pinned: OnceLock<PinnedFences>,
    /// What it costs to read all blocks at once; of a table of the SortedStore.
    all_blocks: Option<BuildCost>,
    /// Where its entries stand once more.
    spare: Option<SpareEntries>,
    /// What stands in for its damaged parts, since one was met.
    rebuilt: OnceLock<Rebuilt>,
}

impl KeySection {
    /// The section of `file`, which has `file_len` bytes. `ingest_seq`: of an ingested file.
    /// `spare`: what it can be rebuilt from.
    pub(crate) fn new(
        store: &FileStore,
        file: Arc<DataFile>,
        kind: FileKind,
        file_len: u64,
        ingest_seq: Option<SeqNo>,
        cache: &Arc<ReadCache>,
        spare: Option<SpareEntries>,
    ) -> KeySection {
        let (database, cache) = (store.database(), Arc::clone(cache));
        let is_table = kind == FileKind::KeyTable;
        KeySection {
            all_blocks: is_table.then(|| all_blocks::cost(file_len)),
            file,
            kind,
            database,
            file_len,
            ingest_seq,
            cache,
            pinned: OnceLock::new(),
            spare,
            rebuilt: OnceLock::new(),
        }
    }

    /// The newest version of `key` that is not newer than `snapshot`. Reads at most one block.
    pub(crate) fn get(&self, key: &[u8], snapshot: SeqNo) -> Result<Option<OwnedEntry>> {
        let Some(all) = self.ingest_seq else {
            return self.get_written(key, snapshot);
        };
        if snapshot < all {
            return Ok(None);
        }
        let entry = self.get_written(key, SeqNo::MAX)?;
        Ok(entry.map(|entry| OwnedEntry { seq: all, ..entry }))
    }

    /// The number that all entries have, of an ingested file.
    pub(crate) fn ingest_seq(&self) -> Option<SeqNo> {
        self.ingest_seq
    }

    /// As [`KeySection::get`], by the numbers that the entries say.
    fn get_written(&self, key: &[u8], snapshot: SeqNo) -> Result<Option<OwnedEntry>> {
        let fences = self.fences()?;
        let Some((i, place)) = fences.locate(key, snapshot) else {
            return Ok(None);
        };
        let block = self.cached_block(i, place)?;
        self.entry_of(key, snapshot, &block, place)
    }

    /// As [`KeySection::get`] if nothing has to be read for it, and then without regard to the
    /// number of an ingest. Else the block that is needed is prefetched, and there is `None`.
    pub(crate) fn get_present(
        &self,
        key: &[u8],
        snapshot: SeqNo,
    ) -> Result<Option<Option<OwnedEntry>>> {
        let pinned = self.pinned.get();
        let known = pinned.map(|pinned| Arc::clone(pinned.get()));
        let Some(fences) = known.or_else(|| self.cache.peek_fences(self.file.number())) else {
            return Ok(None);
        };
        let snapshot = self.ingest_seq.map_or(snapshot, |_| SeqNo::MAX);
        let Some((i, place)) = fences.locate(key, snapshot) else {
            return Ok(Some(None));
        };
        let cached = || self.cache.peek_block(self.file.number(), place.offset);
        match pinned.and_then(|pinned| pinned.block(i)).or_else(cached) {
            Some(block) => self.entry_of(key, snapshot, &block, place).map(Some),
            None => {
                self.file.will_need(place.offset, place.len as u64)?;
                Ok(None)
            }
        }
    }

    /// The entry of `key` in the one block that may hold it.
    fn entry_of(
        &self,
        key: &[u8],
        snapshot: SeqNo,
        block: &Block,
        place: BlockPlace,
    ) -> Result<Option<OwnedEntry>> {
        let entry = block
            .seek(key, snapshot)
            .map_err(|e| self.malformed(place, e))?;
        Ok(entry
            .filter(|entry| is_of(entry, block, key))
            .map(|entry| own(&entry, block)))
    }

    /// About which part of the entries lies before `key`, from 0 to 1. Reads at most one block.
    pub(crate) fn part_before(&self, key: &[u8]) -> Result<f64> {
        let fences = self.fences()?;
        let Some((i, place)) = fences.locate(key, SeqNo::MAX) else {
            return Ok(0.0);
        };
        let block = self.cached_block(i, place)?;
        let entry = block.seek(key, SeqNo::MAX);
        let entry = entry.map_err(|e| self.malformed(place, e))?;
        let in_block = entry.map_or(1.0, |e| e.start as f64 / block.entries_end() as f64);
        Ok((i as f64 + in_block) / fences.len() as f64)
    }

    /// A key that lies after about this part of the entries: a fence, which need not be stored.
    pub(crate) fn key_at_fraction(&self, part: f64) -> Result<Vec<u8>> {
        let fences = self.fences()?;
        let i = (part * fences.len() as f64) as usize;
        Ok(fences.key(i.min(fences.len().saturating_sub(1))).to_vec())
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The fences: kept here, from the cache, or from the file.
    pub(crate) fn fences(&self) -> Result<Arc<Fences>> {
        if let Some(pinned) = self.pinned.get() {
            return Ok(Arc::clone(pinned.get()));
        }
        if let Some(rebuilt) = self.rebuilt.get() {
            return Ok(Arc::clone(rebuilt.fences()));
        }
        if let Some(fences) = self.cache.fences(self.file.number()) {
            return Ok(fences);
        }
        let fences = match self.read_fences() {
            Ok(fences) => Arc::new(fences),
            Err(error) => return Ok(Arc::clone(self.rebuild(None, error)?.fences())),
        };
        match PinnedFences::new(&fences, &self.cache) {
            // The first to pin them has the same fences.
            Some(pinned) => drop(self.pinned.set(pinned)),
            None => {
                let cached = Arc::clone(&fences);
                self.cache.insert_fences(self.file.number(), cached);
            }
        }
        Ok(fences)
    }

    /// The `i`th block, to be held for long: the cache's own with leave to do so, which may be
    /// `held` already.
    pub(crate) fn held_block(
        &self,
        i: usize,
        place: BlockPlace,
        held: &mut Option<Taken>,
    ) -> Result<Arc<Block>> {
        let block = match self.known_block(i, place) {
            Some(block) => block,
            None => {
                self.charge_for_all_blocks();
                self.read_block(i, place)?
            }
        };
        *held = held.take().or_else(|| self.cache.hold_segment());
        Ok(match held {
            Some(_) => block,
            None => block.apart(),
        })
    }

    /// The `i`th block: known here, from the cache, or from the file.
    pub(crate) fn cached_block(&self, i: usize, place: BlockPlace) -> Result<Arc<Block>> {
        match self.known_block(i, place) {
            Some(block) => Ok(block),
            None => self.read_block(i, place),
        }
    }

    /// The fences that were pinned, if the block at `place` is theirs: those of a section that is
    /// cut again are not.
    fn pinned_at(&self, place: BlockPlace) -> Option<&PinnedFences> {
        let own = place.offset < self.file_len;
        self.pinned.get().filter(|_| own)
    }

    /// The `i`th block, if it is known here or in the cache.
    fn known_block(&self, i: usize, place: BlockPlace) -> Option<Arc<Block>> {
        let pinned = self.pinned_at(place);
        if let Some(block) = pinned.and_then(|pinned| pinned.block(i)) {
            return Some(block);
        }
        let block = self.cache.block(self.file.number(), place.offset)?;
        if let Some(pinned) = pinned {
            pinned.remember(i, &block);
        }
        Some(block)
    }

    /// The `i`th block from the file; from now on it is in the cache.
    fn read_block(&self, i: usize, place: BlockPlace) -> Result<Arc<Block>> {
        read_terms::check_time()?;
        let read = self.read_with_neighbours(i, place);
        let block = self.sound_block(i, place, read)?;
        let cached = Arc::clone(&block);
        self.cache
            .insert_block(self.file.number(), place.offset, cached);
        if let Some(pinned) = self.pinned_at(place)
            && read_terms::fill_cache()
        {
            pinned.remember(i, &block);
        }
        Ok(block)
    }

    /// The `i`th block out of the bytes that were read at its place, or what stands in for it.
    pub(crate) fn sound_block(
        &self,
        i: usize,
        place: BlockPlace,
        read: Result<Bytes>,
    ) -> Result<Arc<Block>> {
        let error = match read.and_then(|bytes| self.verify(bytes, place)) {
            Ok(block) => return Ok(block),
            Err(error) => error,
        };
        let rebuilt = self.rebuild(Some(&self.fences()?), error.clone())?;
        match rebuilt.block(i, place) {
            Some(bytes) => self.verify(bytes, place),
            None => Err(error),
        }
    }

    /// The section rebuilt, with these fences if they are sound; `error` where that cannot be done.
    fn rebuild(&self, sound: Option<&Arc<Fences>>, error: Error) -> Result<&Rebuilt> {
        if let Some(rebuilt) = self.rebuilt.get() {
            return Ok(rebuilt);
        }
        let explains = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io)
            && !seeded!(DamagedSectionIsEmpty);
        let Some(spare) = self.spare.as_ref().filter(|_| explains) else {
            return Err(error);
        };
        let file = OfFile {
            path: self.path(),
            uid: self.file.uid(),
            len: self.file_len,
        };
        match Rebuilt::build(spare, file, sound) {
            Ok(rebuilt) => Ok(self.rebuilt.get_or_init(|| rebuilt)),
            // The section's own damage says more than that of a record.
            Err(_) => Err(error),
        }
    }

    /// Memory of the section beside its fences: what stands in for damaged parts.
    pub(crate) fn memory_bytes(&self) -> usize {
        let rebuilt = self.rebuilt.get().map_or(0, Rebuilt::memory_bytes);
        size_of::<KeySection>() + rebuilt
    }

    /// Verifies the bytes of the block at `place`.
    fn verify(&self, bytes: Bytes, place: BlockPlace) -> Result<Arc<Block>> {
        Block::verify(bytes, self.file.uid(), place.offset, self.cache.decoders())
            .map(Arc::new)
            .map_err(|what| Error::corruption(self.path(), place.offset, what))
    }

    /// Reads bytes that must be in the file: nothing is allocated for a length beyond it.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        if offset
            .checked_add(len as u64)
            .is_none_or(|end| end > self.file_len)
        {
            return Err(Error::corruption(
                self.path(),
                offset,
                "the file ends early",
            ));
        }
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// The error for a block that does not follow the grammar.
    pub(crate) fn malformed(&self, place: BlockPlace, _: Malformed) -> Error {
        Error::corruption(
            self.path(),
            place.offset,
            "the block's entries are malformed",
        )
    }

    fn read_fences(&self) -> Result<Fences> {
        let header = self.read(0, HEADER_LEN)?;
        let path = self.path();
        let header = FileHeader::decode(&header, self.kind, Some(self.database), path)?;
        if (header.uid, header.number) != (self.file.uid(), self.file.number()) {
            return Err(Error::corruption(
                path,
                0,
                "this is another file of the database",
            ));
        }
        let footer = Footer::read(&self.file, self.file_len)?;
        read_index(&self.file, &footer)
    }
}

/// Reads the index that `footer` points to. The footer's parts fill the file exactly, so this
/// allocates no more than the file has.
pub(crate) fn read_index(file: &DataFile, footer: &Footer) -> Result<Fences> {
    let offset = footer.index_offset();
    let bad = |what| Error::corruption(file.path(), offset, what);
    let mut index = vec![0; footer.index_len as usize];
    file.read_exact_at(&mut index, offset)?;
    let (index, crc) = index
        .split_last_chunk::<4>()
        .ok_or_else(|| bad("there is no index"))?;
    if u32::from_le_bytes(*crc) != bound(file.uid(), offset, index) {
        return Err(bad("the index's checksum does not match"));
    }
    Fences::decode(index, footer.records_end, footer.blocks_len)
        .map_err(|Malformed| bad("the index is malformed"))
}

/// Whether `entry`, which [`Block::seek`] found for `key`, is of that key and not of a later one.
fn is_of(entry: &RawEntry, block: &Block, key: &[u8]) -> bool {
    key.get(entry.shared..) == Some(entry.suffix.of(block.bytes()))
}

fn own(entry: &RawEntry, block: &Block) -> OwnedEntry {
    let value = match entry.value.of(block.bytes()) {
        EntryValue::None => OwnedValue::None,
        EntryValue::Inline(value) => OwnedValue::Inline(Bytes::copy_from_slice(value)),
        EntryValue::Pointer(pointer) => OwnedValue::Pointer(pointer),
    };
    let (seq, kind, expiry_ms) = (entry.seq, entry.kind, entry.expiry_ms);
    OwnedEntry {
        seq,
        kind,
        expiry_ms,
        value,
    }
}
