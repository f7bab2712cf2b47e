//! Merges: which partition's is most urgent. (What goes together with it, and which generations
//! are merged, is chosen when the job is made: `engine/background/kinds/merge/planning.rs`.)

use crate::base::keys::PartitionId;
use crate::jobs::plan::{Facts, Filter, MERGE, Why};

/// The partitions that can be merged, the most urgent first.
pub(crate) fn ready<'a>(
    facts: &'a Facts<'_>,
    filter: Filter,
) -> impl Iterator<Item = PartitionId> + 'a {
    let all = facts.partitions.merges();
    all.filter(move |id| filter.may_take(facts, MERGE, *id))
}

/// The partition whose merge is most urgent, and why it is.
pub(crate) fn most_urgent(facts: &Facts<'_>, filter: Filter) -> Option<(PartitionId, Why)> {
    let mut id = ready(facts, filter).next()?;
    let mut blocks = facts.partitions.get(id)?.blocks_flushes;
    if !blocks && let Some(blocking) = ready(facts, filter).find(|id| facts.blocking == Some(*id)) {
        (id, blocks) = (blocking, true);
    }
    let partition = facts.partitions.get(id)?;
    let why = if blocks {
        Why::BlocksFlushes
    } else {
        Why::Unmerged {
            bytes: partition.unsorted_bytes,
        }
    };
    Some((id, why))
}
