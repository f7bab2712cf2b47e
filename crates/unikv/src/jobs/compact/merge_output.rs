//! The files that a merge writes: key tables, and record files with the values that it moves.

use super::cluster::bytes_to_move;
use super::key_tables::KeyTableCutter;
use super::moved_values::MovedValues;
use crate::base::keys::{FileNumber, KEYSPACE_PREFIX_LEN, Kind};
use crate::base::seeded::seeded;
use crate::codec::Compression;
use crate::error::{Error, Result};
use crate::jobs::JobContext;
use crate::jobs::compact::parts::{Kept, KeptValue, MergeInputs, MergeRules, Merged};
use crate::key_table::{EntryValue, KeyEntry, KeyTableMeta, RecordPointer};
use crate::record::pointed::check_found;
use crate::record::{
    External, Record, RecordFile, RecordRef, RecordStream, RecordWriter, STREAMED_BYTES,
    StoredRecord, ValueReader, frame_len,
};
use crate::version::{Generation, KeyRange};
use std::collections::HashMap;
use std::slice::from_ref;
use std::sync::Arc;

/// Collects merged keys into key tables of the target size.
pub(crate) struct MergeOutput<'a> {
    context: &'a JobContext<'a>,
    rules: MergeRules<'a>,
    /// The record files to be read, each front to back: within one, pointers ascend in key order.
    /// They are the generations' tables and the victims.
    inputs: HashMap<FileNumber, Input>,
    /// Bytes of the buffer of each, and of all that there are.
    buffer: usize,
    held: usize,
    /// Values of victims.
    moved: &'a mut MovedValues,
    /// Whether values of victims still move: not at the end of a slice.
    moves: bool,
    key_tables: KeyTableCutter<'a>,
    made: Merged,
}

/// A record file that a merge reads values from.
struct Input {
    file: Arc<RecordFile>,
    stream: Option<RecordStream>,
    /// Whether all its live records are to move.
    victim: bool,
    /// Bytes of the file that are the partition's, side by side: to read more at a time would
    /// read those of its neighbours for each of them.
    share_bytes: u64,
}

/// How many bytes a slice copies between two looks at who waits.
const LOOK_EVERY: u64 = 1 << 20;

