//! What the fuzz targets share. Each target takes bytes that nobody has checked, hands them to one
//! parser of the engine (through the door `unikv::fuzzing`, or through the public interface), and
//! asserts more than that it does not panic:
//!
//! - what decodes encodes to the same bytes, or to bytes that decode to the same ([`typed`] for
//!   what does not decode: its error has a kind, and damage has a file and an offset);
//! - a length that lies allocates nothing: memory is bounded by the length of the input
//!   ([`allocation`]);
//! - what passes its checksums and was never changed reads as what was written.
//!
//! Random bytes do not get past a checksum. So most targets take a first byte which says, among
//! others, whether [`seal`] makes the checksums right again before the engine sees the bytes.
//! [`specimen`] is the small database that corpora and the `directory` target begin with.

pub mod allocation;
pub mod seal;
pub mod specimen;
pub mod typed;
