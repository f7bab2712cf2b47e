//! Key tables: sorted keys with pointers into record files, or small values inline. A *key section*
//! stands in a key table file or after the records of a record file; one [`KeySectionBuilder`]
//! builds and one [`KeyIter`] reads both (`docs/format.md`, "Key table").
//!
//! Invariants:
//! - Entries stand in the internal order (key ascending, newest first) without duplicates.
//! - One block read finds or refutes any (key, snapshot): a fence is the least position in a block.
//! - A section after records that is damaged is put together again from them, in memory.
//! - A block is verified when it is read from the file. Decoding stays bounds-checked: no panics.
//!
//! Locks: those in the [`ReadCache`] and of its idle buffers, leaves; none is held during a read.

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

pub(crate) use crate::item_log::read_buffers::{
    LONGEST_BUFFER, ReadBuffer, ReadBuffers, capacity_for, has_long_head, is_tight,
};
pub(crate) use block::entry::{EntryValue, KeyEntry, OwnedEntry, OwnedValue};
pub(crate) use builder::newest::{Newest, NewestNumbers, Values};
pub(crate) use builder::output::{OutputFile, UnsyncedFile};
pub(crate) use builder::rebuilt::{SpareEntries, TakeEntry};
pub(crate) use builder::{KeySectionBuilder, write_key_table, write_tail};
pub(crate) use cache::read_terms;
pub(crate) use cache::wishes::Wish;
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
pub(crate) use reader::section::block_spans::SPANS_AT_ONCE;
pub(crate) use reader::verify_file::verify_file;
pub(crate) use refs::RecordFileRefs;