impl<'a> MergeOutput<'a> {
    pub(crate) fn new(
        context: &'a JobContext<'a>,
        inputs: &MergeInputs,
        rules: MergeRules<'a>,
        buffer: usize,
        range: KeyRange<'_>,
        moved: &'a mut MovedValues,
    ) -> MergeOutput<'a> {
        let input = |(file, victim, share_bytes): (&Arc<RecordFile>, bool, u64)| {
            let file = Arc::clone(file);
            (
                file.meta().number,
                Input {
                    file,
                    stream: None,
                    victim,
                    share_bytes,
                },
            )
        };
        let tables = inputs.generations.iter().flat_map(Generation::shares);
        let plain = tables.map(|(_, table)| (&table.file, false, table.share().bytes));
        let victims = inputs.victims.iter();
        let files = plain.chain(victims.map(|file| (file, true, u64::MAX)));
        let referenced_bytes = rules.referenced_bytes(context.key_table_referenced_bytes);
        MergeOutput {
            context,
            rules,
            inputs: files.map(input).collect(),
            buffer,
            held: 0,
            moved,
            moves: true,
            key_tables: KeyTableCutter::new(context, range.start, referenced_bytes),
            made: Merged::default(),
        }
    }

    /// Whether ending the key table here would leave it much smaller than its target.
    pub(crate) fn would_leave_an_undersized_table(&self) -> bool {
        !self.key_tables.is_empty() && !self.key_tables.is_full_by(4)
    }

    /// Adds a key with its kept versions, newest first.
    pub(crate) fn add_key(&mut self, key: &[u8], kept: &[Kept], inline: &[u8]) -> Result<()> {
        let clusters = self.rules.slice.is_some();
        let kept = match kept {
            [newest, ..] if clusters && seeded!(ClusterNewestAlone) => from_ref(newest),
            [.., oldest] if clusters && seeded!(ClusterOldestAlone) => from_ref(oldest),
            _ => kept,
        };
        let copied = self.made.copied_bytes;
        for version in kept {
            self.add_version(key, version, inline)?;
        }
        self.moves &= self.has_not_ended(copied);
        if self.key_tables.is_full_by(1) {
            self.key_tables.cut()?;
        }
        Ok(())
    }

    fn add_version(&mut self, key: &[u8], version: &Kept, inline: &[u8]) -> Result<()> {
        let (record, inlined);
        let mut kind = version.kind;
        let value = match &version.value {
            KeptValue::None => EntryValue::None,
            KeptValue::Inline(range) => {
                EntryValue::Inline(inline.get(range.clone()).unwrap_or_default())
            }
            KeptValue::Pointer(pointer) => {
                let without_value = frame_len(key.len(), 0, version.expiry_ms.is_some());
                let value_len = u64::from(pointer.len).saturating_sub(without_value);
                let moves = self.moves(*pointer);
                if kind == Kind::External {
                    kind = Kind::Put;
                    EntryValue::Pointer(self.place_of_large(key, version, *pointer)?)
                } else if moves && pointer.len >= STREAMED_BYTES {
                    EntryValue::Pointer(self.copy_streamed(key, version, *pointer)?)
                } else if moves || version.unsorted && self.is_inline(key, value_len) {
                    let stored = self.read(key, version, *pointer)?;
                    // What counts is the length before it was compressed.
                    if version.unsorted && self.is_inline(key, stored.raw_len() as u64) {
                        if seeded!(InlineAsStored) {
                            inlined = stored;
                            EntryValue::Inline(inlined.stored_value())
                        } else {
                            record = self.expanded(stored, *pointer)?;
                            EntryValue::Inline(record.value_slice())
                        }
                    } else if moves && stored.is_chunked() {
                        EntryValue::Pointer(self.copy_streamed(key, version, *pointer)?)
                    } else if moves {
                        EntryValue::Pointer(self.copy(stored, version, *pointer)?)
                    } else {
                        EntryValue::Pointer(*pointer)
                    }
                } else {
                    EntryValue::Pointer(*pointer)
                }
            }
        };
        let (mut seq, mut expiry_ms) = (version.seq, version.expiry_ms);
        if seeded!(GcRenumbers) && !version.unsorted {
            seq.0 += 1;
        }
        if seeded!(MergePersists) && matches!(value, EntryValue::Inline(_)) {
            expiry_ms = None;
        }
        self.key_tables.add(&KeyEntry {
            key,
            seq,
            kind,
            expiry_ms,
            value,
        });
        Ok(())
    }

    /// Whether a value is to stand beside its key. Merges write the key again and again in any
    /// case, so that costs no more than twice as much for a value shorter than it, and its record's
    /// copy of the key goes.
    fn is_inline(&self, key: &[u8], value_len: u64) -> bool {
        let key_len = key.len().saturating_sub(KEYSPACE_PREFIX_LEN);
        value_len < self.rules.inline_value_bytes.max(key_len) as u64
    }

    /// Whether the value is to move.
    fn moves(&self, pointer: RecordPointer) -> bool {
        self.moves && self.is_victim(pointer.file)
    }

    fn is_victim(&self, file: FileNumber) -> bool {
        self.inputs.get(&file).is_some_and(|input| input.victim)
    }

    /// Whether a key table has values that are to move: for a slice from several files, or its
    /// scans would visit as many places as before.
    pub(crate) fn has_to_move(&self, table: &KeyTableMeta) -> bool {
        let is_victim = |file| self.is_victim(file);
        self.moves
            && match self.rules.slice {
                Some(_) => bytes_to_move(table, is_victim) > 0,
                None => table.refs.iter().any(|refs| is_victim(refs.file)),
            }
    }

    /// Whether nothing more is to be done for its own sake: a slice has come to its end.
    pub(crate) fn has_ended(&self) -> bool {
        !self.moves
    }

    /// Whether a slice goes on that had copied `before` the last key these bytes.
    fn has_not_ended(&self, before: u64) -> bool {
        let copied = self.made.copied_bytes;
        let Some(slice) = self.rules.slice.filter(|_| copied > before) else {
            return true;
        };
        let looks = copied / LOOK_EVERY > before / LOOK_EVERY;
        let ends = copied >= slice.most_bytes || looks && (slice.is_awaited)();
        !ends || seeded!(ClusterWhole)
    }

    /// Reads the record of a key entry and makes sure that it is the one.
    fn read(&mut self, key: &[u8], version: &Kept, pointer: RecordPointer) -> Result<StoredRecord> {
        let (buffer, held) = (self.buffer, self.held);
        let most = self.context.read_buffers_bytes;
        let Input {
            file,
            stream,
            share_bytes,
            ..
        } = self.input(pointer)?;
        let opened = match stream {
            Some(opened) => opened,
            None => stream.insert(file.stream_of_share(*share_bytes, pointer.offset, buffer)?),
        };
        let before = opened.held_bytes();
        let record = opened.read(pointer)?;
        let RecordRef {
            key: of, seq, kind, ..
        } = record.head();
        check_found((of, seq, kind), version.expected(key), file.path(), pointer)?;
        let mut now = held - before + opened.held_bytes();
        // More files than there is memory for: of those beyond, each record is read by itself.
        if now > most && held > 0 {
            now -= opened.held_bytes();
            *stream = None;
        }
        self.held = now;
        Ok(record)
    }

    /// A record of the file that `pointer` names, with its raw value.
    fn expanded(&mut self, stored: StoredRecord, pointer: RecordPointer) -> Result<Record> {
        self.input(pointer)?.file.expanded(stored)
    }

    fn input(&mut self, pointer: RecordPointer) -> Result<&mut Input> {
        let dir = self.context.store.dir();
        self.inputs.get_mut(&pointer.file).ok_or_else(|| {
            let what = format!("a key points to file {}, not its own table", pointer.file.0);
            Error::corruption(dir, 0, what)
        })
    }

    /// Where the large value stands that the record at `pointer` names.
    fn place_of_large(
        &mut self,
        key: &[u8],
        version: &Kept,
        pointer: RecordPointer,
    ) -> Result<RecordPointer> {
        let record = self.read(key, version, pointer)?;
        let record = self.expanded(record, pointer)?;
        let external = External::decode(record.value_slice()).ok_or_else(|| {
            let what = "what stands in the place of a large value is malformed";
            Error::corruption(self.context.store.dir(), pointer.offset, what)
        })?;
        Ok(external.pointer)
    }

    /// Writes a value once more, after the one before it in key order. What readers had in memory
    /// they have there afterwards.
    fn copy(
        &mut self,
        stored: StoredRecord,
        version: &Kept,
        from: RecordPointer,
    ) -> Result<RecordPointer> {
        let context = self.context;
        context.check_cancelled()?;
        let file = Arc::clone(&self.input(from)?.file);
        let head = RecordRef {
            older_follows: false,
            seq: version.seq,
            ..stored.head()
        };
        let compression = context.compressions.of(head.key);
        let source = file.meta().compression;
        let writer = self.writer(head.key, compression)?;
        let copied = writer.append_copy(&head, &stored, &source, compression)?;
        let is_cached = context.cache.holds(from.file, from.offset);
        let pointer = match copied {
            Some(pointer) if !is_cached => pointer,
            _ => {
                let record = file.expanded(stored.clone())?;
                let record = RecordRef {
                    value: record.value_slice(),
                    ..head
                };
                let pointer = match copied {
                    Some(pointer) => pointer,
                    None => writer.append_as(&record, compression)?,
                };
                if is_cached {
                    writer.keep_last(&record, pointer, context.cache, false);
                    self.made.moved.push((from.file, from.offset));
                }
                pointer
            }
        };
        self.made.copied_bytes += u64::from(pointer.len);
        Ok(pointer)
    }

    /// As [`MergeOutput::copy`] for a large record, which is never in memory whole.
    fn copy_streamed(
        &mut self,
        key: &[u8],
        version: &Kept,
        pointer: RecordPointer,
    ) -> Result<RecordPointer> {
        let context = self.context;
        self.made.copied_bytes += u64::from(pointer.len);
        let file = Arc::clone(&self.input(pointer)?.file);
        let mut source = ValueReader::open(&file, pointer)?;
        let found = (source.key(), source.seq(), source.kind());
        check_found(found, version.expected(key), file.path(), pointer)?;
        let record = RecordRef {
            key,
            seq: version.seq,
            kind: version.kind,
            value: &[],
            expiry_ms: version.expiry_ms,
            host_type: source.host_type(),
            older_follows: false,
        };
        let writer = self.writer(key, context.compressions.of(key))?;
        let compression = file.meta().compression;
        let copied = writer.append_streamed(&record, &mut source, &compression, || {
            context.check_cancelled()
        })?;
        source.finish()?;
        Ok(copied)
    }

    /// The file to write the next value to.
    fn writer(&mut self, key: &[u8], compression: Compression) -> Result<&mut RecordWriter> {
        let victims = self.inputs.values().filter(|input| input.victim);
        let files = victims.map(|input| &input.file);
        self.moved.writer(self.context, key, compression, files)
    }

    /// Ends the key table being built: `table` comes next, and stays.
    pub(crate) fn keep_table(&mut self, table: &KeyTableMeta) -> Result<()> {
        self.key_tables.keep(table)
    }

    /// Ends all key tables; the range of the partition ends before `end`.
    pub(crate) fn finish(mut self, end: Option<&[u8]>) -> Result<Merged> {
        self.made.key_tables = self.key_tables.finish(end)?;
        Ok(self.made)
    }
}
