//! What a caller asks for: which codec, and how hard it tries.

use super::Codec;
use crate::error::{Error, Result};
use std::path::Path;

/// How values and key blocks are compressed that are written from now on.
///
/// Each value that goes to a value log is compressed by itself, and each block of a key table as a
/// whole, with the small values in it. What would not shrink by an eighth is stored as it is. A
/// changed setting holds for what is written later; a value is compressed again when a merge or
/// garbage collection copies it. Hits in the read cache cost the same with any codec, as it holds
/// what it holds uncompressed.
///
/// ```
/// # use unikv::{Compression, Options};
/// let options = Options::default().compression(Compression::zstd());
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Nothing is compressed.
    #[default]
    None,
    /// LZ4: by far the fastest. Takes a build with the cargo feature `lz4`, which is there by
    /// default.
    Lz4,
    /// Zstandard: fewer bytes for more time, above all with values of less than some KiB that are
    /// like each other, for which it learns a dictionary for each file. Takes a build with the
    /// cargo feature `zstd`, which is there by default.
    Zstd {
        /// From -7, the fastest, to 22, the smallest; 3 is Zstandard's own default. What a flush
        /// writes has level 3 at most, so that a slow level never holds up a writer: values get
        /// their level when they are copied in the background, key blocks in every merge.
        level: i32,
    },
}

/// The least and greatest level.
const LEVELS: std::ops::RangeInclusive<i32> = -7..=22;
/// The level of Zstandard's own choice.
const USUAL_LEVEL: i32 = 3;
/// The level of what has no time to lose, without LZ4.
const HASTY_LEVEL: i32 = 1;

impl Compression {
    /// Zstandard at its usual level, 3.
    #[must_use]
    pub const fn zstd() -> Compression {
        Compression::Zstd { level: USUAL_LEVEL }
    }

    /// The codec without a dictionary.
    pub(crate) fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::None,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd { .. } => Codec::Zstd,
        }
    }

    /// The level of Zstandard, 0 for others.
    pub(crate) fn level(self) -> i8 {
        match self {
            Compression::Zstd { level } => level as i8,
            _ => 0,
        }
    }

    /// What a flush uses in its place. Writers wait for flushes, so these never take a slow level;
    /// and one that others wait behind takes the fastest codec of this build.
    pub(crate) fn of_flush(self, is_behind: bool) -> Compression {
        match self {
            Compression::Zstd { .. } if is_behind => match Codec::Lz4.is_built_in() {
                true => Compression::Lz4,
                false => Compression::Zstd { level: HASTY_LEVEL },
            },
            Compression::Zstd { level } => Compression::Zstd {
                level: level.min(USUAL_LEVEL),
            },
            other => other,
        }
    }

    /// Refuses a level that there is not, and a codec that this build lacks.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Compression::Zstd { level } if !LEVELS.contains(&level) => Err(Error::invalid(
                format!("there is no level {level} of zstd"),
                format!("use {} to {}", LEVELS.start(), LEVELS.end()),
            )),
            // No file is at fault.
            _ => self
                .codec()
                .require("the option asks for data", Path::new("")),
        }
    }

    /// The number that stands for it among stored options.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.codec() as u8) | u64::from(self.level() as u8) << 8
    }

    /// What a number among the options in the file at `path` stands for.
    pub(crate) fn of_number(number: u64, path: &Path) -> Result<Compression> {
        let (codec, level) = (number as u8, (number >> 8) as u8 as i8 as i32);
        let found = match Codec::of(codec) {
            Some(Codec::None) => Some(Compression::None),
            Some(Codec::Lz4) => Some(Compression::Lz4),
            Some(Codec::Zstd) if LEVELS.contains(&level) => Some(Compression::Zstd { level }),
            _ => None,
        };
        let found = found
            .filter(|found| found.number() == number)
            .ok_or_else(|| {
                let what = format!("option `compression` has the unknown value {number:#x}");
                Error::incompatible(path, what, "open it with the newer release that wrote it")
            })?;
        found.codec().require("the options ask for data", path)?;
        Ok(found)
    }
}
