//! Ranges of keys, and which of them a version has not merged.

use crate::base::keys::FileNumber;
use crate::version::{Generation, Version};
use std::collections::HashMap;

/// A range of keys with its end, if it has one.
pub(crate) type Range = (Vec<u8>, Option<Vec<u8>>);

/// The tables of a version and where each is unmerged.
pub(crate) fn unmerged(version: &Version) -> HashMap<FileNumber, Vec<Range>> {
    let mut unmerged: HashMap<FileNumber, Vec<Range>> = HashMap::new();
    for partition in version.partitions().iter() {
        let tables = partition.generations.iter().flat_map(Generation::tables);
        for (_, table) in tables {
            let range = (partition.start.clone(), partition.end.clone());
            unmerged.entry(table.meta().number).or_default().push(range);
        }
    }
    unmerged
}

/// Whether the range holds `key`.
pub(crate) fn holds((start, end): &Range, key: &[u8]) -> bool {
    start.as_slice() <= key && end.as_deref().is_none_or(|end| key < end)
}

/// What of the keys lies in another range.
pub(crate) fn within((start, end): &Range, (from, to): Range) -> Option<Range> {
    let from = from.max(start.clone());
    let to = match (to, end) {
        (Some(to), Some(end)) => Some(to.min(end.clone())),
        (to, end) => to.or_else(|| end.clone()),
    };
    to.as_ref()
        .is_none_or(|to| from <= *to)
        .then_some((from, to))
}
