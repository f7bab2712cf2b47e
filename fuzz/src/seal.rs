//! Makes the checksums of changed files right, as `docs/format.md` defines them, so that what lies
//! behind a checksum is reached. Lengths are taken as they stand: those that lie go on lying.
//!
//! This is a second reading of the formats, by intention: it shares nothing with the engine but the
//! checksum itself.

use std::ops::Range;
use unikv::fuzzing::{checksum, plain_checksum};

/// Bytes of a file header.
pub const HEADER_LEN: usize = 96;
/// Bytes before a log record's payload.
pub const LOG_RECORD_LEN: usize = 24;
/// Bytes of a footer.
pub const FOOTER_LEN: usize = 48;
const FRAME_HEADER_LEN: usize = 32;

/// The database of every file that a target makes.
pub const DATABASE: [u8; 16] = *b"a fuzzed databas";

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// The uid in a file's header.
pub fn uid(file: &[u8]) -> u64 {
    u64_at(file, 48).unwrap_or(0)
}

/// Makes `file` begin with a whole header of this kind and number. Only its uid stays.
pub fn header(file: &mut Vec<u8>, kind: u8, number: u64, database: [u8; 16]) {
    if file.len() < HEADER_LEN {
        file.resize(HEADER_LEN, 7);
    }
    let mut head = [0; HEADER_LEN];
    head[..8].copy_from_slice(b"UniKV\r\n\x1a");
    head[8..12].copy_from_slice(&[kind, 1, 1, 0]);
    head[12] = HEADER_LEN as u8;
    head[32..48].copy_from_slice(&database);
    head[48..56].copy_from_slice(&uid(file).max(1).to_le_bytes());
    head[56..64].copy_from_slice(&number.to_le_bytes());
    file[..HEADER_LEN].copy_from_slice(&head);
    header_checksum(file);
}

