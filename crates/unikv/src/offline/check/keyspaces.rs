//! What a check finds out about keyspaces: that no partition holds two of them, and that the
//! manifest knows every number that keys have.
//!
//! Whether a manifest has lost its end is known from the log, as far as that says how many edits
//! were durable. The numbers say it, too: an edit makes a keyspace before any key has its number.

use crate::base::keys::KeyspaceId;
use crate::error::{Error, Result};
use crate::version::manifest::RecoveredManifest;
use crate::version::{Partition, Version};
use std::path::Path;

/// The greatest number of a keyspace that a key in a file has. Those in the log are checked where
/// it is replayed.
#[derive(Default)]
pub(super) struct Greatest(KeyspaceId);

impl Greatest {
    pub(super) fn add(&mut self, key: &[u8]) {
        self.0 = self.0.max(KeyspaceId::of(key));
    }

    /// The manifest knows it.
    pub(super) fn is_known(&self, version: &Version, manifest: &RecoveredManifest) -> Result<()> {
        let (greatest, last) = (self.0.0, version.counters.last_keyspace);
        if greatest <= last {
            return Ok(());
        }
        let what = format!(
            "the manifest has lost edits: it knows keyspaces up to number {last}, and keys have \
             number {greatest}"
        );
        Err(Error::corruption(&manifest.path, manifest.end, what))
    }
}

/// A partition holds keys of one keyspace at most.
pub(super) fn one_keyspace(
    version: &Version,
    partition: &Partition,
    manifest: &Path,
) -> Result<()> {
    if version.keyspaces.count_in(partition.range()) <= 1 {
        return Ok(());
    }
    let what = format!("partition {} lies in several keyspaces", partition.id.0);
    Err(Error::corruption(manifest, 0, what))
}

#[cfg(test)]
mod tests {
    use crate::KeyspaceOptions;
    use crate::engine::tests::common::rewrite_manifest;
    use crate::engine::tests::{Machine, small};

    /// In the log, in a table and in a key table.
    #[test]
    fn a_manifest_that_does_not_know_the_keyspace_of_a_key_is_a_problem() {
        for state in 0..3 {
            let machine = Machine::new(state);
            let (db, _runtime) = machine.open(small());
            let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
            a.put("key", "value").unwrap();
            drop(a);
            match state {
                0 => {}
                1 => db.flush().unwrap(),
                _ => db.compact().unwrap(),
            }
            let disk = machine.disk.process_kill();
            drop(db);
            let machine = Machine {
                disk,
                seed: state + 10,
            };
            let check = || machine.env().check("/db").unwrap();
            assert!(check().is_clean(), "{:#?}", check());
            rewrite_manifest(&machine, |edit| {
                edit.keyspaces.clear();
                edit.last_keyspace = None;
            });
            let report = check();
            assert_eq!(report.problems.len(), 1, "{state}: {report:#?}");
            let problem = &report.problems[0];
            let names_it = problem.file.to_string_lossy().contains("MANIFEST");
            assert!(
                names_it && problem.what.contains("has lost edits"),
                "{problem:?}"
            );
        }
    }
}
