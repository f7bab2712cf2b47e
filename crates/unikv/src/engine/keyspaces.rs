//! Creating, changing and dropping keyspaces.
//!
//! Invariants: each change is one version edit, committed under the commit lock after the log has
//! been synced. So it has a place in the write order: a power cut that takes a write takes no later
//! change with it (I3), and no write to a keyspace that is gone comes after it into the log. The
//! log counts the edits before later writes, which shows when the manifest has lost one. What a
//! keyspace that is gone held is read by nobody, as every read asks the version for the data id;
//! the background removes it ([`crate::engine::background::kinds`], "clear").
//!
//! Locks: the commit lock, then the catalog's.

mod edits;

use crate::base::keys::{KeyspaceId, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::engine::catalog::{Catalog, Indexes};
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::Version;
use crate::version::edit::{KeyspaceMeta, VersionEdit};
use crate::version::keyspaces::DEFAULT_NAME;
use edits::{changed, changes_of, data_of_gone, number_after, with, with_new_data};
use std::sync::Arc;

/// Bytes of a name.
const MOST_NAME_BYTES: usize = 255;

/// The component that changes which keyspaces there are.
pub(crate) struct KeyspaceChanges {
    core: Arc<Core>,
    read: Arc<ReadState>,
    catalog: Arc<Catalog>,
    write: Arc<WritePath>,
}

impl KeyspaceChanges {
    pub(crate) fn new(
        core: &Arc<Core>,
        read: &Arc<ReadState>,
        catalog: &Arc<Catalog>,
        write: &Arc<WritePath>,
    ) -> KeyspaceChanges {
        KeyspaceChanges {
            core: Arc::clone(core),
            read: Arc::clone(read),
            catalog: Arc::clone(catalog),
            write: Arc::clone(write),
        }
    }

    /// The keyspace of this name, which is made if there is none. Options that are set hold from
    /// now on.
    pub(crate) fn open(&self, name: &str, options: &KeyspaceOptions) -> Result<KeyspaceId> {
        let opened = self.open_all(&[name], options)?.pop();
        opened.ok_or_else(|| Error::internal("no keyspace was opened"))
    }

    /// The keyspaces of these names, all made and changed by one edit.
    pub(crate) fn open_all(
        &self,
        names: &[&str],
        options: &KeyspaceOptions,
    ) -> Result<Vec<KeyspaceId>> {
        self.core.check_open()?;
        names.iter().try_for_each(|name| check_name(name))?;
        options.check()?;
        if names.contains(&DEFAULT_NAME) {
            options.refuse_for_default()?;
        }
        let view = self.read.view.load();
        let (there, edit) = changed(&view.version, names, options)?;
        drop(view);
        if edit.keyspaces.is_empty() {
            return Ok(there);
        }
        if options.default_ttl.is_some() {
            self.write.expect_default_ttl();
        }
        self.change(|version, _| changed(version, names, options))
    }

    /// Gives a keyspace another name.
    pub(crate) fn rename(&self, id: KeyspaceId, name: &str) -> Result<()> {
        check_name(name)?;
        self.change(|version, _| {
            let mut meta = there(version, id, "renamed")?.clone();
            let other = version.keyspaces.named(name);
            if name == DEFAULT_NAME || other.is_some_and(|other| other.id != id) {
                let what = format!("there is a keyspace {name:?} already");
                return Err(Error::invalid(what, "choose another name"));
            }
            meta.name = name.to_owned();
            Ok(((), with(vec![meta])))
        })
    }

    /// Empties a keyspace at once.
    pub(crate) fn truncate(&self, id: KeyspaceId) -> Result<()> {
        self.change(|version, since| {
            let mut meta = there(version, id, "emptied so; delete its keys instead")?.clone();
            meta.data = number_after(version.counters.last_keyspace)?;
            meta.since = since;
            Ok(((), with_new_data(version, vec![meta])?))
        })
    }

    /// Drops keyspaces with all that they hold, by one edit.
    pub(crate) fn drop(&self, ids: &[KeyspaceId]) -> Result<()> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return self.core.check_open();
        }
        self.change(|version, _| {
            for id in &ids {
                there(version, *id, "dropped")?;
            }
            let edit = VersionEdit {
                dropped_keyspaces: ids,
                ..VersionEdit::default()
            };
            Ok(((), edit))
        })
    }

    /// Commits the edit that `make` makes of the version and the first sequence number of its
    /// changes: each that others can see has its own.
    fn change<T>(
        &self,
        make: impl FnOnce(&Version, SeqNo) -> Result<(T, VersionEdit)>,
    ) -> Result<T> {
        self.core.check_open()?;
        // The most of it while others write.
        let synced = slip!(DropBeforeSync, Ok(()), self.write.sync_and_note());
        let mut commit = self.write.commit.lock();
        self.core.check_open()?;
        self.make_durable(&commit, synced)?;
        let first = SeqNo(commit.last_seq.0 + 1);
        let mut catalog = self.catalog.lock();
        let (result, mut edit) = make(&catalog.version, first)?;
        let changes = changes_of(&edit, &catalog.version, first);
        let seq = SeqNo(commit.last_seq.0 + changes.len().max(1) as u64);
        edit.later = self.write.later(changes);
        edit.wal_low_water = self.write.low_water_of_nothing(&commit);
        if !seeded!(EditForgetsLog) {
            edit.wal_durable = self.write.wal_sync.durable_segment();
        }
        let low_water = edit.wal_low_water;
        let gone = data_of_gone(&edit, &catalog.version);
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |view| {
                view.memtable.wal = low_water.unwrap_or(view.memtable.wal);
            })?;
        let (sealed, in_memory) = self.last_in_memory(&commit);
        let flushed = catalog.version.counters.flushed_seq;
        catalog.gone.add(&gone, in_memory, flushed);
        if !gone.is_empty() {
            self.write.recent.not_in_memtables(seq);
        }
        let is_worth_a_flush = sealed.is_none() && catalog.gone.are_many();
        drop(catalog);
        // No record has these numbers: moments before the change have smaller ones.
        commit.last_seq = seq;
        self.read.publish_unlogged_seq(seq);
        self.write.note_edit(&mut commit, low_water);
        if is_worth_a_flush && !commit.memtable.table.is_empty() && commit.wal.is_some() {
            // The change stands; after a failure the next write resumes.
            let _poisoned = self.write.seal(&mut commit);
        }
        drop(commit);
        self.core.work.notify();
        Ok(result)
    }

    /// Makes durable whatever was written. While the disk is full there may be no log, but then
    /// everything may be in tables. `synced` is what came of a try without the lock.
    fn make_durable(&self, commit: &Commit, synced: Result<()>) -> Result<()> {
        if seeded!(DropBeforeSync) {
            return Ok(());
        }
        self.core.health.check_fatal()?;
        if !self.core.health.is_suspended() {
            return self.write.sync_wal();
        }
        if commit.memtable.table.is_empty() && self.read.view.load().sealed.is_empty() {
            return Ok(());
        }
        synced?;
        let remedy = "retry: writing resumes once the memtables have been flushed";
        Err(Error::writes_suspended(
            "what was written is not durable yet",
            remedy,
        ))
    }

    /// The last write in a sealed memtable, if there is one, and in any.
    fn last_in_memory(&self, commit: &Commit) -> (Option<SeqNo>, SeqNo) {
        let view = self.read.view.load();
        let sealed = view
            .sealed
            .iter()
            .filter_map(|handle| handle.table.max_seq());
        let sealed = sealed.max();
        let last = sealed.max(commit.memtable.table.max_seq());
        (sealed, last.unwrap_or_default())
    }
}

fn check_name(name: &str) -> Result<()> {
    if (1..=MOST_NAME_BYTES).contains(&name.len()) {
        return Ok(());
    }
    let what = format!("a name of {} bytes is no name of a keyspace", name.len());
    let remedy = format!("use 1 to {MOST_NAME_BYTES} bytes");
    Err(Error::invalid(what, remedy))
}

/// The keyspace with this id, which is to be changed as `how` says.
fn there<'a>(version: &'a Version, id: KeyspaceId, how: &str) -> Result<&'a KeyspaceMeta> {
    if id == KeyspaceId::DEFAULT {
        let what = format!("the keyspace {DEFAULT_NAME:?} cannot be {how}");
        return Err(Error::invalid(what, "make a keyspace of another name"));
    }
    version.keyspaces.existing(id)
}

#[cfg(test)]
mod tests;
