//! Sizes of ranges of keys, estimated from what the version and the fences of its tables say.
//!
//! No value is read. What is only in memtables does not count.

use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::engine::read::ReadState;
use crate::error::Result;
use crate::key_table::KeyTable;
use crate::version::{KeyRange, Partition, Table, Version};
use std::sync::Arc;

/// A key table or a table of an UnsortedStore, with the bytes that it keeps in one partition.
enum Piece<'a> {
    Sorted(&'a Arc<KeyTable>),
    Unsorted(&'a Table, KeyRange<'a>),
}

impl Piece<'_> {
    /// The bytes that it keeps for keys in `range`.
    fn bytes_in(&self, range: KeyRange<'_>) -> Result<u64> {
        let (part, bytes) = match self {
            Piece::Sorted(table) => {
                let meta = table.meta();
                let keys = (meta.min_key.as_slice(), meta.max_key.as_slice());
                let part = part_in(range, keys, |key| table.part_before(key))?;
                (part, meta.referenced_bytes())
            }
            Piece::Unsorted(table, own) => {
                let meta = table.file.meta();
                let keys = (meta.min_key.as_slice(), meta.max_key.as_slice());
                let before = |key: &[u8]| table.file.section()?.part_before(key);
                let wanted = part_in(intersection(range, *own), keys, before)?;
                let owned = part_in(*own, keys, before)?.max(f64::MIN_POSITIVE);
                (wanted / owned, table.share().bytes)
            }
        };
        Ok((bytes as f64 * part.clamp(0.0, 1.0)) as u64)
    }

    /// A key in about the middle of those that lie in `range`.
    fn middle_of(&self, range: KeyRange<'_>) -> Result<Vec<u8>> {
        let middle = |before: &dyn Fn(&[u8]) -> Result<f64>| -> Result<f64> {
            let end = range.end.map_or(Ok(1.0), before)?;
            Ok((before(range.start)? + end) / 2.0)
        };
        match self {
            Piece::Sorted(table) => {
                table.key_at_fraction(middle(&|key: &[u8]| table.part_before(key))?)
            }
            Piece::Unsorted(table, _) => {
                let section = table.file.section()?;
                section.key_at_fraction(middle(&|key: &[u8]| section.part_before(key))?)
            }
        }
    }
}

/// Which part of a table from the first to the last of `keys` lies in `range`.
fn part_in(
    range: KeyRange<'_>,
    (min, max): (&[u8], &[u8]),
    before: impl Fn(&[u8]) -> Result<f64>,
) -> Result<f64> {
    if max < range.start || !range.is_before_end(min) {
        return Ok(0.0);
    }
    let start = if range.start <= min {
        0.0
    } else {
        before(range.start)?
    };
    let end = match range.end {
        Some(end) if end <= max => before(end)?,
        _ => 1.0,
    };
    Ok((end - start).max(0.0))
}

fn intersection<'a>(a: KeyRange<'a>, b: KeyRange<'a>) -> KeyRange<'a> {
    let end = match (a.end, b.end) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    KeyRange {
        start: a.start.max(b.start),
        end,
    }
}

fn pieces(partition: &Partition) -> impl Iterator<Item = Piece<'_>> {
    let own = partition.range();
    let generations = partition.generations.iter();
    let unsorted =
        generations.flat_map(move |g| g.shares().map(move |(_, t)| Piece::Unsorted(t, own)));
    unsorted.chain(partition.key_tables.iter().map(Piece::Sorted))
}

fn partitions_in<'a>(
    version: &'a Version,
    range: KeyRange<'a>,
) -> impl Iterator<Item = &'a Partition> {
    let from = version.partition_index(range.start);
    let partitions = version.partitions().iter_from(from);
    let partitions = partitions.take_while(move |p| range.is_before_end(&p.start));
    partitions.map(|p| &**p)
}

fn bytes_in(version: &Version, range: KeyRange<'_>) -> Result<u64> {
    let mut bytes = 0u64;
    for piece in partitions_in(version, range).flat_map(pieces) {
        bytes = bytes.saturating_add(piece.bytes_in(range)?);
    }
    Ok(bytes)
}

impl ReadState {
    /// About how many bytes of tables serve the keys between the bounds.
    pub(crate) fn approximate_size(&self, (lower, upper): &(Vec<u8>, Vec<u8>)) -> Result<u64> {
        let version = Arc::clone(&self.view.load().version);
        if lower >= upper {
            return self.core.check_open().map(|()| 0);
        }
        self.core
            .while_open(|| bytes_in(&version, key_range(lower, upper)))
    }

    /// A user key that cuts what lies between the bounds into two parts of about the same size.
    pub(crate) fn split_key(&self, (lower, upper): &(Vec<u8>, Vec<u8>)) -> Result<Option<Vec<u8>>> {
        let version = Arc::clone(&self.view.load().version);
        if lower >= upper {
            return self.core.check_open().map(|()| None);
        }
        self.core.while_open(|| middle_in(&version, lower, upper))
    }
}

/// Estimates after which the search for the middle ends.
const MIDDLE_STEPS: usize = 24;

fn key_range<'a>(lower: &'a [u8], upper: &'a [u8]) -> KeyRange<'a> {
    KeyRange {
        start: lower,
        end: Some(upper),
    }
}

/// See [`ReadState::split_key`].
fn middle_in(version: &Version, lower: &[u8], upper: &[u8]) -> Result<Option<Vec<u8>>> {
    // The largest piece has a key in its middle; halving towards the true middle from there
    // needs no more than a few estimates.
    let (mut low, mut high) = (lower.to_vec(), upper.to_vec());
    let total = bytes_in(version, key_range(lower, upper))?;
    let mut best = None;
    for _ in 0..MIDDLE_STEPS {
        let Some(key) = inner_key(version, key_range(&low, &high))? else {
            break;
        };
        let before = bytes_in(version, key_range(lower, &key))?;
        let distance = before.abs_diff(total.saturating_sub(before));
        let better = |(least, _): &(u64, Vec<u8>)| distance < *least;
        if best.as_ref().is_none_or(better) {
            best = Some((distance, key.clone()));
        }
        if before < total / 2 {
            low = key;
        } else {
            high = key;
        }
    }
    let user_key = |(_, key): (u64, Vec<u8>)| key.get(KEYSPACE_PREFIX_LEN..).map(<[u8]>::to_vec);
    Ok(best.and_then(user_key))
}

/// A key strictly inside `range`, from the middle of the piece that has most there.
fn inner_key(version: &Version, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
    let mut largest: Option<(u64, Piece<'_>)> = None;
    for piece in partitions_in(version, range).flat_map(pieces) {
        let bytes = piece.bytes_in(range)?;
        if bytes > 0 && largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
            largest = Some((bytes, piece));
        }
    }
    let borders = partitions_in(version, range).map(|p| &p.start);
    let tables = partitions_in(version, range).flat_map(|p| &p.key_tables);
    let firsts = tables.map(|t| &t.meta().min_key).chain(borders);
    let inside = |key: &[u8]| key > range.start && range.is_before_end(key);
    let of_largest = largest
        .map(|(_, piece)| piece.middle_of(range))
        .transpose()?;
    if let Some(key) = of_largest.filter(|key| inside(key)) {
        return Ok(Some(key));
    }
    // A piece of one block has no fence inside: the first keys of tables are all there is.
    let mut inner: Vec<&Vec<u8>> = firsts.filter(|key| inside(key)).collect();
    inner.sort_unstable();
    Ok(inner.get(inner.len() / 2).map(|key| (*key).clone()))
}
