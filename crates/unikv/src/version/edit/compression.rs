//! The fields of a file that say how its values, or its blocks, are compressed.

use super::super::tagged::{FieldWriter, Fields, Place};
use crate::codec::{Codecs, DictionaryPlace, FileCompression, LONGEST_DICTIONARY};
use crate::error::Result;

/// The tags, among those of a file.
const CODECS: u16 = 21;
const FIGURES: u16 = 22;
const DICTIONARY: u16 = 23;
/// The last of them.
pub(super) const LAST: u16 = DICTIONARY;

/// Of a record file.
pub(super) fn put(out: &mut FieldWriter, compression: &FileCompression) {
    // A release that does not know the field reads files without.
    if !compression.codecs.is_empty() {
        out.put_u64(CODECS, compression.codecs.bits());
        let [level] = compression.level.to_le_bytes();
        let mut bytes = vec![level];
        bytes.extend_from_slice(&compression.saved_bytes.to_le_bytes());
        out.put_skippable(FIGURES, &bytes);
    }
    if let Some(DictionaryPlace { offset, len, hash }) = compression.dictionary {
        let numbers = [offset, u64::from(len), hash];
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        out.put(DICTIONARY, &bytes);
    }
}

/// Of a record file.
pub(super) fn of_values(f: &Fields<'_>, place: Place<'_>) -> Result<FileCompression> {
    Ok(FileCompression {
        dictionary: dictionary(f)?,
        ..read(f, "a record file has values", place)?
    })
}

/// Of a key table.
pub(super) fn of_blocks(f: &Fields<'_>, place: Place<'_>) -> Result<FileCompression> {
    read(f, "a key table has blocks", place)
}

fn read(f: &Fields<'_>, what: &str, place: Place<'_>) -> Result<FileCompression> {
    let Some(bits) = f.u64(CODECS)? else {
        return Ok(FileCompression::default());
    };
    let figures = f.array::<9>(FIGURES)?.unwrap_or_default();
    let [level, saved_bytes @ ..] = figures;
    Ok(FileCompression {
        codecs: Codecs::of(bits, what, place.path)?,
        level: i8::from_le_bytes([level]),
        saved_bytes: f.checked_amount(FIGURES, u64::from_le_bytes(saved_bytes))?,
        dictionary: None,
    })
}

/// That it lies in the file is found out when it is read.
fn dictionary(f: &Fields<'_>) -> Result<Option<DictionaryPlace>> {
    let Some(bytes) = f.array::<24>(DICTIONARY)? else {
        return Ok(None);
    };
    let (numbers, _) = bytes.as_chunks::<8>();
    let &[offset, len, hash] = numbers else {
        return Err(f.corrupt(DICTIONARY, "has a wrong length"));
    };
    let len = u32::try_from(u64::from_le_bytes(len)).ok();
    Ok(Some(DictionaryPlace {
        offset: f.checked_amount(DICTIONARY, u64::from_le_bytes(offset))?,
        len: len
            .filter(|len| *len <= LONGEST_DICTIONARY)
            .ok_or_else(|| f.corrupt(DICTIONARY, "is longer than it can be"))?,
        hash: u64::from_le_bytes(hash),
    }))
}
