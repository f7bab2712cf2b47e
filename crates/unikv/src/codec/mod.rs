//! Codecs of values and of key blocks: LZ4, and Zstandard with or without a dictionary. Owns their
//! numbers in files. Callers keep both lengths and a checksum of the stored form: nothing here
//! finds out that bytes were swapped for others.
//!
//! Invariants:
//! - [`Encoder`] gives a form that is shorter than the raw one by an eighth at least, or nothing.
//! - [`Decoders::decode`] fills a buffer of the raw length exactly, or fails; it never panics, and
//!   never writes or allocates beyond that buffer, whatever the stored bytes are.
//! - A database that needs a codec which was left out of the build is not opened; that is known
//!   ([`Codec::is_built_in`]) before anything is decoded.
//!
//! Locks: those of the pool of decoding contexts and of the list of dictionaries, leaves.

mod compression;
mod decoder;
pub(crate) mod dictionary;
mod encoder;
mod learned;
mod lz4;
mod of_file;
mod zstd;

#[cfg(test)]
pub(crate) mod tests;

use crate::error::{Error, Result};
pub use compression::Compression;
pub(crate) use compression::Haste;
pub(crate) use decoder::Decoders;
pub(crate) use dictionary::Dictionary;
pub(crate) use encoder::Encoder;
pub(crate) use learned::Dictionaries;
pub(crate) use of_file::{DictionaryPlace, FileCompression, LONGEST_DICTIONARY};
use std::fmt;
use std::path::Path;

/// How bytes are stored. The numbers are in the files and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Codec {
    /// As they are.
    None = 0,
    /// One LZ4 block.
    Lz4 = 1,
    /// One Zstandard frame, without checksum and content size.
    Zstd = 2,
    /// The same, with the dictionary of its file.
    ZstdWithDictionary = 3,
    /// In chunks, each with a codec of its own: see `record::chunks`.
    Chunks = 4,
}

impl Codec {
    /// All of them.
    pub(crate) const ALL: [Codec; 5] = [
        Codec::None,
        Codec::Lz4,
        Codec::Zstd,
        Codec::ZstdWithDictionary,
        Codec::Chunks,
    ];

    /// The codec that a number in a file stands for.
    #[inline]
    pub(crate) fn of(number: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(number)).copied()
    }

    /// Whether this build can read and write it.
    pub(crate) fn is_built_in(self) -> bool {
        match self {
            Codec::None | Codec::Chunks => true,
            Codec::Lz4 => cfg!(feature = "lz4"),
            Codec::Zstd | Codec::ZstdWithDictionary => cfg!(feature = "zstd"),
        }
    }

    /// The cargo feature that has it.
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Codec::None | Codec::Chunks => "none",
            Codec::Lz4 => "lz4",
            Codec::Zstd | Codec::ZstdWithDictionary => "zstd",
        }
    }

    /// `Incompatible` if `what` in the file at `path` needs it and this build lacks it.
    pub(crate) fn require(self, what: &str, path: &Path) -> Result<()> {
        if self.is_built_in() {
            return Ok(());
        }
        let name = self.feature();
        let what = format!("{what} compressed with {name}, which this build lacks");
        let remedy = format!("use a build with the cargo feature `{name}` of unikv-db");
        Err(Error::incompatible(path, what, &remedy))
    }

    /// The greatest raw length that a stored form of this length can have.
    pub(crate) fn most_raw_len(self, stored_len: usize) -> usize {
        match self {
            Codec::None | Codec::Chunks => stored_len,
            // A byte of the format adds at most 255 to a length.
            Codec::Lz4 => stored_len.saturating_mul(255).saturating_add(64),
            // A block of 128 KiB takes four bytes at least.
            Codec::Zstd | Codec::ZstdWithDictionary => stored_len.saturating_mul(32 << 10),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::None => "none",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::ZstdWithDictionary => "zstd with dictionary",
            Codec::Chunks => "chunks",
        })
    }
}

impl fmt::Display for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut found = Codec::ALL.iter().filter(|codec| self.holds(**codec));
        if let Some(first) = found.next() {
            write!(f, "{first}")?;
        }
        found.try_for_each(|codec| write!(f, ", {codec}"))
    }
}

/// Which codecs occur in a file: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Codecs(u64);

impl Codecs {
    /// Adds one; that bytes are stored as they are is nothing to know of a file.
    pub(crate) fn add(&mut self, codec: Codec) {
        if codec != Codec::None {
            self.0 |= 1 << codec as u8;
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn holds(self, codec: Codec) -> bool {
        self.0 & (1 << codec as u8) != 0
    }

    /// The number in the manifest: a bit for each codec, by its number.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The set that a data file says of itself, which may hold unknown ones.
    pub(crate) fn of_file(bits: u64) -> Codecs {
        Codecs(bits & !1)
    }

    /// The set that a number in the file at `path` stands for. `Incompatible` where `what` needs a
    /// codec that this release does not know, or that this build lacks.
    pub(crate) fn of(bits: u64, what: &str, path: &Path) -> Result<Codecs> {
        let known = Codec::ALL
            .iter()
            .fold(0, |all, codec| all | 1 << *codec as u8);
        if bits & !known != 0 {
            let what = format!(
                "{what} compressed with codecs {:#x}, which are unknown",
                bits & !known
            );
            let remedy = "open it with the newer release that wrote it";
            return Err(Error::incompatible(path, what, remedy));
        }
        let codecs = Codecs::of_file(bits);
        for codec in Codec::ALL {
            if codecs.holds(codec) {
                codec.require(what, path)?;
            }
        }
        Ok(codecs)
    }
}
