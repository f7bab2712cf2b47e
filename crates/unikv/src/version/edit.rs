//! Version edits: what a job changes, as one record of the manifest. See `docs/format.md`,
//! "Manifest".
//!
//! # Invariants
//! - An edit is all there or not there at all: it is one log record.
//! - Every field is tagged with a length (see [`super::tagged`]), and so are the fields of each
//!   entry within. All fields of this version are critical but the lifetime figures, which are
//!   statistics.
//! - Decoding trusts nothing: it allocates in proportion to the bytes present and never panics.

use super::scan_run::ScanRunMeta;
use super::tagged::{FieldWriter, Fields, Place};
use crate::base::keys::{FileNumber, GenerationId, KeyspaceId, PartitionId, SeqNo, Slot};
use crate::error::Result;
use crate::key_table::meta::KeyTableMeta;
use crate::log::DurableSegment;
use crate::record::meta::RecordFileMeta;
use history::History;
use std::path::Path;
use std::sync::Arc;

mod compression;
mod entries;
mod figures;
pub(crate) mod history;
mod ranges;

/// A change of the version. Fields that are `None` or empty change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    /// Numbers from here on are free.
    pub(crate) next_file: Option<u64>,
    pub(crate) last_seq: Option<SeqNo>,
    /// Segments of the log below it are not needed.
    pub(crate) wal_low_water: Option<FileNumber>,
    /// The log was durable up to here when the edit was made: all the writes before it. A log that
    /// ends earlier has lost them, and nothing in it may say so.
    pub(crate) wal_durable: Option<DurableSegment>,
    /// The greatest wall-clock time that was acted upon.
    pub(crate) clock_ms: Option<u64>,
    pub(crate) hash_seed: Option<u64>,
    pub(crate) next_partition: Option<u64>,
    /// The options that the files depend on.
    pub(crate) options: Option<Vec<u8>>,
    /// The host's bytes, committed with this edit.
    pub(crate) commit_tag: Option<Vec<u8>>,
    /// In the first edit of a manifest: how many edits came before it in earlier manifests.
    pub(crate) edits_before: Option<u64>,
    /// What was counted since the database was created. Nothing depends on it.
    pub(crate) lifetime: Option<Vec<u8>>,
    /// The greatest number that a keyspace has had.
    pub(crate) last_keyspace: Option<u32>,
    /// Each takes the place of the one with its id, if there is one.
    pub(crate) keyspaces: Vec<KeyspaceMeta>,
    pub(crate) dropped_keyspaces: Vec<KeyspaceId>,
    /// One with the id of a partition that is there takes its place; its range ends earlier.
    pub(crate) partitions: Vec<PartitionMeta>,
    pub(crate) dropped_partitions: Vec<PartitionId>,
    pub(crate) record_files: Vec<RecordFileMeta>,
    pub(crate) dropped_record_files: Vec<FileNumber>,
    pub(crate) tables: Vec<TablePlace>,
    pub(crate) dropped_generations: Vec<(PartitionId, GenerationId)>,
    pub(crate) key_tables: Vec<(PartitionId, KeyTableMeta)>,
    pub(crate) dropped_key_tables: Vec<(PartitionId, FileNumber)>,
    /// Each takes the place of the generation's run, if it has one.
    pub(crate) scan_runs: Vec<ScanRunMeta>,
    pub(crate) dropped_scan_runs: Vec<(PartitionId, GenerationId)>,
    /// In the first edit of a manifest: all that the change feed needs of it.
    pub(crate) history: Option<Arc<History>>,
    /// What comes to that.
    pub(crate) later: Option<Box<History>>,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceMeta {
    pub(crate) id: KeyspaceId,
    /// What stands before its keys: its id until it is emptied.
    pub(crate) data: KeyspaceId,
    pub(crate) name: String,
    pub(crate) options: Vec<u8>,
    /// When this process emptied it last: an older snapshot cannot see what it held. Not stored, as
    /// snapshots are not.
    pub(crate) since: SeqNo,
    /// How long values live that are written without saying it, in milliseconds.
    pub(crate) default_ttl_ms: Option<u64>,
}

/// A partition: a range of engine keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionMeta {
    pub(crate) id: PartitionId,
    pub(crate) start: Vec<u8>,
    /// The first key after it; `None`: it has no end.
    pub(crate) end: Option<Vec<u8>>,
}

/// A record file becomes a table of an UnsortedStore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TablePlace {
    pub(crate) partition: PartitionId,
    pub(crate) generation: GenerationId,
    pub(crate) slot: Slot,
    pub(crate) file: FileNumber,
    /// What of the file lies in the partition's range; `None`: all of it.
    pub(crate) share: Option<TableShare>,
    /// Bytes of long records in the SortedStore that it supersedes, beyond its own.
    pub(crate) hidden_bytes: u64,
}

