//! What is refused before it is written: writes to keyspaces that are gone, writes that may not
//! wait and would have to, transactions that conflict; and what a full disk does not take. There
//! puts are refused, deletes are taken as long as what is then in memory could still be flushed.

use crate::base::keys::SeqNo;
use crate::base::sync::atomic::Ordering;
use crate::engine::write::queue::{Request, Write};
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, Result};
use crate::memtable::Batch;
use std::sync::Arc;

/// Whether all that a batch does is to delete.
fn only_deletes(batch: &Batch) -> bool {
    batch.deletes() == batch.len()
}

/// Gives a request its result if it is refused; whether it is not.
fn answer_if(request: &Request, admitted: Result<()>) -> bool {
    let is_admitted = admitted.is_ok();
    if !is_admitted {
        request.answer(admitted);
    }
    is_admitted
}

/// Refuses those of `waiting` that may not wait.
pub(crate) fn refuse_hasty(waiting: &mut Vec<Arc<Request>>) {
    waiting.retain(|request| {
        let refused = request.write().mode.no_wait.then(Error::would_block);
        answer_if(request, refused.map_or(Ok(()), Err))
    });
}

impl WritePath {
    /// Refuses a put while the disk is full, without waiting for who holds the commit lock.
    pub(crate) fn refuse_at_once(&self, batch: &Batch) -> Result<()> {
        if only_deletes(batch) {
            return Ok(());
        }
        self.space.check_space()?;
        self.space.check_room(batch.byte_len() as u64)
    }

    /// Sorts out what may not wait and would have to, and what a full disk does not take, of
    /// `waiting` and of the leader's own batch: before anything of it is written, and without harm
    /// to the rest of the group.
    pub(crate) fn admit(
        &self,
        commit: &Commit,
        waiting: &mut Vec<Arc<Request>>,
        own: Write<'_>,
    ) -> Result<()> {
        let others = || waiting.iter().map(|request| request.write());
        let others_bytes: usize = others().map(|write| write.batch.byte_len()).sum();
        let bytes = own.batch.byte_len() + others_bytes;
        self.space.probe_after(bytes as u64);
        let is_full = self.space.full_disk.is_full();
        let are_plain = own.is_plain() && others().all(Write::is_plain);
        if !is_full && are_plain && self.backpressure.is_off() {
            return Ok(());
        }
        let mut room = if is_full {
            self.room_for_deletes(commit)
        } else {
            0
        };
        let mut admit = |write: Write<'_>, earlier: &[Write<'_>]| -> Result<()> {
            let Write { batch, mode, reads } = write;
            self.check_keyspaces(batch)?;
            if let Some(reads) = reads {
                let earlier = earlier.iter().map(|write| write.batch);
                let visible = SeqNo(self.read.visible_seq.load(Ordering::Acquire));
                let view = self.read.view.load();
                self.recent.check(reads, &view, visible, earlier)?;
            }
            if mode.no_wait && self.backpressure.would_delay(batch.byte_len() as u64) {
                return Err(Error::would_block());
            }
            if !is_full {
                return Ok(());
            }
            if mode.no_wait && only_deletes(batch) {
                // The group may have to wait for flushes that make room.
                return Err(Error::would_block());
            }
            let need = 2 * batch.byte_len() as u64;
            let is_tight = only_deletes(batch) && need > room;
            if is_tight && self.await_flushes().is_ok() {
                room = self.room_for_deletes(commit);
            }
            if !only_deletes(batch) || need > room {
                return self.space.check_space();
            }
            room -= need;
            self.space.full_disk.reclaim.want();
            Ok(())
        };
        // The leader's own batch comes first in the group.
        let admitted = admit(own, &[]);
        let mut earlier: Vec<Write<'_>> = admitted.is_ok().then_some(own).into_iter().collect();
        let is_taken: Vec<bool> = waiting
            .iter()
            .map(|request| {
                let is_taken = answer_if(request, admit(request.write(), &earlier));
                earlier.extend(is_taken.then(|| request.write()));
                is_taken
            })
            .collect();
        let mut is_taken = is_taken.into_iter();
        waiting.retain(|_| is_taken.next().unwrap_or(true));
        admitted
    }

    /// Refuses a batch with keys of keyspaces that are gone. None goes while the commit lock is
    /// held.
    pub(crate) fn check_keyspaces(&self, batch: &Batch) -> Result<()> {
        let database = self.core.store.database();
        if batch.owner().is_some_and(|owner| owner != database) {
            let what = "the batch has keys in a keyspace of another database";
            return Err(Error::invalid(what, "use the keyspaces of this database"));
        }
        if batch.keyspaces().is_empty() {
            return Ok(());
        }
        let view = self.read.view.load();
        let there = &view.version.keyspaces;
        if batch.keyspaces().iter().all(|data| there.holds(*data)) {
            Ok(())
        } else {
            let what = "a keyspace of the batch has been dropped, or emptied since it was made";
            Err(Error::no_such_keyspace(what))
        }
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
    pub(crate) fn await_new_log(&self, commit: &mut Commit, may_wait: bool) -> Result<()> {
        if !self.space.full_disk.is_full() || self.core.health.poisoned().is_none() {
            return Ok(());
        }
        self.core.health.check_fatal()?;
        if !may_wait {
            return Err(Error::would_block());
        }
        self.seal_without_wal(commit);
        self.await_flushes()
    }
}

#[cfg(test)]
mod tests;
