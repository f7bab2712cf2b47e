//! Hints: where what the read cache held stands in the files, for the process that opens the
//! database next. See `docs/format.md`, "Cache hints".
//!
//! Nothing relies on them. A hint that is damaged, stale or another database's costs a read at
//! most: what it leads to is verified like anything else that is read, and kept for its own place
//! only.
//!
//! A file of hints is a header and *chunks*, the hottest first, each with a checksum of its own and
//! of a length that memory allows:
//!
//! ```text
//!  length    4
//!  hints     varint count, then for each, ascending by file and offset:
//!              varint (file - file before) × 4 + kind: 0 index, 1 block, 2 record
//!              varint offset, less that of the hint before in the same file; not of an index
//!              varint length; of a record alone
//!  checksum  4  of the hints, bound to the file's uid and the chunk's offset
//! ```

pub(crate) mod chunk;
mod file;

pub(crate) use self::chunk::Hint;
pub(crate) use self::file::{HintReader, Written, write_hints};

#[cfg(test)]
mod tests;
