//! Record files: whole records in frames, and possibly a key section after them. A flush writes one
//! sorted by key, which is an UnsortedStore table and later a value log; GC writes more. See
//! `docs/format.md`, "Record file".
//!
//! Invariants:
//! - A file is written once, finished, listed, and never changed.
//! - Every frame that is handed out or cached was verified: header, payload, and both bound to the
//!   file's uid and the frame's offset. A pointer's length equals its frame's. Of a large value in
//!   chunks, each chunk is verified by itself (`chunks`).
//! - Nothing at or after `records_end` is taken for a frame.
//!
//! No locks but the cache's: a [`RecordFile`] is immutable, a writer and a stream have one owner.

mod chunks;
mod direct_reads;
mod external;
mod frame;
mod key_version;
pub(crate) mod meta;
pub(crate) mod pointed;
mod reader;
mod section_rebuild;
mod spans;
mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod walk;
mod warm;
mod writer;

pub(crate) use crate::key_table::{RecordPointer, STREAMED_BYTES};
pub(crate) use direct_reads::DirectReads;
pub(crate) use external::External;
pub(crate) use frame::{Record, RecordRef, StoredRecord, frame_len, len_of_kept};
pub(crate) use key_version::KeyVersion;
pub(crate) use meta::{RecordFileMeta, UNNUMBERED};
pub(crate) use reader::RecordFile;
pub(crate) use reader::parts::{Chunked, Opened, part_of, within};
pub(crate) use spans::COALESCE_GAP_BYTES;
pub(crate) use stream::value_reader::ValueReader;
pub(crate) use stream::{RecordHead, RecordStream};
pub(crate) use warm::warm;
pub(crate) use writer::RecordWriter;
