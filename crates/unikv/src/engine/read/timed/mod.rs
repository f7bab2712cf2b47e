//! Measuring operations: the one place where their time is taken.

use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::engine::stats::meter::Meter;
use crate::events::{Event, SlowOperation, TimedOperation};
use crate::version::keyspaces::DEFAULT_NAME;
use std::time::Duration;

/// Bytes of a key that are reported.
const KEY_BYTES: usize = 64;

impl ReadState {
    /// Does `operation`, and measures it if anything is measured. `key` names where: the data id of
    /// a keyspace, and a key in it.
    #[inline(always)]
    pub(crate) fn timed<T>(
        &self,
        operation: TimedOperation,
        key: impl FnOnce() -> (KeyspaceId, Vec<u8>),
        run: impl FnOnce() -> T,
    ) -> T {
        if !self.core.meter.is_on() || !self.core.meter.begin(operation) {
            return run();
        }
        let begin = self.core.now();
        let result = run();
        let took = self.core.now().saturating_sub(begin);
        if self.core.meter.end(operation, took) {
            self.report_slow(operation, took, key());
        }
        result
    }

    /// A key of what is read, for a report.
    #[cold]
    pub(crate) fn named(&self, source: Source, key: &[u8]) -> (KeyspaceId, Vec<u8>) {
        let view = self.view.load();
        let meta = view.version.keyspaces.get(source.keyspace);
        named(meta.map_or(source.keyspace, |meta| meta.data), key)
    }

    #[cold]
    fn report_slow(&self, operation: TimedOperation, took: Duration, at: (KeyspaceId, Vec<u8>)) {
        let (keyspace, key) = at;
        self.core.events.emit(|| {
            let view = self.view.load();
            let keyspaces = &view.version.keyspaces;
            let named = || keyspaces.of_data(keyspace).map(|meta| meta.name.clone());
            let is_default = keyspace == KeyspaceId::DEFAULT;
            Event::SlowOperation(SlowOperation {
                operation,
                keyspace: if is_default {
                    Some(DEFAULT_NAME.to_owned())
                } else {
                    named()
                },
                key,
                elapsed: took,
                waited: Meter::waits(),
            })
        });
    }
}

/// A key of a keyspace, as far as it is reported.
pub(crate) fn named(keyspace: KeyspaceId, key: &[u8]) -> (KeyspaceId, Vec<u8>) {
    (keyspace, key[..key.len().min(KEY_BYTES)].to_vec())
}

/// The same of a key with its keyspace's data id.
pub(crate) fn named_engine_key(key: &[u8]) -> (KeyspaceId, Vec<u8>) {
    let own = key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
    named(KeyspaceId::of(key), own)
}
