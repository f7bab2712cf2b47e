//! Fields with tags and lengths, so that formats can grow.
//!
//! ```text
//! 0  tag     2  bit 15: critical, a reader that does not know the tag must refuse
//! 2  length  4
//! 6  bytes
//! ```
//!
//! Fields may come in any order. A field that is not a list comes at most once.

use crate::base::coding::Decoder;
use crate::base::keys::MOST_NUMBERS;
use crate::error::{Error, Result};
use std::path::Path;

/// Sizes and counts are less than this, so sums of them fit.
const MOST_BYTES: u64 = 1 << 48;

/// The bit of a tag that forbids skipping the field.
pub(crate) const CRITICAL: u16 = 1 << 15;

/// Builds a sequence of fields.
#[derive(Debug, Default)]
pub(crate) struct FieldWriter {
    out: Vec<u8>,
}

impl FieldWriter {
    /// Adds a field that a reader must know.
    pub(crate) fn put(&mut self, tag: u16, bytes: &[u8]) {
        self.nested(tag, |out| out.out.extend_from_slice(bytes));
    }

    /// Adds a number.
    pub(crate) fn put_u64(&mut self, tag: u16, value: u64) {
        self.put(tag, &value.to_le_bytes());
    }

    /// Adds a field that a reader may skip if it does not know it.
    pub(crate) fn put_skippable(&mut self, tag: u16, bytes: &[u8]) {
        self.field(tag, |out| out.out.extend_from_slice(bytes));
    }

    /// Adds a field whose bytes are fields.
    pub(crate) fn nested(&mut self, tag: u16, build: impl FnOnce(&mut FieldWriter)) {
        self.field(tag | CRITICAL, build);
    }

    fn field(&mut self, tag: u16, build: impl FnOnce(&mut FieldWriter)) {
        self.out.extend_from_slice(&tag.to_le_bytes());
        let len_at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        build(self);
        // Keys are at most 64 KiB and lists of references a few per file: far below 4 GiB.
        let len = self.out.len() - len_at - 4;
        debug_assert!(u32::try_from(len).is_ok());
        self.out[len_at..len_at + 4].copy_from_slice(&(len as u32).to_le_bytes());
    }

    /// The bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Where fields were read from, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) path: &'a Path,
    pub(crate) offset: u64,
}

impl Place<'_> {
    pub(crate) fn corrupt(&self, what: impl Into<String>) -> Error {
        Error::corruption(self.path, self.offset, what)
    }
}

/// A decoded sequence of fields.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    /// What they describe, for errors.
    what: &'static str,
    place: Place<'a>,
    found: Vec<(u16, &'a [u8])>,
}

