//! Savepoints of a batch.

use super::{Batch, Sums};
use crate::base::keys::DatabaseId;
use crate::error::Error;

/// A batch as it was.
#[derive(Clone)]
pub(super) struct Savepoint {
    ops_len: usize,
    keyspaces_len: usize,
    sums: Sums,
    owner: Option<DatabaseId>,
    commit_tag: Option<Vec<u8>>,
    violation: Option<Error>,
}

impl Batch {
    /// Remembers the batch as it is, for [`Batch::rollback_to_savepoint`]. Savepoints lie on each
    /// other.
    ///
    /// ```
    /// # use unikv::Batch;
    /// let mut batch = Batch::new();
    /// batch.put("kept", "1").set_savepoint();
    /// batch.put("tried", "2");
    /// assert!(batch.rollback_to_savepoint());
    /// assert_eq!(batch.len(), 1);
    /// assert!(!batch.rollback_to_savepoint(), "there is no other one");
    /// ```
    pub fn set_savepoint(&mut self) -> &mut Batch {
        self.savepoints.push(Savepoint {
            ops_len: self.ops.len(),
            keyspaces_len: self.keyspaces.len(),
            sums: self.sums,
            owner: self.owner,
            commit_tag: self.commit_tag.clone(),
            violation: self.violation.clone(),
        });
        self
    }

    /// Makes the batch what it was at the newest savepoint, and removes that; whether there was
    /// one.
    pub fn rollback_to_savepoint(&mut self) -> bool {
        let Some(savepoint) = self.savepoints.pop() else {
            return false;
        };
        self.ops.truncate(savepoint.ops_len);
        self.keyspaces.truncate(savepoint.keyspaces_len);
        self.sums = savepoint.sums;
        self.in_default.retain(|at| *at < savepoint.sums.len);
        self.owner = savepoint.owner;
        self.commit_tag = savepoint.commit_tag;
        self.violation = savepoint.violation;
        true
    }

    /// Removes the newest savepoint and leaves the operations as they are; whether there was one.
    pub fn pop_savepoint(&mut self) -> bool {
        self.savepoints.pop().is_some()
    }
}
