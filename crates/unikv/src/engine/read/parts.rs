//! Reading parts of values.

use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::engine::read::value_reader::ValueReader;
use crate::error::Result;
use crate::partition::value_place::OpenValue;
use crate::record::part_of;
use bytes::Bytes;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

/// The offsets from the first to the one after the last; none if they would be the wrong way round.
pub(crate) fn offsets(range: &impl RangeBounds<usize>) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => usize::MAX,
    };
    start..end.max(start)
}

impl ReadState {
    /// The bytes `range` of the value of `key`, as far as it has them.
    pub(crate) fn get_range(
        &self,
        source: Source,
        key: &[u8],
        range: &Range<usize>,
    ) -> Result<Option<Bytes>> {
        let part = |value| part_of(value, range.clone());
        self.find_or_get(
            source,
            key,
            |view, key, found| view.part(key, found, range.clone()),
            part,
        )
    }

    /// A reader of the value of `key`.
    pub(crate) fn get_reader(
        self: &Arc<Self>,
        source: Source,
        key: &[u8],
    ) -> Result<Option<ValueReader>> {
        let open = self.find_or_get(
            source,
            key,
            |view, key, found| view.open(key, found),
            OpenValue::Memory,
        )?;
        Ok(open.map(|value| ValueReader::new(self, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::offsets;

    #[test]
    fn all_ranges_have_offsets() {
        assert_eq!(offsets(&..), 0..usize::MAX);
        assert_eq!(offsets(&(3..)), 3..usize::MAX);
        assert_eq!(offsets(&(3..5)), 3..5);
        assert_eq!(offsets(&(3..=5)), 3..6);
        assert_eq!(offsets(&(..=usize::MAX)), 0..usize::MAX);
        #[expect(clippy::reversed_empty_ranges, reason = "a caller may give one")]
        let reversed = 5..3;
        assert_eq!(offsets(&reversed), 5..5);
    }
}
