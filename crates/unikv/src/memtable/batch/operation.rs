//! What a caller sees of a batch.

use std::time::Duration;

/// An operation of a [`Batch`](crate::Batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Sets a key to a value.
    #[non_exhaustive]
    Put {
        /// The number of the keyspace, 0 for the default one: see
        /// [`Keyspace::number`](crate::Keyspace::number).
        keyspace: u32,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// How long it lives from when the batch is written on, where it has a time to live of its
        /// own.
        ttl: Option<Duration>,
    },
    /// Removes a key.
    #[non_exhaustive]
    Delete {
        /// The number of the keyspace, as in a put.
        keyspace: u32,
        /// The key.
        key: &'a [u8],
    },
    /// Removes all keys of a range.
    #[non_exhaustive]
    DeleteRange {
        /// The number of the keyspace, as in a put.
        keyspace: u32,
        /// The first key of the range.
        start: &'a [u8],
        /// The first key after the range; `None`: all keys from its start on.
        end: Option<&'a [u8]>,
    },
}
