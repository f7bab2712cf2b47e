//! The entries of an edit: keyspaces, partitions, files and places, each a sequence of tagged
//! fields of its own.

use super::super::scan_run::ScanRunMeta;
use super::super::tagged::{FieldWriter, Fields, Place};
use super::{KeyspaceMeta, PartitionMeta, TablePlace, TableShare, compression, figures, ranges};
use crate::base::coding::Decoder;
use crate::base::keys::{FileNumber, FileUid, GenerationId, KeyspaceId, PartitionId, SeqNo, Slot};
use crate::error::Result;
use crate::key_table::meta::KeyTableMeta;
use crate::key_table::refs::RecordFileRefs;
use crate::log::{DurablePoint, DurableSegment};
use crate::record::meta::RecordFileMeta;

/// The tags within a keyspace, a partition, a table place, a scan run and a drop.
mod part {
    pub(super) const ID: u16 = 1;
    pub(super) const NAME_OR_START: u16 = 2;
    pub(super) const OPTIONS_OR_END: u16 = 3;
    pub(super) const GENERATION: u16 = 4;
    pub(super) const SLOT: u16 = 5;
    pub(super) const FILE: u16 = 6;
    pub(super) const SHARE: u16 = 7;
    pub(super) const KEY_TABLE: u16 = 8;
    pub(super) const HIDDEN_BYTES: u16 = 9;
    pub(super) const DATA: u16 = 10;
    pub(super) const DEFAULT_TTL_MS: u16 = 11;
    pub(super) const LAST: u16 = DEFAULT_TTL_MS;
}

/// The tags within a record file or a key table.
mod file {

    pub(super) const NUMBER: u16 = 1;
    pub(super) const UID: u16 = 2;
    pub(super) const LEN: u16 = 3;
    pub(super) const COUNT: u16 = 4;
    pub(super) const MIN_KEY: u16 = 5;
    pub(super) const MAX_KEY: u16 = 6;
    pub(super) const SEQS: u16 = 7;
    pub(super) const CHECKSUM: u16 = 8;
    pub(super) const EXPIRY: u16 = 9;
    pub(super) const HAS_RANGE_DELETES: u16 = 10;
    pub(super) const RECORDS_END: u16 = 11;
    pub(super) const KEY_SECTION: u16 = 12;
    pub(super) const PARTITION: u16 = 13;
    pub(super) const REFS: u16 = 14;
    pub(super) const INLINE_BYTES: u16 = 15;
    pub(super) const CLIP_START: u16 = 16;
    pub(super) const CLIP_END: u16 = 17;
    pub(super) const OLDER_BYTES: u16 = 18;
    pub(super) const INGEST_SEQ: u16 = 19;
    pub(super) const LAST: u16 = super::figures::EXPIRING;
}

/// Bytes of one reference to a record file: number, count, bytes.
const REF_LEN: usize = 24;

pub(super) fn put_keyspace(out: &mut FieldWriter, keyspace: &KeyspaceMeta) {
    out.put_u64(part::ID, u64::from(keyspace.id.0));
    out.put(part::NAME_OR_START, keyspace.name.as_bytes());
    out.put(part::OPTIONS_OR_END, &keyspace.options);
    if keyspace.data != keyspace.id {
        out.put_u64(part::DATA, u64::from(keyspace.data.0));
    }
    if let Some(ms) = keyspace.default_ttl_ms {
        out.put_u64(part::DEFAULT_TTL_MS, ms);
    }
}

pub(super) fn keyspace(bytes: &[u8], place: Place<'_>) -> Result<KeyspaceMeta> {
    let f = Fields::read(bytes, "keyspace", 1..=part::LAST, place)?;
    let name = f.required(part::NAME_OR_START)?.to_vec();
    let name = String::from_utf8(name)
        .map_err(|_| f.corrupt(part::NAME_OR_START, "is not valid UTF-8"))?;
    let id = optional_u32(&f, part::ID)?.ok_or_else(|| f.corrupt(part::ID, "is missing"))?;
    Ok(KeyspaceMeta {
        id: KeyspaceId(id),
        data: KeyspaceId(optional_u32(&f, part::DATA)?.unwrap_or(id)),
        name,
        options: f.required(part::OPTIONS_OR_END)?.to_vec(),
        since: SeqNo(0),
        default_ttl_ms: f.u64(part::DEFAULT_TTL_MS)?,
    })
}

/// A number of a keyspace, where there is one.
pub(super) fn optional_u32(fields: &Fields<'_>, tag: u16) -> Result<Option<u32>> {
    let number = fields.u64(tag)?.map(u32::try_from).transpose();
    number.map_err(|_| fields.corrupt(tag, "is out of range"))
}

