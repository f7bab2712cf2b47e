//! Why a job is due, with the figures that decided it.

use std::fmt;

/// Why a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Memtables wait to be flushed.
    Sealed { memtables: usize },
    /// The ballast is missing, too small or too large.
    WrongBallast,
    /// Nobody writes, and what was written may hide more than there may be.
    HidesTooMuch,
    /// Nobody writes, and memtables may hold something of keyspaces that are gone.
    GoneInMemtables,
    /// Nobody writes, and the memtable has deletes that scans step over.
    ManyDeletes,
    /// No job has run for a while.
    JobsIdle,
    /// The manifest lags behind the job clock.
    ClockPassed,
    /// Partitions hold what belongs to keyspaces that are gone.
    KeyspacesGone { partitions: usize },
    /// Neighbours list nothing and belong to nobody.
    NobodysNeighbours { partitions: usize },
    /// What was hot before the opening is not in memory yet.
    HintsLeft,
    /// Much of what the cache holds has changed since it was noted.
    CacheChanged,
    /// A partition has outgrown its size.
    TooLarge { bytes: u64, most: u64 },
    /// A job of the partition needs more space than there is.
    TooLargeForSpace { bytes: u64 },
    /// Two neighbours together have no more than this.
    SmallNeighbours { bytes: u64 },
    /// The disk is full.
    DiskFull,
    /// Flushes wait for the merge.
    BlocksFlushes,
    /// What is frozen is not merged.
    Unmerged { bytes: u64 },
    /// There is more garbage than may be.
    Garbage { bytes: u64, most: u64 },
    /// Gets have looked into a table so often that its pointer index is worth it.
    WorthAnIndex,
    /// Scans have read blocks of a table one by one so often that reading all is worth it.
    WorthAllBlocks,
    /// Much of an open generation may be tombstones.
    Tombstones,
    /// Scans have merged the keys of many tables so often that doing it once is worth it.
    WorthAScanRun,
    /// Scans look into many tables of an UnsortedStore, and nobody writes.
    ManyTables { partitions: usize },
    /// Values of neighbours are spread over files, and moving them is worth it.
    Spread { partitions: usize, is_idle: bool },
    /// Nobody writes, and there is room for the pointer indexes of all tables.
    RoomForIndexes,
    #[cfg(test)]
    MadeUp,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Sealed { memtables } => write!(f, "{memtables} memtables are sealed"),
            Why::WrongBallast => f.write_str("the ballast does not have its size"),
            Why::HidesTooMuch => f.write_str("nobody writes, and unmerged records may hide much"),
            Why::GoneInMemtables => {
                f.write_str("nobody writes, and memtables may hold data of keyspaces that are gone")
            }
            Why::ManyDeletes => f.write_str("nobody writes, and a memtable has many deletes"),
            Why::JobsIdle => f.write_str("no job has run for a while"),
            Why::ClockPassed => f.write_str("the job clock is to be noted"),
            Why::KeyspacesGone { partitions } => {
                write!(
                    f,
                    "{partitions} partitions hold data of keyspaces that are gone"
                )
            }
            Why::NobodysNeighbours { partitions } => {
                write!(
                    f,
                    "{partitions} neighbours are empty and belong to no keyspace"
                )
            }
            Why::HintsLeft => f.write_str("what was hot before the opening is to be read back"),
            Why::CacheChanged => f.write_str("the cache has changed since it was noted"),
            Why::TooLarge { bytes, most } => {
                write!(f, "a partition has {bytes} bytes, and {most} is the limit")
            }
            Why::TooLargeForSpace { bytes } => {
                write!(f, "a job of a partition of {bytes} bytes lacks space")
            }
            Why::SmallNeighbours { bytes } => {
                write!(f, "two neighbours have {bytes} bytes together")
            }
            Why::DiskFull => f.write_str("the disk is full"),
            Why::BlocksFlushes => f.write_str("flushes wait for it"),
            Why::Unmerged { bytes } => write!(f, "{bytes} bytes are not merged"),
            Why::Garbage { bytes, most } => {
                write!(
                    f,
                    "{bytes} bytes are garbage, and collection begins at {most}"
                )
            }
            Why::WorthAnIndex => f.write_str("gets make a pointer index worth its cost"),
            Why::WorthAllBlocks => f.write_str("scans make reading all key blocks worth it"),
            Why::Tombstones => f.write_str("much of a generation may be tombstones"),
            Why::WorthAScanRun => f.write_str("scans make a scan run worth its cost"),
            Why::ManyTables { partitions } => {
                write!(f, "scans look into many tables of {partitions} partitions")
            }
            Why::Spread {
                partitions,
                is_idle,
            } => {
                let when = if *is_idle {
                    "nobody writes"
                } else {
                    "scans make it worth it"
                };
                write!(
                    f,
                    "values of {partitions} partitions are spread, and {when}"
                )
            }
            Why::RoomForIndexes => f.write_str("nobody writes, and all pointer indexes have room"),
            #[cfg(test)]
            Why::MadeUp => f.write_str("made up"),
        }
    }
}
