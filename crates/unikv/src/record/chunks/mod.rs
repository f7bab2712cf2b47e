//! Large values in chunks, so that a part of one can be read and verified alone.
//!
//! A value is cut into chunks of one size (the last is shorter), each stored in a form of its own
//! and under a checksum that is bound to its place. The frame's stored value is the chunks without
//! gaps, then their directory. The frame's payload checksum covers expiry, key and directory. See
//! `docs/format.md`, "Chunks".
//!
//! Invariants:
//! - No byte of a chunk is handed out that was not verified by the directory, and no directory is
//!   used that was not verified by its frame.
//! - A chunk is compressed without the file's dictionary, so that a copy keeps its form.
//! - Writing and copying hold one chunk, reading some 256 KiB; and the directory, 8 bytes of the
//!   file for each chunk. Only a caller that wants a value whole has it whole.
//! - What is not known when a value begins, its lengths, is written to its frame's header when it
//!   ends. Until its file is finished nobody reads it.

pub(in crate::record) mod frame;
pub(in crate::record) mod shape;
mod write;