pub(super) fn put_partition(out: &mut FieldWriter, partition: &PartitionMeta) {
    out.put_u64(part::ID, partition.id.0);
    out.put(part::NAME_OR_START, &partition.start);
    if let Some(end) = &partition.end {
        out.put(part::OPTIONS_OR_END, end);
    }
}

pub(super) fn partition(bytes: &[u8], place: Place<'_>) -> Result<PartitionMeta> {
    let f = Fields::read(bytes, "partition", 1..=part::LAST, place)?;
    Ok(PartitionMeta {
        id: PartitionId(f.number(part::ID)?),
        start: f.required(part::NAME_OR_START)?.to_vec(),
        end: f.bytes(part::OPTIONS_OR_END)?.map(<[u8]>::to_vec),
    })
}

pub(super) fn put_dropped_generation(
    out: &mut FieldWriter,
    partition: PartitionId,
    generation: GenerationId,
) {
    out.put_u64(part::ID, partition.0);
    out.put_u64(part::GENERATION, generation.0);
}

pub(super) fn dropped_generation(
    bytes: &[u8],
    place: Place<'_>,
) -> Result<(PartitionId, GenerationId)> {
    let f = Fields::read(bytes, "dropped generation", 1..=part::LAST, place)?;
    let generation = GenerationId(f.number(part::GENERATION)?);
    Ok((PartitionId(f.number(part::ID)?), generation))
}

pub(super) fn put_dropped_key_table(
    out: &mut FieldWriter,
    partition: PartitionId,
    number: FileNumber,
) {
    out.put_u64(part::ID, partition.0);
    out.put_u64(part::FILE, number.0);
}

pub(super) fn dropped_key_table(
    bytes: &[u8],
    place: Place<'_>,
) -> Result<(PartitionId, FileNumber)> {
    let f = Fields::read(bytes, "dropped key table", 1..=part::LAST, place)?;
    let number = FileNumber(f.number(part::FILE)?);
    Ok((PartitionId(f.number(part::ID)?), number))
}

pub(super) fn put_table(out: &mut FieldWriter, place: &TablePlace) {
    out.put_u64(part::ID, place.partition.0);
    out.put_u64(part::GENERATION, place.generation.0);
    out.put_u64(part::SLOT, u64::from(place.slot.0));
    out.put_u64(part::FILE, place.file.0);
    if let Some(TableShare { records, bytes }) = place.share {
        out.put(part::SHARE, &pair_bytes((records, bytes)));
    }
    if place.hidden_bytes > 0 {
        out.put_skippable(part::HIDDEN_BYTES, &place.hidden_bytes.to_le_bytes());
    }
}

pub(super) fn table(bytes: &[u8], place: Place<'_>) -> Result<TablePlace> {
    let f = Fields::read(bytes, "table", 1..=part::LAST, place)?;
    Ok(TablePlace {
        partition: PartitionId(f.number(part::ID)?),
        generation: GenerationId(f.number(part::GENERATION)?),
        slot: slot(&f)?,
        file: FileNumber(f.number(part::FILE)?),
        share: match f.pair(part::SHARE)? {
            Some((records, bytes)) => Some(TableShare {
                records: f.checked_amount(part::SHARE, records)?,
                bytes: f.checked_amount(part::SHARE, bytes)?,
            }),
            None => None,
        },
        hidden_bytes: match f.u64(part::HIDDEN_BYTES)? {
            Some(bytes) => f.checked_amount(part::HIDDEN_BYTES, bytes)?,
            None => 0,
        },
    })
}

pub(super) fn put_scan_run(out: &mut FieldWriter, run: &ScanRunMeta) {
    out.put_u64(part::ID, run.partition.0);
    out.put_u64(part::GENERATION, run.generation.0);
    out.put_u64(part::SLOT, u64::from(run.end.0));
    for table in &run.tables {
        out.nested(part::KEY_TABLE, |out| {
            put_key_table(out, run.partition, table);
        });
    }
}

pub(super) fn scan_run(bytes: &[u8], place: Place<'_>) -> Result<ScanRunMeta> {
    let f = Fields::read(bytes, "scan run", 1..=part::LAST, place)?;
    let partition = PartitionId(f.number(part::ID)?);
    let table = |bytes| match key_table(bytes, place)? {
        (owner, table) if owner == partition => Ok(table),
        _ => Err(f.corrupt(part::KEY_TABLE, "belongs to another partition")),
    };
    Ok(ScanRunMeta {
        partition,
        generation: GenerationId(f.number(part::GENERATION)?),
        end: slot(&f)?,
        tables: f.all(part::KEY_TABLE).map(table).collect::<Result<_>>()?,
    })
}

