//! The fields of a key table that are counted for the promise on space. A reader may skip them.

use super::super::tagged::{FieldWriter, Fields};
use crate::base::coding::{Decoder, put_varint};
use crate::error::Result;
use crate::key_table::meta::KeyTableMeta;
use crate::key_table::{Expiring, Newest, NewestNumbers};

/// The tags, among those of a file.
const NEWEST: u16 = 20;
pub(super) const EXPIRING: u16 = super::ranges::RANGES + 1;

pub(super) fn put(out: &mut FieldWriter, meta: &KeyTableMeta) {
    if let Some(newest) = meta.newest {
        let mut bytes = Vec::new();
        for number in NewestNumbers::from(newest) {
            put_varint(&mut bytes, number);
        }
        out.put_skippable(NEWEST, &bytes);
    }
    if !meta.expiring.is_empty() {
        out.put_skippable(EXPIRING, &meta.expiring.encode());
    }
}

/// When how much of it expires.
pub(super) fn expiring(f: &Fields<'_>) -> Result<Expiring> {
    let Some(bytes) = f.bytes(EXPIRING)? else {
        return Ok(Expiring::default());
    };
    let wrong = || f.corrupt(EXPIRING, "is malformed");
    Expiring::decode(bytes).ok_or_else(wrong)
}

/// What its newest versions take.
pub(super) fn newest(f: &Fields<'_>) -> Result<Option<Newest>> {
    let Some(bytes) = f.bytes(NEWEST)? else {
        return Ok(None);
    };
    let wrong = || f.corrupt(NEWEST, "has a wrong length");
    let mut d = Decoder::new(bytes);
    let mut numbers = NewestNumbers::default();
    for number in &mut numbers {
        *number = f.checked_amount(NEWEST, d.varint().ok_or_else(wrong)?)?;
    }
    if d.is_empty() {
        Ok(Some(numbers.into()))
    } else {
        Err(wrong())
    }
}
