//! Calls that are for several records: gets together, and batches. What is handed over is listed
//! before the time measured begins.

use super::Client;
use crate::engine::{BatchOp, Engine};
use crate::failure::Failure;
use crate::workload::generator::Chooser;
use crate::workload::keys::{KEY_BYTES, Key};
use crate::workload::values;
use crate::workload::versions::{State, Write, absence_allowed, allowed_in_words};
use std::time::Instant;

/// The records of one call that is for several.
#[derive(Default)]
pub(super) struct Group {
    records: Vec<u64>,
    keys: Vec<Key>,
    /// Of a batch.
    writes: Vec<Write>,
    /// Of a batch, one after the other.
    values: Vec<u8>,
    /// Of gets, when they began.
    before: Vec<State>,
}

impl<E: Engine> Client<'_, E> {
    pub(super) fn multi_get(
        &mut self,
        chooser: &Chooser,
        size: usize,
    ) -> Result<(Instant, Instant), Failure> {
        self.choose_group(chooser, size);
        let (shared, group) = (self.shared, &mut self.group);
        group.before.clear();
        let states = group
            .records
            .iter()
            .map(|&record| shared.versions.state(record));
        group.before.extend(states);
        let keys: Vec<&[u8]> = group.keys.iter().map(<[u8; KEY_BYTES]>::as_slice).collect();
        let misses = &mut self.misses;
        let start = Instant::now();
        // Verified within the measured time, as in a scan.
        shared.engine.multi_get(&keys, |place, value| {
            let (record, before) = (group.records[place], group.before[place]);
            let Some(value) = value else {
                *misses += 1;
                let after = shared.versions.state(record);
                if shared.verify && !absence_allowed(before, after) {
                    let expected = allowed_in_words(before, after);
                    return Err(shared.mismatch("multi_get", record, expected, "nothing"));
                }
                return Ok(());
            };
            match shared.verify {
                true => shared.verify_value("multi_get", record, value, Some(before)),
                false => Ok(()),
            }
        })?;
        Ok((start, Instant::now()))
    }

    pub(super) fn batch(
        &mut self,
        chooser: &Chooser,
        size: usize,
    ) -> Result<(Instant, Instant), Failure> {
        self.choose_group(chooser, size);
        let (shared, group) = (self.shared, &mut self.group);
        let size = group.records.len();
        group.values.resize(size * shared.value_bytes, 0);
        group.writes.clear();
        let values = group.values.chunks_exact_mut(shared.value_bytes);
        for (&record, value) in group.records.iter().zip(values) {
            let write = shared.versions.begin(record);
            values::fill(value, record, write.version);
            group.writes.push(write);
        }
        let values = group.values.chunks_exact(shared.value_bytes);
        let pairs = group.keys.iter().zip(values);
        let batch: Vec<_> = pairs.map(|(key, value)| BatchOp::Put(key, value)).collect();
        let start = Instant::now();
        let written = shared.engine.write(&batch);
        let end = Instant::now();
        written?;
        for (&record, write) in group.records.iter().zip(&group.writes) {
            shared.versions.acknowledge(record, write);
        }
        self.bytes_written += (size * (KEY_BYTES + shared.value_bytes)) as u64;
        Ok((start, end))
    }

    /// Chooses different records: of two writes of one record in a batch nobody could know the
    /// order.
    fn choose_group(&mut self, chooser: &Chooser, size: usize) {
        self.group.records.clear();
        let size = size.min(usize::try_from(self.shared.versions.present()).unwrap_or(size));
        let mut tries = 0;
        while self.group.records.len() < size && tries < 100 * size {
            let record = self.choose(chooser);
            tries += 1;
            if !self.group.records.contains(&record) {
                self.group.records.push(record);
            }
        }
        let order = self.shared.order;
        self.group.keys.clear();
        let keys = self.group.records.iter().map(|&record| order.key(record));
        self.group.keys.extend(keys);
    }
}
