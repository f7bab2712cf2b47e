//! What a caller asks for: which codec, and how hard it tries.

use super::Codec;
use crate::error::{Error, Result};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

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
/// let options = Options::default().compression(Compression::zstd(3));
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
        /// writes has level 3 at most, and level 1 while another flush waits, so that a slow level
        /// never holds up a writer: values get
        /// their level when they are copied in the background, key blocks in every merge. While it
        /// compresses, Zstandard takes memory beside the budget: for each background thread about
        /// 1 MB at level 3, and some 10 MB at level 19.
        level: i32,
    },
}

/// The least and greatest level.
const LEVELS: std::ops::RangeInclusive<i32> = -7..=22;
/// The level of Zstandard's own choice.
const USUAL_LEVEL: i32 = 3;
/// The level of what has no time to lose.
const HASTY_LEVEL: i32 = 1;

impl Compression {
    /// Zstandard at this level; 3 is its usual one.
    #[must_use]
    pub const fn zstd(level: i32) -> Compression {
        Compression::Zstd { level }
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

    /// What a flush uses in its place: see [`Haste`].
    pub(crate) fn of_flush(self, haste: Haste) -> Compression {
        let Compression::Zstd { level } = self else {
            return self;
        };
        let most = match haste {
            Haste::None => USUAL_LEVEL,
            Haste::Some => HASTY_LEVEL,
        };
        Compression::Zstd {
            level: level.min(most),
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

/// How little time a flush has to compress. Writers come to wait for flushes, so these never take a
/// slow level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Nothing waits for it: the usual level at most.
    None,
    /// Another flush waits: a fast level.
    Some,
}

/// `none`, `lz4`, or `zstd:` and the level.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

/// Reads what `Display` writes, and `zstd` for its usual level. Whether this build has the codec is
/// not looked at.
impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compression> {
        let level = |text: &str| text.parse().ok().filter(|level| LEVELS.contains(level));
        let found = match text.split_once(':') {
            None if text == "none" => Some(Compression::None),
            None if text == "lz4" => Some(Compression::Lz4),
            None if text == "zstd" => Some(Compression::zstd(USUAL_LEVEL)),
            Some(("zstd", text)) => level(text).map(|level| Compression::Zstd { level }),
            _ => None,
        };
        found.ok_or_else(|| {
            let remedy = "use none, lz4, zstd, or zstd:LEVEL with a level from -7 to 22";
            Error::invalid(format!("there is no compression {text:?}"), remedy)
        })
    }
}
