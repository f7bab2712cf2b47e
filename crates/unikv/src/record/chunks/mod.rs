//! Large values in chunks, so that a part of one can be read and verified alone. See
//! `docs/format.md`, "Chunks".
//!
//! Invariants:
//! - No byte of a chunk is handed out that was not verified by the directory, and no directory is
//!   used that was not verified by its frame.
//! - A chunk is compressed without the file's dictionary, so that a copy keeps its form.
//! - Writing and copying hold one chunk, reading some 256 KiB, beside 8 bytes of directory a chunk.
//!   Only a caller that wants a value whole has it whole.
//! - The lengths of a value are written to its frame's header when it ends. Until its file is
//!   finished nobody reads it.

pub(in crate::record) mod frame;
pub(in crate::record) mod shape;
mod write;
