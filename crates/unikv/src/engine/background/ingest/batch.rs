//! Batches for which memory has no room: their operations become tables at once, as those of an
//! ingest do.
//!
//! A batch whose keys and small values are more than their share of the memory budget is not
//! written to the log. Its newest operation on each key is written to tables, in the order of the
//! keys, in as many passes over the batch as keep their order within the share. One edit makes all
//! of it visible and durable.
//!
//! Range deletes are kept in memory until they are flushed, so such a batch may not have any.

use super::Ingest;
use crate::base::keys::{KeyspaceId, Kind};
use crate::base::seeded::slip;
use crate::engine::background::Background;
use crate::engine::recent::reads::ReadSet;
use crate::engine::write::expiry::Expiries;
use crate::engine::write::streams::SHORT_BYTES;
use crate::error::{Error, Result};
use crate::events::TimedOperation;
use crate::jobs::ingest::Content;
use crate::memtable::{Batch, BatchOp, OpOrder, OpsIter};
use crate::options::WriteOptions;
use std::ops::Bound;
use std::sync::Arc;

/// Keys that are looked at for the bounds of each pass.
const SAMPLES_PER_PASS: usize = 32;

/// Commits a batch. With `reads` it is refused if what these hold was written since.
#[inline]
pub(crate) fn write(
    background: &Background,
    batch: &Batch,
    options: WriteOptions,
    reads: Option<&Arc<ReadSet>>,
) -> Result<()> {
    if !background.write.exceeds_memory(batch) {
        return background.write.write(batch, options, reads);
    }
    let at = Default::default;
    background.read.timed(TimedOperation::Write, at, || {
        write_as_tables(background, batch, options, reads)
    })
}

#[cold]
fn write_as_tables(
    background: &Background,
    batch: &Batch,
    options: WriteOptions,
    reads: Option<&Arc<ReadSet>>,
) -> Result<()> {
    background.core.check_open()?;
    if let Some(violation) = batch.violation() {
        return Err(violation.clone());
    }
    if batch.range_deletes() > 0 {
        let most = background.write.most_batch_bytes();
        let what = format!(
            "the batch is too large for range deletes: its keys and small values take more \
             than {most} bytes"
        );
        let remedy = "write it as several batches, or raise `memory_budget`";
        return Err(Error::invalid(what, remedy));
    }
    if options.no_wait {
        return Err(Error::would_block());
    }
    background.write.check_keyspaces(batch)?;
    let mut ingest = Ingest::begin(background, KeyspaceId::DEFAULT)?;
    (ingest.keyspaces, ingest.reads) = (Vec::new(), reads);
    batch
        .commit_tag()
        .map_or(Ok(()), |commit_tag| ingest.set_commit_tag(commit_tag))?;
    let expires = background.write.may_expire(options.ttl) || batch.has_lifetimes();
    let expiries = if expires {
        Some(background.write.expiries(options.ttl)?)
    } else {
        None
    };
    ingest.add_batch(batch, expiries.as_ref())?;
    // They are counted with the batch.
    ingest.user_bytes = 0;
    ingest.commit()?;
    background
        .core
        .counters
        .count_writes(std::iter::once(batch));
    Ok(())
}

impl Ingest<'_> {
    fn add_batch(&mut self, batch: &Batch, expiries: Option<&Expiries>) -> Result<()> {
        let ops = batch.ops_bytes();
        let most = usize::try_from(self.background.write.most_batch_bytes());
        let most = most.unwrap_or(usize::MAX);
        let passes = OpOrder::memory_bytes(batch.len()).div_ceil(most).max(1);
        let bytes = OpOrder::memory_bytes(batch.len()).min(most);
        let write = Arc::clone(&self.background.write);
        let (mut counted, turn) = write.reserve(bytes, true)?;
        // Other large batches need not wait until the tables are written.
        drop(turn);
        let bounds = bounds_of(batch, passes);
        let mut from = Bound::Unbounded;
        for to in bounds.iter().copied().map(Some).chain([None]) {
            let until = to.map_or(Bound::Unbounded, Bound::Excluded);
            let pass = (from, until);
            let wanted = |key: &[u8]| std::ops::RangeBounds::<[u8]>::contains(&pass, key);
            let bad = |bad| Error::internal(format!("a batch: {bad}"));
            // Passes are of about one size, and one may take more than was asked for.
            let len = OpOrder::count(ops, wanted).map_err(bad)?;
            counted.set(OpOrder::memory_bytes(len).max(bytes));
            let order = OpOrder::of(ops, len, wanted).map_err(bad)?;
            for op in order.newest(ops) {
                let op = expiries.map_or(op, |expiries| expiries.resolve(op));
                self.add_op(&op)?;
            }
            from = to.map_or(Bound::Unbounded, |key| {
                slip!(BatchPassGap, Bound::Excluded(key), Bound::Included(key))
            });
        }
        Ok(())
    }

    fn add_op(&mut self, op: &BatchOp<'_>) -> Result<()> {
        let keyspace = KeyspaceId::of(op.key);
        if self.keyspaces.last() != Some(&keyspace) {
            self.keyspaces.push(keyspace);
        }
        let mut rest = op.value;
        let mut fill = |out: &mut [u8]| {
            let (part, after) = rest.split_at(rest.len().min(out.len()));
            out[..part.len()].copy_from_slice(part);
            rest = after;
            Ok(part.len())
        };
        let content = match op.kind {
            Kind::Delete => Content::Removal,
            _ if op.value.len() < SHORT_BYTES => Content::Value(op.value),
            _ => Content::Parts(Some(op.value.len()), &mut fill),
        };
        self.write_engine_key(op.key, content, op.expiry_ms)
            .map_err(|error| self.fail(error))
    }
}

/// Keys that divide those of a batch into as many parts of about one size.
fn bounds_of(batch: &Batch, passes: usize) -> Vec<&[u8]> {
    if passes < 2 {
        return Vec::new();
    }
    let step = (batch.len() / (passes * SAMPLES_PER_PASS)).max(1);
    let ops = OpsIter::new(batch.ops_bytes()).map_while(std::result::Result::ok);
    let mut samples: Vec<&[u8]> = ops.step_by(step).map(|op| op.key).collect();
    samples.sort_unstable();
    let at = |pass: usize| samples.get(pass * samples.len() / passes).copied();
    let mut bounds: Vec<&[u8]> = (1..passes).filter_map(at).collect();
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests;