fn slot(f: &Fields<'_>) -> Result<Slot> {
    let slot = u16::try_from(f.required_u64(part::SLOT)?);
    let slot = slot.map_err(|_| f.corrupt(part::SLOT, "is out of range"))?;
    Ok(Slot(slot))
}

fn pair_bytes((a, b): (u64, u64)) -> [u8; 16] {
    (u128::from(a) | u128::from(b) << 64).to_le_bytes()
}

pub(super) fn put_record_file(out: &mut FieldWriter, meta: &RecordFileMeta) {
    out.put_u64(file::NUMBER, meta.number.0);
    out.put_u64(file::UID, meta.uid.0);
    out.put_u64(file::LEN, meta.len);
    out.put_u64(file::COUNT, meta.count);
    out.put(file::MIN_KEY, &meta.min_key);
    out.put(file::MAX_KEY, &meta.max_key);
    out.put(file::SEQS, &pair_bytes((meta.min_seq.0, meta.max_seq.0)));
    out.put(file::CHECKSUM, &meta.checksum.to_le_bytes());
    if let Some(expiry) = meta.expiry {
        out.put(file::EXPIRY, &pair_bytes(expiry));
    }
    if meta.has_range_deletes {
        out.put(file::HAS_RANGE_DELETES, &[]);
    }
    ranges::put(out, meta.ranges.as_ref());
    out.put_u64(file::RECORDS_END, meta.records_end);
    if meta.key_section {
        out.put(file::KEY_SECTION, &[]);
    }
    if !meta.refs.is_empty() {
        out.put(file::REFS, &ref_bytes(&meta.refs));
    }
    if let Some(seq) = meta.ingest_seq {
        out.put_u64(file::INGEST_SEQ, seq.0);
    }
    compression::put(out, &meta.compression);
}

