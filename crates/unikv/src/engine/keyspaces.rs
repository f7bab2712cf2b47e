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

use crate::base::keys::border;
use crate::base::keys::{KeyspaceId, PartitionId, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::engine::catalog::{Catalog, Indexes};
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::Version;
use crate::version::edit::history::{ChangeKind, LoggedChange};
use crate::version::edit::{KeyspaceMeta, PartitionMeta, VersionEdit};
use crate::version::keyspaces::DEFAULT_NAME;
use std::sync::Arc;

/// Bytes of a name.
const MOST_NAME_BYTES: usize = 255;
/// Numbers of keyspaces; the one after the last is a border, too.
const MOST_KEYSPACES: u32 = u32::MAX - 1;

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
        self.core.check_open()?;
        check_name(name)?;
        options.check()?;
        if name == DEFAULT_NAME {
            return options.refuse_for_default().map(|()| KeyspaceId::DEFAULT);
        }
        let as_it_is = |meta: &KeyspaceMeta| -> Result<bool> {
            let is_same_ttl = options.ttl_over(meta.default_ttl_ms) == meta.default_ttl_ms;
            Ok(is_same_ttl && options.encode_over(&meta.options)? == meta.options)
        };
        if let Some(meta) = self.read.view.load().version.keyspaces.named(name)
            && as_it_is(meta)?
        {
            return Ok(meta.id);
        }
        if options.default_ttl.is_some() {
            self.write.expect_default_ttl();
        }
        self.change(|version, _| {
            if let Some(meta) = version.keyspaces.named(name) {
                let mut changed = meta.clone();
                changed.options = options.encode_over(&meta.options)?;
                changed.default_ttl_ms = options.ttl_over(meta.default_ttl_ms);
                return Ok((changed.id, with(changed)));
            }
            let id = next_number(version)?;
            let meta = KeyspaceMeta {
                id,
                data: id,
                name: name.to_owned(),
                options: options.encode_over(&[])?,
                since: SeqNo(0),
                default_ttl_ms: options.ttl_over(None),
            };
            Ok((id, with_new_data(version, meta)?))
        })
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
            Ok(((), with(meta)))
        })
    }

    /// Empties a keyspace at once.
    pub(crate) fn truncate(&self, id: KeyspaceId) -> Result<()> {
        self.change(|version, since| {
            let mut meta = there(version, id, "emptied so; delete its keys instead")?.clone();
            meta.data = next_number(version)?;
            meta.since = since;
            Ok(((), with_new_data(version, meta)?))
        })
    }

    /// Drops a keyspace with all that it holds.
    pub(crate) fn drop(&self, id: KeyspaceId) -> Result<()> {
        self.change(|version, _| {
            there(version, id, "dropped")?;
            let edit = VersionEdit {
                dropped_keyspaces: vec![id],
                ..VersionEdit::default()
            };
            Ok(((), edit))
        })
    }

    /// Commits the edit that `make` makes of the version and the sequence number of the change.
    fn change<T>(
        &self,
        make: impl FnOnce(&Version, SeqNo) -> Result<(T, VersionEdit)>,
    ) -> Result<T> {
        self.core.check_open()?;
        // The most of it while others write.
        let synced = slip!(DropBeforeSync, Ok(()), self.write.sync_and_mark());
        let mut commit = self.write.commit.lock();
        self.core.check_open()?;
        self.make_durable(&commit, synced)?;
        let seq = SeqNo(commit.last_seq.0 + 1);
        let mut catalog = self.catalog.lock();
        let (result, mut edit) = make(&catalog.version, seq)?;
        let change = change_of(&edit, &catalog.version, seq);
        edit.later = change.and_then(|change| self.write.later(vec![change]));
        edit.wal_low_water = self.write.low_water_of_nothing(&commit);
        let low_water = edit.wal_low_water;
        let gone = data_of_gone(&edit, &catalog.version);
        self.catalog
            .commit_edit(&mut catalog, edit, &Indexes::new(), |view| {
                view.memtable.wal = low_water.unwrap_or(view.memtable.wal);
            })?;
        let (sealed, in_memory) = self.last_in_memory(&commit);
        for data in &gone {
            let flushed = catalog.version.counters.flushed_seq;
            catalog.gone.add(*data, in_memory, flushed);
        }
        if !gone.is_empty() {
            self.write.recent.not_in_memtables(seq);
        }
        let is_worth_a_flush = sealed.is_none() && catalog.gone.are_many();
        drop(catalog);
        // No record has this number: moments before the change have smaller ones.
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

/// The data ids that have no keyspace any more after an edit.
fn data_of_gone(edit: &VersionEdit, before: &Version) -> Vec<KeyspaceId> {
    let data = |id| Some(before.keyspaces.get(id)?.data);
    let dropped = edit.dropped_keyspaces.iter().filter_map(|id| data(*id));
    let emptied = edit.keyspaces.iter().filter_map(|meta| {
        let before = data(meta.id)?;
        (before != meta.data).then_some(before)
    });
    dropped.chain(emptied).collect()
}

/// What those that follow the changes see of it.
fn change_of(edit: &VersionEdit, before: &Version, seq: SeqNo) -> Option<LoggedChange> {
    let change = LoggedChange {
        seq,
        ..LoggedChange::default()
    };
    if let Some(id) = edit.dropped_keyspaces.first() {
        return Some(LoggedChange {
            kind: ChangeKind::Dropped,
            keyspace: before.keyspaces.get(*id)?.data.0,
            ..change
        });
    }
    let after = edit.keyspaces.first()?;
    let named = LoggedChange {
        name: Some(after.name.clone().into_bytes()),
        ..change
    };
    let Some(before) = before.keyspaces.get(after.id) else {
        return Some(LoggedChange {
            kind: ChangeKind::Made,
            keyspace: after.data.0,
            ..named
        });
    };
    let is_other = before.data != after.data;
    Some(LoggedChange {
        kind: match (is_other, before.name == after.name) {
            (true, _) => ChangeKind::Emptied,
            (false, false) => ChangeKind::Renamed,
            (false, true) => ChangeKind::Options,
        },
        keyspace: before.data.0,
        now: is_other.then_some(after.data.0),
        ..named
    })
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

fn next_number(version: &Version) -> Result<KeyspaceId> {
    match version.counters.last_keyspace {
        last if last < MOST_KEYSPACES => Ok(KeyspaceId(last + 1)),
        _ => {
            let what = "the database has used up its 2^32 numbers of keyspaces";
            Err(Error::invalid(what, "copy it into a new database"))
        }
    }
}

fn with(meta: KeyspaceMeta) -> VersionEdit {
    VersionEdit {
        keyspaces: vec![meta],
        ..VersionEdit::default()
    }
}

/// The edit that adds a keyspace, or gives it a new data id, which is the next number. A keyspace
/// begins with a partition of its own: the last partition of all, which has no end and no key
/// behind the numbers given so far, ends there. That moves nothing, and no job needs to know.
fn with_new_data(version: &Version, meta: KeyspaceMeta) -> Result<VersionEdit> {
    let Some(last) = version.partitions().last() else {
        return Err(Error::internal("a version without partitions"));
    };
    let (border, next) = (border(meta.data), version.counters.next_partition);
    let partitions = vec![
        PartitionMeta {
            id: last.id,
            start: last.start.clone(),
            end: Some(border.clone()),
        },
        PartitionMeta {
            id: PartitionId(next),
            start: border,
            end: None,
        },
    ];
    Ok(VersionEdit {
        last_keyspace: Some(meta.data.0),
        next_partition: Some(next + 1),
        partitions,
        ..with(meta)
    })
}

#[cfg(test)]
mod tests;
