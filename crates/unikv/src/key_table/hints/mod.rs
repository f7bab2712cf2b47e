//! Hints: where what the read cache held stands in the files, for the process that opens the
//! database next. See `docs/format.md`, "Cache hints".
//!
//! Invariant: nothing relies on them. A hint that is damaged, stale or another database's costs a
//! read at most: what it leads to is verified like anything else that is read, and kept for its own
//! place only. Each chunk has a checksum of its own and a length that memory allows.
//!
//! No locks.

pub(crate) mod chunk;
mod file;

pub(crate) use self::chunk::Hint;
pub(crate) use self::file::{HintReader, Written, write_hints};

#[cfg(test)]
mod tests;
