//! What all client threads of a phase share, and how they judge what they read.

use crate::failure::Failure;
use crate::workload::keys::KeyOrder;
use crate::workload::values::{self, Lengths};
use crate::workload::versions::{State, VersionTable, allowed, allowed_in_words};
use std::fmt::Display;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What all threads of a run share.
pub struct Shared<'a, E> {
    pub engine: &'a E,
    pub order: KeyOrder,
    pub values: Lengths,
    pub verify: bool,
    /// With several threads a scan cannot say how old its records may be.
    pub threads: usize,
    pub versions: &'a VersionTable,
    /// Ends all threads after the first failure of one.
    pub stop: &'a AtomicBool,
    pub deadline: Option<Instant>,
}

impl<E> Shared<'_, E> {
    /// Checks a value read. `before` is the state when the read began; a scan has none.
    pub fn verify_value(
        &self,
        what: &str,
        record: u64,
        value: &[u8],
        before: Option<State>,
    ) -> Result<(), Failure> {
        let version = self.verify_bytes(what, record, value)?;
        self.verify_version(what, record, version, before)
    }

    /// Checks that a value read is one of `record`, and gives its version.
    pub fn verify_bytes(&self, what: &str, record: u64, value: &[u8]) -> Result<u64, Failure> {
        values::check(value, &self.values, record).map_err(|fault| {
            let (least, most) = self.values.range();
            let expected = if least == most {
                format!("a value of {least} bytes of this record")
            } else {
                format!("a value of {least} to {most} bytes of this record")
            };
            self.mismatch(what, record, expected, fault)
        })
    }

    /// Checks that `version` is one that a read of `record` may find.
    pub fn verify_version(
        &self,
        what: &str,
        record: u64,
        version: u64,
        before: Option<State>,
    ) -> Result<(), Failure> {
        let alone = self.threads == 1 && record < self.versions.present();
        let before = before.or_else(|| alone.then(|| self.versions.state(record)));
        let Some(before) = before else { return Ok(()) };
        let after = self.versions.state(record);
        if allowed(version, before, after) {
            return Ok(());
        }
        let expected = allowed_in_words(before, after);
        Err(self.mismatch(what, record, expected, format!("version {version}")))
    }

    /// The failure of a verification.
    #[cold]
    pub fn mismatch(
        &self,
        what: &str,
        record: u64,
        expected: impl Display,
        found: impl Display,
    ) -> Failure {
        let key = self.order.key(record);
        Failure::verification(format!(
            "{what} of record {record} (key {}): expected {expected}, found {found}",
            key.escape_ascii()
        ))
    }
}

/// When a phase that may last for `duration` from now has to end.
pub fn deadline(duration: Option<Duration>) -> Option<Instant> {
    duration.and_then(|duration| Instant::now().checked_add(duration))
}