impl<'a> Fields<'a> {
    /// Decodes `bytes`. Tags outside `known` are refused if critical and skipped if not.
    pub(crate) fn read(
        bytes: &'a [u8],
        what: &'static str,
        known: std::ops::RangeInclusive<u16>,
        place: Place<'a>,
    ) -> Result<Fields<'a>> {
        let mut d = Decoder::new(bytes);
        let mut found = Vec::new();
        while !d.is_empty() {
            let mut field = || {
                let tag = d.u16()?;
                let len = usize::try_from(d.u32()?).ok()?;
                Some((tag, d.bytes(len)?))
            };
            let (tag, bytes) =
                field().ok_or_else(|| place.corrupt(format!("{what}: a field is cut short")))?;
            let number = tag & !CRITICAL;
            if known.contains(&number) {
                found.push((number, bytes));
            } else if tag & CRITICAL != 0 {
                let why = format!("{what}: field {number} is unknown and may not be skipped");
                let remedy = "open it with the newer release that wrote it";
                return Err(Error::incompatible(place.path, why, remedy));
            }
        }
        Ok(Fields { what, place, found })
    }

    /// All fields with `tag`, in their order.
    pub(crate) fn all(&self, tag: u16) -> impl Iterator<Item = &'a [u8]> + '_ {
        let matching = self.found.iter().filter(move |(found, _)| *found == tag);
        matching.map(|(_, bytes)| *bytes)
    }

    /// The field with `tag`, where there is one.
    pub(crate) fn bytes(&self, tag: u16) -> Result<Option<&'a [u8]>> {
        let mut all = self.all(tag);
        let first = all.next();
        match all.next() {
            None => Ok(first),
            Some(_) => Err(self.corrupt(tag, "comes twice")),
        }
    }

    /// The field with `tag`, which must be there.
    pub(crate) fn required(&self, tag: u16) -> Result<&'a [u8]> {
        self.bytes(tag)?
            .ok_or_else(|| self.corrupt(tag, "is missing"))
    }

    /// A fixed number of bytes.
    pub(crate) fn array<const N: usize>(&self, tag: u16) -> Result<Option<[u8; N]>> {
        let Some(bytes) = self.bytes(tag)? else {
            return Ok(None);
        };
        let array = bytes
            .try_into()
            .map_err(|_| self.corrupt(tag, "has a wrong length"))?;
        Ok(Some(array))
    }

    /// A number, where there is one.
    pub(crate) fn u64(&self, tag: u16) -> Result<Option<u64>> {
        Ok(self.array(tag)?.map(u64::from_le_bytes))
    }

    /// A number, which must be there.
    pub(crate) fn required_u64(&self, tag: u16) -> Result<u64> {
        self.u64(tag)?
            .ok_or_else(|| self.corrupt(tag, "is missing"))
    }

    /// A size or a count, which must be there.
    pub(crate) fn amount(&self, tag: u16) -> Result<u64> {
        self.checked_amount(tag, self.required_u64(tag)?)
    }

    /// A size or a count that was read from the field with `tag`.
    pub(crate) fn checked_amount(&self, tag: u16, amount: u64) -> Result<u64> {
        self.less_than(MOST_BYTES, tag, amount)
    }

    /// The number of a file, a partition or the like, which must be there.
    pub(crate) fn number(&self, tag: u16) -> Result<u64> {
        self.checked_number(tag, self.required_u64(tag)?)
    }

    /// The number of a file or the like that was read from the field with `tag`.
    pub(crate) fn checked_number(&self, tag: u16, number: u64) -> Result<u64> {
        self.less_than(MOST_NUMBERS, tag, number)
    }

    fn less_than(&self, most: u64, tag: u16, value: u64) -> Result<u64> {
        if value < most {
            Ok(value)
        } else {
            Err(self.corrupt(tag, "is greater than it can be"))
        }
    }

    /// The number of a file or the like, where there is one.
    pub(crate) fn optional_number(&self, tag: u16) -> Result<Option<u64>> {
        let number = self.u64(tag)?;
        number.map(|n| self.checked_number(tag, n)).transpose()
    }

    /// A number of 32 bits, which must be there.
    pub(crate) fn required_u32(&self, tag: u16) -> Result<u32> {
        let value = self.array(tag)?.map(u32::from_le_bytes);
        value.ok_or_else(|| self.corrupt(tag, "is missing"))
    }

    /// Two numbers, where they are.
    pub(crate) fn pair(&self, tag: u16) -> Result<Option<(u64, u64)>> {
        let Some(bytes) = self.array::<16>(tag)? else {
            return Ok(None);
        };
        let both = u128::from_le_bytes(bytes);
        Ok(Some((both as u64, (both >> 64) as u64)))
    }

    /// Whether the flag with `tag` is set. A flag that is set is an empty field.
    pub(crate) fn flag(&self, tag: u16) -> Result<bool> {
        Ok(self.array::<0>(tag)?.is_some())
    }

    /// The error for a field that is not what it should be.
    pub(crate) fn corrupt(&self, tag: u16, problem: &str) -> Error {
        self.place
            .corrupt(format!("{}: field {tag} {problem}", self.what))
    }
}
