//! What each case may take: about 5 % above what was measured.
//!
//! A change that makes an operation costlier for a good reason raises its limit, one that makes it
//! cheaper lowers it; docs/benchmarks/README.md has the figures that were measured.

use gungraun::{Callgrind, EntryPoint, EventKind, LibraryBenchmarkConfig};

/// The operations of a case, and how many instructions one of them may take on the average.
pub(crate) struct Limit(u64, u64);

//                                  operations, instructions per operation at most
pub(crate) const PUT: Limit = Limit(1_000, 4_700);
pub(crate) const BATCH: Limit = Limit(100, 158_000);
pub(crate) const GET_MEMTABLE: Limit = Limit(1_000, 692);
pub(crate) const GET_UNSORTED_CACHED: Limit = Limit(1_000, 1_362);
pub(crate) const GET_UNSORTED_UNCACHED: Limit = Limit(1_000, 4_760);
pub(crate) const GET_SORTED_CACHED: Limit = Limit(1_000, 1_520);
pub(crate) const GET_SORTED_UNCACHED: Limit = Limit(1_000, 4_820);
// 1,110 to 1,502 in 35 runs: the seed of the hash decides how far a pointer index is searched until
// an empty slot.
pub(crate) const GET_ABSENT: Limit = Limit(1_000, 1_670);
// Clustering leaves the values of neighbours in up to four files.
pub(crate) const SCAN_CLUSTERED: Limit = Limit(1_000, 165_900);
pub(crate) const SCAN_SORTED: Limit = Limit(1_000, 176_800);
// 226,168 before key tables reported what they want, 226,558 after it, and 230,041 since reads have
// options: all three scans take 80 more for each entry, and where these go has not been found yet.
pub(crate) const SCAN_UNSORTED: Limit = Limit(1_000, 232_300);

// Of 5,000 records into as many; 3,763 when it was first counted.
pub(crate) const MERGE: Limit = Limit(5_000, 3_950);

impl Limit {
    pub(crate) fn operations(&self) -> u64 {
        self.0
    }

    /// Fails the case above the limit.
    pub(crate) fn config(&self) -> LibraryBenchmarkConfig {
        self.with(Callgrind::default())
    }

    /// The same where the functions of this name are counted, whatever thread runs them.
    pub(crate) fn config_of(&self, counted: &str) -> LibraryBenchmarkConfig {
        let mut callgrind = Callgrind::default();
        callgrind.entry_point(EntryPoint::Custom(counted.to_owned()));
        self.with(callgrind)
    }

    fn with(&self, mut callgrind: Callgrind) -> LibraryBenchmarkConfig {
        let instructions = self.0 * self.1;
        callgrind.hard_limits([(EventKind::Ir, instructions)]);
        let mut config = LibraryBenchmarkConfig::default();
        config.tool(callgrind);
        config
    }
}
