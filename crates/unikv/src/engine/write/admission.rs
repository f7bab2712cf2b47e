//! What a full disk lets in: puts are refused, deletes are taken as long as what is then in memory
//! could still be flushed.

use crate::engine::write::queue::Request;
use crate::engine::write::{Commit, WritePath};
use crate::error::Result;
use crate::memtable::Batch;
use std::sync::Arc;

/// Whether all that a batch does is to delete.
fn only_deletes(batch: &Batch) -> bool {
    batch.deletes() == batch.len()
}

impl WritePath {
    /// Refuses a put while the disk is full, without waiting for who holds the commit lock.
    pub(crate) fn refuse_at_once(&self, batch: &Batch) -> Result<()> {
        if only_deletes(batch) {
            return Ok(());
        }
        self.space.check_space()
    }

    /// Sorts out what a full disk does not take, of `waiting` and of the leader's own batch: before
    /// anything of it is written, and without harm to the rest of the group.
    pub(crate) fn admit(
        &self,
        commit: &Commit,
        waiting: &mut Vec<Arc<Request>>,
        own: &Batch,
    ) -> Result<()> {
        let batches = waiting.iter().map(|request| &request.batch).chain([own]);
        let bytes: usize = batches.map(Batch::byte_len).sum();
        self.space.probe_after(bytes as u64);
        if !self.space.full.is_full() {
            return Ok(());
        }
        let mut room = self.room_for_deletes(commit);
        let mut admit = |batch: &Batch| -> Result<()> {
            let need = 2 * batch.byte_len() as u64;
            if only_deletes(batch) && need > room && self.await_flushes().is_ok() {
                room = self.room_for_deletes(commit);
            }
            if !only_deletes(batch) || need > room {
                return self.space.check_space();
            }
            room -= need;
            self.space.full.reclaim.want();
            Ok(())
        };
        let own = admit(own);
        waiting.retain(|request| {
            let refused = admit(&request.batch).err();
            let taken = refused.is_none();
            if let Some(error) = refused {
                request.answer(Err(error));
            }
            taken
        });
        own
    }

    /// Bytes of deletes that a full disk still takes: what leaves room to flush the memtables
    /// and to renew the manifest.
    fn room_for_deletes(&self, commit: &Commit) -> u64 {
        let view = self.read.view.load();
        let sealed: usize = view.sealed.iter().map(|m| m.table.bytes()).sum();
        let in_memory = (sealed + commit.memtable.table.bytes()) as u64;
        self.space.room_for_deletes(in_memory)
    }

    /// While the disk is full a delete waits for the flush after which a poisoned log begins again.
    pub(crate) fn await_new_log(&self, commit: &mut Commit) -> Result<()> {
        if !self.space.full.is_full() || self.core.health.poisoned().is_none() {
            return Ok(());
        }
        self.core.health.check_fatal()?;
        self.seal_without_wal(commit);
        self.await_flushes()
    }
}