/// Seals a header as it stands.
pub fn header_checksum(file: &mut [u8]) {
    let uid = uid(file);
    if let Some(head) = file.first_chunk_mut::<HEADER_LEN>() {
        let crc = checksum(uid, 0, &head[..92]);
        head[92..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Where a log ends: its number, uid, length and chain checksum.
pub type LogEnd = (u64, u64, u64, u32);

/// Seals the records of a log from the front, up to the first that reaches beyond the file. With
/// `link`, a first record that names a predecessor names this one.
pub fn log(file: &mut [u8], link: Option<LogEnd>) -> LogEnd {
    let uid = uid(file);
    let mut headers = Vec::new();
    let mut at = HEADER_LEN;
    while let Some(len) = u32_at(file, at + 8) {
        let payload = at + LOG_RECORD_LEN;
        let Some(end) = payload
            .checked_add(len as usize)
            .filter(|&end| end <= file.len())
        else {
            break;
        };
        if let Some((number, uid, end, chain)) = link
            && at == HEADER_LEN
            && file.get(payload).is_some_and(|flags| flags & 1 == 1)
            && len == 37
        {
            put(file, payload + 9, &number.to_le_bytes());
            put(file, payload + 17, &uid.to_le_bytes());
            put(file, payload + 25, &end.to_le_bytes());
            put(file, payload + 33, &chain.to_le_bytes());
        }
        let crc = checksum(uid, payload as u64, &file[payload..end]);
        put(file, at + 4, &crc.to_le_bytes());
        let crc = checksum(uid, at as u64, &file[at + 4..payload]);
        put(file, at, &crc.to_le_bytes());
        headers.extend_from_slice(&file[at..payload]);
        at = end;
    }
    let number = u64_at(file, 56).unwrap_or(0);
    (number, uid, at as u64, plain_checksum(&headers))
}

/// A log with these records: kind and payload of each.
pub fn new_log(kind: u8, number: u64, records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    header(&mut file, kind, number, DATABASE);
    for (kind, payload) in records {
        let mut head = [0; LOG_RECORD_LEN];
        head[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[12] = *kind;
        file.extend_from_slice(&head);
        file.extend_from_slice(payload);
    }
    log(&mut file, None);
    file
}

/// `CURRENT`, naming a manifest.
pub fn current(manifest_number: u64, manifest_uid: u64, database: [u8; 16]) -> Vec<u8> {
    let mut file = Vec::new();
    header(&mut file, 1, manifest_number, database);
    file.extend_from_slice(&manifest_number.to_le_bytes());
    file.extend_from_slice(&manifest_uid.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    current_checksum(&mut file);
    file
}

/// Seals the body of `CURRENT`.
pub fn current_checksum(file: &mut [u8]) {
    let uid = uid(file);
    if let Some(body) = file.get(HEADER_LEN..HEADER_LEN + 16) {
        let crc = checksum(uid, HEADER_LEN as u64, body);
        put(file, HEADER_LEN + 16, &crc.to_le_bytes());
    }
}

/// Seals the blocks of an export from the front, up to the first that reaches beyond the file, and
/// with `end` what its end says of the blocks before.
pub fn export(file: &mut [u8], end: bool) {
    let uid = uid(file);
    let mut checksums = Vec::new();
    let mut at = HEADER_LEN;
    while let Some(len) = u32_at(file, at + 4) {
        let payload = at + 9;
        let Some(next) = payload
            .checked_add(len as usize)
            .filter(|&next| next <= file.len())
        else {
            break;
        };
        if end && file[at + 8] == 4 {
            let crc = plain_checksum(&checksums);
            put(file, payload + 16, &crc.to_le_bytes());
        }
        let crc = checksum(uid, at as u64, &file[at + 4..next]);
        put(file, at, &crc.to_le_bytes());
        checksums.extend_from_slice(&crc.to_le_bytes());
        at = next;
    }
}

/// Seals the frames of a record file from the front, and what stands after them.
pub fn record_file(file: &mut [u8]) {
    let uid = uid(file);
    let end = footer(file).map_or(file.len(), |parts| parts.records_end);
    let mut at = HEADER_LEN;
    while at + FRAME_HEADER_LEN <= end.min(file.len()) {
        let expiry = if file[at + 24] & 1 == 1 { 8 } else { 0 };
        let (Some(key), Some(value)) = (u32_at(file, at + 12), u32_at(file, at + 16)) else {
            break;
        };
        let crc = checksum(uid, at as u64, &file[at + 4..at + FRAME_HEADER_LEN]);
        put(file, at, &crc.to_le_bytes());
        let payload = at + FRAME_HEADER_LEN;
        let behind = payload + expiry + key as usize + value as usize;
        if behind + 4 > file.len() {
            break;
        }
        let directory = match file[at + 25] {
            CHUNKS => chunks(file, at, payload + expiry + key as usize..behind),
            _ => None,
        };
        let crc = match directory {
            // Without the chunks, which have checksums of their own.
            Some((chunks, directory)) => {
                let body = [&file[payload..chunks], &file[directory..behind]].concat();
                checksum(uid, at as u64, &body)
            }
            None => checksum(uid, at as u64, &file[payload..behind]),
        };
        put(file, behind, &crc.to_le_bytes());
        at = behind + 4;
    }
    key_section(file);
}

/// The codec of values in chunks.
const CHUNKS: u8 = 4;

/// Seals the chunks of the frame at `at`, whose `value` these and their directory are, and says
/// where both begin.
fn chunks(file: &mut [u8], at: usize, value: Range<usize>) -> Option<(usize, usize)> {
    let (uid, bits) = (uid(file), u32::from(file[at + 27]));
    let raw_len = u32_at(file, at + 20)? as usize;
    let count = raw_len.div_ceil(1_usize.checked_shl(bits).filter(|_| bits < 32)?);
    let directory = value.end.checked_sub(count.checked_mul(8)?)?;
    let mut start = value.start;
    for entry in (directory..value.end).step_by(8) {
        let end = start + (u32_at(file, entry)? & 0xff_ffff) as usize;
        if end > directory {
            break;
        }
        let crc = checksum(uid, start as u64, &file[start..end]);
        put(file, entry + 4, &crc.to_le_bytes());
        start = end;
    }
    (directory >= value.start).then_some((value.start, directory))
}

/// The parts of a file, as its footer says; they lie within it.
struct Parts {
    records_end: usize,
    index: usize,
    properties: usize,
    footer: usize,
}

fn footer(file: &[u8]) -> Option<Parts> {
    let footer = file.len().checked_sub(FOOTER_LEN)?;
    let len = |field: usize| usize::try_from(u64_at(file, footer + field)?).ok();
    let records_end = len(8)?;
    let index = records_end.checked_add(len(16)?)?;
    let properties = index.checked_add(len(24)?)?;
    (properties <= footer).then_some(Parts {
        records_end,
        index,
        properties,
        footer,
    })
}

/// Seals blocks, index, properties and footer.
pub fn key_section(file: &mut [u8]) {
    let uid = uid(file);
    let Some(parts) = footer(file) else {
        return;
    };
    let seal = |file: &mut [u8], start: usize, end: usize| {
        if let Some(body) = end
            .checked_sub(4)
            .and_then(|body_end| file.get(start..body_end))
        {
            let crc = checksum(uid, start as u64, body);
            put(file, end - 4, &crc.to_le_bytes());
        }
    };
    let mut start = parts.records_end;
    for len in block_lengths(file.get(parts.index..parts.properties).unwrap_or_default()) {
        let Some(end) = start.checked_add(len).filter(|&end| end <= parts.index) else {
            break;
        };
        seal(file, start, end);
        start = end;
    }
    seal(file, parts.index, parts.properties);
    seal(file, parts.properties, parts.footer);
    let end = file.len();
    seal(file, parts.footer, end);
}

/// The lengths of blocks in an index, as far as it can be understood.
fn block_lengths(index: &[u8]) -> Vec<usize> {
    let (mut lengths, mut at) = (Vec::new(), 0);
    let end = index.len().saturating_sub(4);
    while at < end {
        let (Some(len), Some(fence)) = (varint(index, &mut at), varint(index, &mut at)) else {
            break;
        };
        let sequence = if fence & 1 == 1 { 8 } else { 0 };
        let key = usize::try_from(fence / 2).unwrap_or(usize::MAX);
        at = at.saturating_add(key).saturating_add(sequence);
        lengths.push(usize::try_from(len).unwrap_or(usize::MAX));
    }
    lengths
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A file of this kind (4 or 5) made of parts: records, blocks, index and properties without their
/// checksums (blocks: with theirs). Everything is sealed but the frames.
pub fn table(
    kind: u8,
    number: u64,
    records: &[u8],
    blocks: &[u8],
    index: Option<&[u8]>,
    properties: &[u8],
) -> Vec<u8> {
    let mut file = Vec::new();
    header(&mut file, kind, number, DATABASE);
    file.extend_from_slice(records);
    let records_end = file.len() as u64;
    file.extend_from_slice(blocks);
    let index_len = index.map_or(0, |index| index.len() + 4);
    if let Some(index) = index {
        file.extend_from_slice(index);
        file.extend_from_slice(&[0; 4]);
    }
    file.extend_from_slice(properties);
    file.extend_from_slice(&[0; 4]);
    file.extend_from_slice(b"UniKVend");
    let lengths = [blocks.len(), index_len, properties.len() + 4];
    file.extend_from_slice(&records_end.to_le_bytes());
    for len in lengths {
        file.extend_from_slice(&(len as u64).to_le_bytes());
    }
    file.extend_from_slice(&[0; 8]);
    key_section(&mut file);
    file
}
