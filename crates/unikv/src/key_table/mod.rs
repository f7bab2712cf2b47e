//! Key tables: sorted keys with pointers into record files, or with small values inline.
//!
//! The same *key section* (blocks of prefix-compressed keys, an index of fences, properties, a
//! footer) stands alone in a key table file and after the records of a record file, built by one
//! [`KeySectionBuilder`] and read by one [`KeyIter`]. See `docs/format.md`, "Key table".
//!
//! Invariants:
//! - Entries stand in the internal order (key ascending, newest first) without duplicates.
//! - The fence of a block is the smallest position that can be in it, so one block read finds or
//!   refutes any (key, snapshot).
//! - A section after records that is damaged is put together again from them, in memory.
//! - A block's checksum is verified when it is read from the file and not again while it is cached.
//!   What is decoded afterwards is still bounds-checked: no bytes can cause a panic.
//!
//! The only locks are those inside the [`ReadCache`] and the one of its idle buffers; none is held
//! during a read of a file, and nothing is locked under them.

pub(crate) mod block;
pub(crate) mod builder;
mod cache;
mod expiring;
mod footer;
pub(crate) mod hints;
pub(crate) mod meta;
mod outliers;
mod pointer;
mod pointer_index;
mod properties;
pub(crate) mod range_section;
pub(crate) mod reader;
pub(crate) mod refs;
#[cfg(test)]
mod tests;

pub(crate) use crate::cache::read_buffers::{
    LONGEST_BUFFER, ReadBuffer, ReadBuffers, capacity_for, has_long_head, is_tight,
};
pub(crate) use block::entry::{EntryValue, KeyEntry, OwnedEntry, OwnedValue};
pub(crate) use builder::newest::{Newest, NewestNumbers, Values};
pub(crate) use builder::output::{OutputFile, UnsyncedFile};
pub(crate) use builder::rebuilt::{SpareEntries, TakeEntry};
pub(crate) use builder::{KeySectionBuilder, write_key_table, write_tail};
pub(crate) use cache::{CachedFrame, ReadCache};
pub(crate) use expiring::Expiring;
pub(crate) use hints::{Hint, HintReader, Written, write_hints};
pub(crate) use meta::KeyTableMeta;
pub(crate) use outliers::OutlierSum;
pub(crate) use pointer::{FRAME_BYTES, RecordPointer, STREAMED_BYTES};
pub(crate) use pointer_index::Candidate;
pub(crate) use properties::{FileFacts, Properties};
pub(crate) use reader::KeyTable;
pub(crate) use reader::iter::KeyIter;
pub(crate) use reader::section::KeySection;
pub(crate) use reader::section::block_runs::RUNS_AT_ONCE;
pub(crate) use reader::verify_file::verify_file;
pub(crate) use refs::RecordFileRefs;
