//! What a log keeps.

use bytes::Bytes;

/// What the log keeps.
pub(crate) trait LogItem: Clone {
    /// The bytes that are to stand in a segment.
    fn bytes(&self) -> &[u8];

    /// From now on the item has the same bytes here.
    fn set_bytes(&mut self, bytes: Bytes);

    /// Memory that it takes beside them.
    fn beside_bytes(&self) -> usize;
}