fn ref_bytes(refs: &[RecordFileRefs]) -> Vec<u8> {
    let numbers = refs.iter().flat_map(|r| [r.file.0, r.count, r.bytes]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

pub(super) fn record_file(bytes: &[u8], place: Place<'_>) -> Result<RecordFileMeta> {
    let f = Fields::read(bytes, "record file", 1..=file::LAST, place)?;
    let (min_seq, max_seq) = seqs(&f)?;
    let meta = RecordFileMeta {
        number: FileNumber(f.number(file::NUMBER)?),
        uid: FileUid(f.required_u64(file::UID)?),
        len: f.amount(file::LEN)?,
        records_end: f.amount(file::RECORDS_END)?,
        count: f.amount(file::COUNT)?,
        min_key: f.required(file::MIN_KEY)?.to_vec(),
        max_key: f.required(file::MAX_KEY)?.to_vec(),
        min_seq,
        max_seq,
        checksum: f.required_u32(file::CHECKSUM)?,
        expiry: f.pair(file::EXPIRY)?,
        has_range_deletes: f.flag(file::HAS_RANGE_DELETES)?,
        ranges: ranges::of(&f)?,
        key_section: f.flag(file::KEY_SECTION)?,
        refs: refs(&f, f.bytes(file::REFS)?.unwrap_or_default())?,
        ingest_seq: match f.u64(file::INGEST_SEQ)? {
            Some(number) => Some(seq(&f, file::INGEST_SEQ, number)?),
            None => None,
        },
        compression: compression::of_values(&f, place)?,
    };
    if meta.plain_end() > meta.records_end {
        return Err(f.corrupt(ranges::RANGES, "lies behind the records"));
    }
    if meta.records_end > meta.len {
        return Err(f.corrupt(file::RECORDS_END, "lies behind the end of the file"));
    }
    Ok(meta)
}

fn seqs(f: &Fields<'_>) -> Result<(SeqNo, SeqNo)> {
    let (min, max) = f
        .pair(file::SEQS)?
        .ok_or_else(|| f.corrupt(file::SEQS, "is missing"))?;
    Ok((seq(f, file::SEQS, min)?, seq(f, file::SEQS, max)?))
}

/// A sequence number that was read from the field with `tag`.
pub(super) fn seq(f: &Fields<'_>, tag: u16, number: u64) -> Result<SeqNo> {
    match SeqNo(number) {
        seq if seq <= SeqNo::MAX => Ok(seq),
        _ => Err(f.corrupt(tag, "is greater than a sequence number can be")),
    }
}

/// What of the log was durable, if the field with `tag` is there.
pub(super) fn durable(f: &Fields<'_>, tag: u16) -> Result<Option<DurableSegment>> {
    let Some(bytes) = f.array::<24>(tag)? else {
        return Ok(None);
    };
    let mut numbers = Decoder::new(&bytes);
    let mut next = || numbers.u64().ok_or_else(|| f.corrupt(tag, "is cut short"));
    let (file, uid, offset) = (next()?, next()?, next()?);
    let point = DurablePoint {
        file: FileNumber(f.checked_number(tag, file)?),
        offset: f.checked_amount(tag, offset)?,
    };
    let uid = FileUid(uid);
    Ok(Some(DurableSegment { point, uid }))
}

pub(super) fn put_durable(out: &mut FieldWriter, tag: u16, segment: DurableSegment) {
    let DurableSegment { point, uid } = segment;
    let numbers = [point.file.0, uid.0, point.offset].map(u64::to_le_bytes);
    out.put(tag, numbers.as_flattened());
}

pub(super) fn put_key_table(out: &mut FieldWriter, partition: PartitionId, meta: &KeyTableMeta) {
    out.put_u64(file::PARTITION, partition.0);
    out.put_u64(file::NUMBER, meta.number.0);
    out.put_u64(file::UID, meta.uid.0);
    out.put_u64(file::LEN, meta.len);
    out.put_u64(file::COUNT, meta.count);
    out.put(file::MIN_KEY, &meta.min_key);
    out.put(file::MAX_KEY, &meta.max_key);
    out.put(file::SEQS, &pair_bytes((meta.min_seq.0, meta.max_seq.0)));
    out.put(file::CHECKSUM, &meta.checksum.to_le_bytes());
    out.put(file::REFS, &ref_bytes(&meta.refs));
    out.put_u64(file::INLINE_BYTES, meta.inline_bytes);
    if meta.older_bytes > 0 {
        out.put_u64(file::OLDER_BYTES, meta.older_bytes);
    }
    figures::put(out, meta);
    if let Some(expiry) = meta.expiry {
        out.put(file::EXPIRY, &pair_bytes(expiry));
    }
    if meta.has_range_deletes {
        out.put(file::HAS_RANGE_DELETES, &[]);
    }
    if let Some((start, end)) = &meta.clip {
        out.put(file::CLIP_START, start);
        out.put(file::CLIP_END, end);
    }
    compression::put(out, &meta.compression);
}

pub(super) fn key_table(bytes: &[u8], place: Place<'_>) -> Result<(PartitionId, KeyTableMeta)> {
    let f = Fields::read(bytes, "key table", 1..=file::LAST, place)?;
    let (min_seq, max_seq) = seqs(&f)?;
    let clip = match (f.bytes(file::CLIP_START)?, f.bytes(file::CLIP_END)?) {
        (Some(start), Some(end)) => Some((start.to_vec(), end.to_vec())),
        (None, None) => None,
        _ => return Err(f.corrupt(file::CLIP_START, "comes without its other end")),
    };
    let meta = KeyTableMeta {
        number: FileNumber(f.number(file::NUMBER)?),
        uid: FileUid(f.required_u64(file::UID)?),
        len: f.amount(file::LEN)?,
        count: f.amount(file::COUNT)?,
        min_key: f.required(file::MIN_KEY)?.to_vec(),
        max_key: f.required(file::MAX_KEY)?.to_vec(),
        min_seq,
        max_seq,
        checksum: f.required_u32(file::CHECKSUM)?,
        refs: refs(&f, f.required(file::REFS)?)?,
        inline_bytes: f.amount(file::INLINE_BYTES)?,
        older_bytes: match f.u64(file::OLDER_BYTES)? {
            Some(bytes) => f.checked_amount(file::OLDER_BYTES, bytes)?,
            None => 0,
        },
        newest: figures::newest(&f)?,
        expiry: f.pair(file::EXPIRY)?,
        expiring: figures::expiring(&f)?,
        has_range_deletes: f.flag(file::HAS_RANGE_DELETES)?,
        clip,
        compression: compression::of_blocks(&f, place)?,
    };
    Ok((PartitionId(f.number(file::PARTITION)?), meta))
}

fn refs(f: &Fields<'_>, bytes: &[u8]) -> Result<Vec<RecordFileRefs>> {
    let wrong = || f.corrupt(file::REFS, "has a wrong length");
    let mut d = Decoder::new(bytes);
    let mut refs = Vec::with_capacity(bytes.len() / REF_LEN);
    while !d.is_empty() {
        refs.push(RecordFileRefs {
            file: FileNumber(f.checked_number(file::REFS, d.u64().ok_or_else(wrong)?)?),
            count: f.checked_amount(file::REFS, d.u64().ok_or_else(wrong)?)?,
            bytes: f.checked_amount(file::REFS, d.u64().ok_or_else(wrong)?)?,
        });
    }
    Ok(refs)
}
