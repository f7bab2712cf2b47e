//! Reading all blocks of a table at once, when that has become worth its cost.
//!
//! A scan waits for each block that the cache lacks before it knows what else to ask for. A cache
//! full of what gets asked for comes by the blocks of its tables one by one, and each costs as much
//! as an eighth of a MiB of the table does where that is read in long runs. So each block that a
//! scan had to wait for is charged, and when as much is charged as reading the table costs, that is
//! done, in the background. Should the blocks go again, they are charged again.

use super::KeySection;
use crate::key_table::cache::build_cost::BuildCost;
use crate::key_table::cache::wishes::Wish;

/// This many blocks that are waited for, one by one, cost about what a MiB does in long runs, which
/// nobody waits for; the verification of its blocks included.
const MISSES_PER_MIB: u64 = 8;

/// What the blocks of a table of this many bytes cost, in blocks waited for.
pub(super) fn cost(table_bytes: u64) -> BuildCost {
    BuildCost::of(table_bytes, MISSES_PER_MIB)
}

impl KeySection {
    /// A scan has to wait for a block.
    pub(super) fn charge_for_all_blocks(&self) {
        if self.all_blocks.as_ref().is_some_and(BuildCost::charge) {
            self.cache
                .wishes()
                .of(Wish::Blocks)
                .report(self.file.number());
            self.cache.want_blocks();
        }
    }

    #[cfg(test)]
    pub(in crate::key_table) fn wants_blocks(&self) -> bool {
        self.all_blocks.as_ref().is_some_and(BuildCost::is_worth_it)
    }

    /// See [`KeyTable::read_blocks`](crate::key_table::KeyTable::read_blocks).
    pub(in crate::key_table) fn read_all_blocks(&self, has_room: bool) -> bool {
        let Some(attempt) = self.all_blocks.as_ref().and_then(BuildCost::begin) else {
            return false;
        };
        // What cannot be read now, scans report.
        let fences = self.fences().ok().filter(|_| has_room);
        let Some(fences) = fences else {
            attempt.failed();
            return false;
        };
        self.read_all(&fences);
        true
    }
}
