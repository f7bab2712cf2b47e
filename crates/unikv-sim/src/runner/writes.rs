//! The writes of a run and what makes them durable: the oracle is notified of each outcome.

use super::time::{batch_of, entries};
use super::{Interrupt, Runner};
use crate::history::Key;
use crate::oracle::Change;
use crate::value::{Bytes, Value};
use std::io::{self, Read};
use std::time::Duration;
use unikv::{Db, Durability, ErrorKind, WriteOptions};

/// Gives its bytes a few hundred at a time.
struct Sips<'b>(&'b [u8]);

impl Read for Sips<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.0.len().min(out.len()).min(777);
        let (now, later) = self.0.split_at(len);
        out[..len].copy_from_slice(now);
        self.0 = later;
        Ok(len)
    }
}

impl Runner {
    /// A write of `changes`; a `single` one goes through `put`, `put_reader` and `delete`.
    pub(super) fn write(
        &mut self,
        changes: &[(Key, Option<Value>)],
        sync: Option<bool>,
        single: bool,
    ) -> Result<(), Interrupt> {
        let drawn = changes;
        let changes = self.changes(drawn);
        // Every other batch has a commit tag.
        let commit_tag =
            (!single && changes.len().is_multiple_of(2)).then(|| self.oracle.next_commit_tag());
        let under_way = (changes, commit_tag);
        self.report(Some(&under_way));
        let (changes, commit_tag) = under_way;
        let result = match &changes[..] {
            [change] if single => self.write_single(change, drawn[0].1.and_then(Value::ttl)),
            _ => {
                let mut batch = batch_of(drawn);
                if let Some(commit_tag) = &commit_tag {
                    batch.set_commit_tag(commit_tag);
                }
                match sync {
                    None => self.db().write(&batch),
                    Some(true) => self.db().write_with(&batch, Durability::Sync),
                    Some(false) => self.db().write_with(&batch, Durability::Buffered),
                }
            }
        };
        let syncs = sync.unwrap_or(self.config.syncs_every_write());
        self.written(changes, commit_tag, result, syncs)
    }

    /// Notes what became of a write.
    fn written(
        &mut self,
        changes: Vec<Change>,
        commit_tag: Option<Bytes>,
        result: unikv::Result<()>,
        syncs: bool,
    ) -> Result<(), Interrupt> {
        match result {
            Ok(()) => {
                self.oracle.acknowledged_with(changes, commit_tag);
                if syncs {
                    self.oracle.synced();
                }
                Ok(())
            }
            Err(err) if self.is_short_of_space() => {
                if err.kind() != ErrorKind::DiskFull {
                    self.oracle.unknown_with(changes, commit_tag);
                }
                self.report(None);
                self.may::<()>("write", Err(err))?;
                self.check_all()
            }
            Err(err) => {
                self.oracle.unknown_with(changes, commit_tag);
                self.report(None);
                self.may::<()>("write", Err(err))?;
                self.recover_from_fault()
            }
        }
    }

    /// A write of `changes` by a call that says whether it has written them.
    pub(super) fn write_by(
        &mut self,
        changes: Vec<Change>,
        call: impl FnOnce(&Runner) -> unikv::Result<bool>,
    ) -> Result<(), Interrupt> {
        let under_way = (changes, None);
        self.report(Some(&under_way));
        match call(self) {
            Ok(false) => {
                self.report(None);
                Ok(())
            }
            result => {
                let syncs = self.config.syncs_every_write();
                self.written(under_way.0, None, result.map(drop), syncs)
            }
        }
    }

    /// A write through `put` or `delete`; every third one may not wait at first.
    fn write_single(&self, (key, value): &Change, ttl: Option<Duration>) -> unikv::Result<()> {
        let options = match ttl {
            Some(ttl) => WriteOptions::default().ttl(ttl),
            None => WriteOptions::default(),
        };
        let write = |options: WriteOptions| match value {
            Some(value) if self.step.is_multiple_of(2) => {
                // Half of these say how long they are.
                let len = self.step.is_multiple_of(4).then_some(value.len() as u64);
                self.db().put_reader_with(key, Sips(value), len, options)
            }
            Some(value) => self.db().put_with(key, value, options),
            None => self.db().delete_with(key, options),
        };
        if !self.step.is_multiple_of(3) {
            return write(options);
        }
        let stalls = self.db().stats().stalls;
        let written = write(options.no_wait(true));
        let more = self.db().stats().stalls - stalls;
        assert_eq!(more, 0, "a write that may not wait was slowed");
        match written {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if self.oracle.unknowns() == 0
                    && let Ok(there) = self.db().get(key)
                {
                    let visible = self.visible();
                    let before = visible.get(key).map(|value| &value[..]);
                    assert_eq!(there.as_deref(), before, "a write that would block");
                }
                write(options)
            }
            written => written,
        }
    }

    /// Ingests sorted changes. All of them, and every write before, are then durable.
    pub(super) fn ingest(
        &mut self,
        changes: &[(Key, Option<Value>)],
        with_commit_tag: bool,
    ) -> Result<(), Interrupt> {
        let changes = self.changes(changes);
        let commit_tag = with_commit_tag.then(|| self.oracle.next_commit_tag());
        let under_way = (changes, commit_tag);
        self.report(Some(&under_way));
        let (changes, commit_tag) = under_way;
        let plain = || changes.iter().map(|(key, value)| (key, value.as_deref()));
        let result = if self.oracle.times.matters {
            self.db()
                .ingest_sorted(entries(&changes), commit_tag.as_deref())
        } else {
            self.db()
                .ingest_sorted(plain().map(unikv::Result::Ok), commit_tag.as_deref())
        };
        match result {
            Ok(count) => {
                assert_eq!(count, changes.len() as u64, "entries ingested");
                if !changes.is_empty() || commit_tag.is_some() {
                    self.oracle.acknowledged_with(changes, commit_tag);
                    self.oracle.synced();
                }
                Ok(())
            }
            Err(err) if self.is_short_of_space() => {
                self.oracle.unknown_with(changes, commit_tag);
                self.report(None);
                self.may::<()>("ingest", Err(err))?;
                self.check_all()
            }
            Err(err) => {
                self.oracle.unknown_with(changes, commit_tag);
                self.report(None);
                self.may::<()>("ingest", Err(err))?;
                self.recover_from_fault()
            }
        }
    }

    /// `sync` and its like; `syncs` if everything acknowledged is durable when it returns.
    pub(super) fn maintain(
        &mut self,
        what: &str,
        call: impl FnOnce(&Db) -> unikv::Result<()>,
        syncs: bool,
    ) -> Result<(), Interrupt> {
        let result = call(self.db());
        match self.may(what, result)? {
            Some(()) if syncs => self.oracle.synced(),
            Some(()) => {}
            None if self.is_short_of_space() => self.check_all()?,
            None => self.recover_from_fault()?,
        }
        Ok(())
    }
}
