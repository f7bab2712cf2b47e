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
            if shared.verify {
                shared.verify_value("multi_get", record, value, Some(before))
            } else {
                Ok(())
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
        group.values.clear();
        group.writes.clear();
        let mut places = Vec::with_capacity(size);
        for &record in &group.records {
            let write = shared.versions.begin(record);
            let start = group.values.len();
            let end = start + shared.values.of(record, write.version);
            group.values.resize(end, 0);
            values::fill(&mut group.values[start..end], record, write.version);
            group.writes.push(write);
            places.push(start..end);
        }
        let values = places.into_iter().map(|place| &group.values[place]);
        let pairs = group.keys.iter().zip(values);
        let batch: Vec<_> = pairs.map(|(key, value)| BatchOp::Put(key, value)).collect();
        let start = Instant::now();
        let written = shared.engine.write(&batch);
        let end = Instant::now();
        written?;
        for (&record, write) in group.records.iter().zip(&group.writes) {
            shared.versions.acknowledge(record, write);
        }
        self.bytes_written += (batch.len() * KEY_BYTES + group.values.len()) as u64;
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
