//! The open generations whose tombstones have been counted.
//!
//! Lock: the one inside, a leaf.

use crate::base::keys::{GenerationId, PartitionId};
use crate::base::sync::Mutex;
use crate::jobs::space::tombstones;
use crate::version::{Generation, Partition};
use std::collections::HashMap;

/// The open generations, as they were when their tombstones were counted.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<HashMap<PartitionId, (GenerationId, u64)>>);

impl Counted {
    /// Whether the newest generation may have many tombstones, and has not been looked at.
    pub(crate) fn is_due(&self, partition: &Partition) -> bool {
        let newest = partition.generations.first();
        newest.is_some_and(|generation| {
            tombstones::may_be_many(generation)
                && self.0.lock().get(&partition.id) != Some(&state_of(generation))
        })
    }

    pub(crate) fn note(&self, id: PartitionId, generation: &Generation) {
        self.0.lock().insert(id, state_of(generation));
    }
}

fn state_of(generation: &Generation) -> (GenerationId, u64) {
    (generation.id, generation.records())
}
