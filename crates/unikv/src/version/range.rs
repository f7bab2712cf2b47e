//! Ranges of engine keys.

/// A range of engine keys, from its start to the first key after it; without an end, to the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    pub(crate) start: &'a [u8],
    pub(crate) end: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Whether `key` comes before the end.
    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.is_none_or(|end| key < end)
    }
}