/// The part of a table that lies in one partition's range. After a split it is an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableShare {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// The tags of an edit. The numbers are in the files and never change.
mod tag {
    pub(super) const NEXT_FILE: u16 = 1;
    pub(super) const LAST_SEQ: u16 = 2;
    pub(super) const WAL_LOW_WATER: u16 = 3;
    pub(super) const CLOCK_MS: u16 = 4;
    pub(super) const HASH_SEED: u16 = 5;
    pub(super) const NEXT_PARTITION: u16 = 6;
    pub(super) const OPTIONS: u16 = 7;
    pub(super) const COMMIT_TAG: u16 = 8;
    pub(super) const EDITS_BEFORE: u16 = 9;
    pub(super) const KEYSPACE: u16 = 10;
    pub(super) const PARTITION: u16 = 11;
    pub(super) const DROPPED_PARTITION: u16 = 12;
    pub(super) const RECORD_FILE: u16 = 13;
    pub(super) const DROPPED_RECORD_FILE: u16 = 14;
    pub(super) const TABLE: u16 = 15;
    pub(super) const DROPPED_GENERATION: u16 = 16;
    pub(super) const KEY_TABLE: u16 = 17;
    pub(super) const DROPPED_KEY_TABLE: u16 = 18;
    pub(super) const SCAN_RUN: u16 = 19;
    pub(super) const DROPPED_SCAN_RUN: u16 = 20;
    pub(super) const LIFETIME: u16 = 21;
    pub(super) const LAST_KEYSPACE: u16 = 22;
    pub(super) const DROPPED_KEYSPACE: u16 = 23;
    pub(super) const HISTORY: u16 = 24;
    pub(super) const LATER: u16 = 25;
    pub(super) const WAL_DURABLE: u16 = 26;
    pub(super) const LAST: u16 = WAL_DURABLE;
}

