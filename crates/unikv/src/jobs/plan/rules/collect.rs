//! Collecting garbage alone, when no merge takes it along in time. Which files, and which
//! partitions have values there, is chosen for many passes at once
//! (`engine/background/choices/rounds.rs`).

use crate::jobs::plan::{COLLECT, Filter, Job, OfCatalog, OnFailure, Rule, Why};

/// Moves what lives in value logs with much garbage, first in the partitions that hold most of it.
pub(crate) const COLLECTIONS: Rule = Rule {
    name: COLLECT,
    of_catalog: OfCatalog::Collections,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Worker,
    find: |facts, _| {
        let pass = facts.garbage.next.clone()?;
        let why = Why::Garbage {
            bytes: facts.garbage.bytes,
            most: facts.garbage.begins_at,
        };
        Some((Job::Collect(pass), why))
    },
    // What has expired since may make one due.
    due_in: |facts| facts.garbage.look_again_in,
};
