//! Why a writer was held up.

/// What held a writer up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum StallCause {
    /// A pause while sealed memtables pile up.
    Memtables,
    /// A pause while UnsortedStores fill up faster than they are merged.
    UnsortedStore,
    /// A pause while garbage takes more space than `max_space_amp` allows.
    Space,
    /// A wait for a flush, with every memtable sealed.
    FlushWait,
    /// A wait for a merge, with every memtable sealed and the UnsortedStore full.
    MergeWait,
}

impl StallCause {
    /// All causes.
    pub const ALL: [StallCause; 5] = [
        StallCause::Memtables,
        StallCause::UnsortedStore,
        StallCause::Space,
        StallCause::FlushWait,
        StallCause::MergeWait,
    ];

    /// A name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            StallCause::Memtables => "memtables",
            StallCause::UnsortedStore => "unsorted store",
            StallCause::Space => "space",
            StallCause::FlushWait => "flush wait",
            StallCause::MergeWait => "merge wait",
        }
    }
}