impl VersionEdit {
    /// The bytes of the edit.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        let numbers = [
            (tag::NEXT_FILE, self.next_file),
            (tag::LAST_SEQ, self.last_seq.map(|seq| seq.0)),
            (tag::WAL_LOW_WATER, self.wal_low_water.map(|n| n.0)),
            (tag::CLOCK_MS, self.clock_ms),
            (tag::HASH_SEED, self.hash_seed),
            (tag::NEXT_PARTITION, self.next_partition),
            (tag::EDITS_BEFORE, self.edits_before),
            (tag::LAST_KEYSPACE, self.last_keyspace.map(u64::from)),
        ];
        for (tag, value) in numbers {
            if let Some(value) = value {
                out.put_u64(tag, value);
            }
        }
        if let Some(segment) = self.wal_durable {
            entries::put_durable(&mut out, tag::WAL_DURABLE, segment);
        }
        for (tag, bytes) in [
            (tag::OPTIONS, &self.options),
            (tag::COMMIT_TAG, &self.commit_tag),
        ] {
            if let Some(bytes) = bytes {
                out.put(tag, bytes);
            }
        }
        if let Some(bytes) = &self.lifetime {
            out.put_skippable(tag::LIFETIME, bytes);
        }
        self.encode_lists(&mut out);
        if let Some(history) = &self.history {
            out.nested(tag::HISTORY, |out| history.put(out));
        }
        if let Some(later) = &self.later {
            out.nested(tag::LATER, |out| later.put(out));
        }
        out.finish()
    }

    fn encode_lists(&self, out: &mut FieldWriter) {
        for keyspace in &self.keyspaces {
            out.nested(tag::KEYSPACE, |out| entries::put_keyspace(out, keyspace));
        }
        for id in &self.dropped_keyspaces {
            out.put_u64(tag::DROPPED_KEYSPACE, id.0.into());
        }
        for partition in &self.partitions {
            out.nested(tag::PARTITION, |out| entries::put_partition(out, partition));
        }
        for id in &self.dropped_partitions {
            out.put_u64(tag::DROPPED_PARTITION, id.0);
        }
        for meta in &self.record_files {
            out.nested(tag::RECORD_FILE, |out| entries::put_record_file(out, meta));
        }
        for number in &self.dropped_record_files {
            out.put_u64(tag::DROPPED_RECORD_FILE, number.0);
        }
        for place in &self.tables {
            out.nested(tag::TABLE, |out| entries::put_table(out, place));
        }
        for (partition, generation) in &self.dropped_generations {
            out.nested(tag::DROPPED_GENERATION, |out| {
                entries::put_dropped_generation(out, *partition, *generation);
            });
        }
        for (partition, meta) in &self.key_tables {
            out.nested(tag::KEY_TABLE, |out| {
                entries::put_key_table(out, *partition, meta)
            });
        }
        for (partition, number) in &self.dropped_key_tables {
            out.nested(tag::DROPPED_KEY_TABLE, |out| {
                entries::put_dropped_key_table(out, *partition, *number);
            });
        }
        for run in &self.scan_runs {
            out.nested(tag::SCAN_RUN, |out| entries::put_scan_run(out, run));
        }
        for (partition, generation) in &self.dropped_scan_runs {
            out.nested(tag::DROPPED_SCAN_RUN, |out| {
                entries::put_dropped_generation(out, *partition, *generation);
            });
        }
    }

    /// Decodes an edit that stood at `offset` of `path`.
    pub(crate) fn decode(bytes: &[u8], path: &Path, offset: u64) -> Result<VersionEdit> {
        let place = Place { path, offset };
        let edit = Fields::read(bytes, "version edit", 1..=tag::LAST, place)?;
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        Ok(VersionEdit {
            next_file: edit.optional_number(tag::NEXT_FILE)?,
            last_seq: match edit.u64(tag::LAST_SEQ)? {
                Some(number) => Some(entries::seq(&edit, tag::LAST_SEQ, number)?),
                None => None,
            },
            wal_low_water: edit.optional_number(tag::WAL_LOW_WATER)?.map(FileNumber),
            wal_durable: entries::durable(&edit, tag::WAL_DURABLE)?,
            clock_ms: edit.u64(tag::CLOCK_MS)?,
            hash_seed: edit.u64(tag::HASH_SEED)?,
            next_partition: edit.optional_number(tag::NEXT_PARTITION)?,
            options: owned(edit.bytes(tag::OPTIONS)?),
            commit_tag: owned(edit.bytes(tag::COMMIT_TAG)?),
            edits_before: edit.optional_number(tag::EDITS_BEFORE)?,
            lifetime: owned(edit.bytes(tag::LIFETIME)?),
            last_keyspace: entries::optional_u32(&edit, tag::LAST_KEYSPACE)?,
            keyspaces: list(&edit, tag::KEYSPACE, place, entries::keyspace)?,
            dropped_keyspaces: list(&edit, tag::DROPPED_KEYSPACE, place, |bytes, place| {
                let id = u32::try_from(number(bytes, place)?);
                let id = id.map_err(|_| place.corrupt("version edit: no such keyspace"))?;
                Ok(KeyspaceId(id))
            })?,
            partitions: list(&edit, tag::PARTITION, place, entries::partition)?,
            dropped_partitions: list(&edit, tag::DROPPED_PARTITION, place, |bytes, place| {
                Ok(PartitionId(number(bytes, place)?))
            })?,
            record_files: list(&edit, tag::RECORD_FILE, place, entries::record_file)?,
            dropped_record_files: list(&edit, tag::DROPPED_RECORD_FILE, place, |bytes, place| {
                Ok(FileNumber(number(bytes, place)?))
            })?,
            tables: list(&edit, tag::TABLE, place, entries::table)?,
            dropped_generations: list(
                &edit,
                tag::DROPPED_GENERATION,
                place,
                entries::dropped_generation,
            )?,
            key_tables: list(&edit, tag::KEY_TABLE, place, entries::key_table)?,
            dropped_key_tables: list(
                &edit,
                tag::DROPPED_KEY_TABLE,
                place,
                entries::dropped_key_table,
            )?,
            scan_runs: list(&edit, tag::SCAN_RUN, place, entries::scan_run)?,
            dropped_scan_runs: list(
                &edit,
                tag::DROPPED_SCAN_RUN,
                place,
                entries::dropped_generation,
            )?,
            history: history(&edit, tag::HISTORY, place)?.map(Arc::new),
            later: history(&edit, tag::LATER, place)?.map(Box::new),
        })
    }
}

fn history(fields: &Fields<'_>, tag: u16, place: Place<'_>) -> Result<Option<History>> {
    let bytes = fields.bytes(tag)?;
    bytes.map(|bytes| History::decode(bytes, place)).transpose()
}

/// Decodes every field with `tag`.
fn list<'a, T>(
    fields: &Fields<'a>,
    tag: u16,
    place: Place<'a>,
    decode: impl Fn(&'a [u8], Place<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    fields.all(tag).map(|bytes| decode(bytes, place)).collect()
}

fn number(bytes: &[u8], place: Place<'_>) -> Result<u64> {
    let array = bytes.try_into();
    let array = array.map_err(|_| place.corrupt("version edit: a number has a wrong length"))?;
    Ok(u64::from_le_bytes(array))
}

#[cfg(test)]
pub(crate) mod tests;
