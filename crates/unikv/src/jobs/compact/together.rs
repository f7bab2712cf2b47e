//! Merges, collections or slices of several partitions as one job: its outputs share files of
//! values and syncs, and go into one edit.
//!
//! Invariant: where a pass fails after values have moved, nothing of the others is kept: a value
//! may have been written in part.

use crate::base::keys::FileNumber;
use crate::base::seeded::slip;
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::JobContext;
use crate::jobs::compact::merge;
use crate::jobs::compact::moved_values::MovedValues;
use crate::jobs::compact::parts::{MergePlan, MergeRules, Merged, Purpose};
use crate::record::RecordFileMeta;
use crate::version::Partition;
use crate::version::edit::VersionEdit;
use std::mem;

/// What a job of several passes has made.
#[derive(Default)]
pub(crate) struct Together {
    /// Of the first plans, as many as are done.
    pub(crate) merged: Vec<Merged>,
    pub(crate) record_files: Vec<RecordFileMeta>,
    /// The place of the plan whose pass has failed, and why.
    pub(crate) failed: Option<(usize, Error)>,
}

impl Together {
    /// The edit that lists what these plans have made, and where records stood that have moved.
    pub(crate) fn edit(self, plans: &[MergePlan]) -> (VersionEdit, Vec<(FileNumber, u64)>) {
        let mut edit = VersionEdit {
            record_files: self.record_files,
            ..VersionEdit::default()
        };
        let mut moved = Vec::new();
        for (plan, mut merged) in plans.iter().zip(self.merged) {
            let id = plan.partition.id;
            let key_tables = merged.key_tables.into_iter();
            edit.key_tables.extend(key_tables.map(|table| (id, table)));
            let dropped = merged.dropped_key_tables.into_iter();
            edit.dropped_key_tables
                .extend(dropped.map(|number| (id, number)));
            let generations = plan.inputs.generations.iter();
            edit.dropped_generations
                .extend(generations.map(|generation| (id, generation.id)));
            moved.append(&mut merged.moved);
        }
        (edit, moved)
    }
}

/// Runs the passes in their order, by the `rules` of each partition. A slice ends before the next
/// pass when others wait. The error is of what all share, or `Closed`; the job's files are gone
/// then.
pub(crate) fn merge_together<'r>(
    context: &JobContext<'_>,
    plans: &[MergePlan],
    rules: impl Fn(&Partition) -> MergeRules<'r>,
) -> Result<Together> {
    let (mut together, mut begun) = (Together::default(), Vec::new());
    let is_slice = |plan: &MergePlan| plan.inputs.purpose == Purpose::Cluster;
    let mut values = MovedValues::new(if plans.iter().any(is_slice) {
        // What a slice copies stays in one file, by which it is seen to lie together.
        u64::MAX
    } else {
        context.copied_file_bytes
    });
    for (nth, plan) in plans.iter().enumerate() {
        let MergePlan { partition, inputs } = plan;
        let rules = rules(partition);
        if nth > 0 && rules.slice.is_some_and(|slice| (slice.is_awaited)()) {
            break;
        }
        match merge::merge(context, partition, inputs, rules, &mut values) {
            Ok(merged) => {
                begun.append(&mut context.begun.take());
                together.merged.push(merged);
            }
            Err(error) => {
                context.store.remove_files(context.begun.take());
                let is_closed = error.kind() == ErrorKind::Closed;
                let is_in_part = values.are_any();
                let are_others_kept = nth > 0 && !is_closed && !is_in_part;
                if !are_others_kept {
                    context.store.remove_files(mem::take(&mut begun));
                    together.merged.clear();
                }
                if is_closed {
                    return Err(error);
                }
                together.failed = Some((nth, error));
                if !are_others_kept {
                    return Ok(together);
                }
                break;
            }
        }
    }
    context.begun.replace(begun);
    let synced = slip!(MergeUnsynced, Ok(()), context.sync_late());
    let ended = synced.and_then(|()| values.finish());
    together.record_files = ended.inspect_err(|_| {
        context.store.remove_files(context.begun.take());
    })?;
    Ok(together)
}
