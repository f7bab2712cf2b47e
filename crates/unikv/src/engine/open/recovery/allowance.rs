//! How much of the log a reader may have in memory.
//!
//! A reader does not flush. So where its caller has set a budget, a log beyond it is refused before
//! it is in memory, with the figure that is needed.

use crate::error::{Error, Result};
use crate::log::WalWrite;
use crate::version::Version;

/// What an entry of a memtable takes beside its bytes in the log, at most.
const ENTRY_BYTES: u64 = 112;
/// What a record of an UnsortedStore takes in a hash index that grows, at most.
const INDEX_BYTES: u64 = 64;
/// The part of a budget that is left to all the rest: iterators, the cache, and what memtables
/// allocate before they fill it.
const REST_PART: u64 = 4;

/// Room for writes of the log.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// The budget; `None`: as much as is needed.
    budget: Option<u64>,
    needed: u64,
}

impl Allowance {
    /// However much it is.
    pub(crate) fn boundless() -> Allowance {
        Allowance {
            budget: None,
            needed: 0,
        }
    }

    /// Of a budget, where there is this version and memtables hold some bytes already.
    pub(crate) fn beside(budget: Option<u64>, version: &Version, held: u64) -> Allowance {
        let indexes = version.partition_sums().unsorted_records * INDEX_BYTES;
        let metadata = 2 * version.memory_bytes() as u64;
        Allowance {
            budget,
            needed: held + indexes + metadata,
        }
    }

    /// Whether there is room for a write, and for all those before it.
    pub(crate) fn takes(&mut self, write: &WalWrite<'_>) -> bool {
        let commit_tag = write
            .commit_tag
            .map_or(0, |commit_tag| commit_tag.len() as u64);
        let entries = u64::from(write.count).saturating_mul(ENTRY_BYTES);
        let bytes = write.ops.len() as u64 + commit_tag;
        self.needed = self.needed.saturating_add(bytes.saturating_add(entries));
        self.is_enough()
    }

    fn is_enough(&self) -> bool {
        let most = |budget: u64| budget - budget / REST_PART;
        self.budget.is_none_or(|budget| self.needed <= most(budget))
    }

    /// Refuses a log for which there was no room.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(budget) = self.budget.filter(|_| !self.is_enough()) else {
            return Ok(());
        };
        let needed = self.needed / (REST_PART - 1) * REST_PART + 2 * REST_PART;
        let what = format!(
            "what is not flushed yet takes more memory than a budget of {budget} bytes has room for"
        );
        let remedy = format!(
            "set `memory_budget` to {needed} bytes or more, or have the writer flush its memtables"
        );
        Err(Error::invalid(what, remedy))
    }
}
