//! The edits that change keyspaces, and what those that follow the changes see of them. No locks.

use crate::base::keys::{KeyspaceId, PartitionId, SeqNo, border};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::Version;
use crate::version::edit::history::{ChangeKind, LoggedChange};
use crate::version::edit::{KeyspaceMeta, PartitionMeta, VersionEdit};
use crate::version::keyspaces::DEFAULT_NAME;
use std::collections::HashMap;

/// Numbers of keyspaces; the one after the last is a border, too.
const MOST_KEYSPACES: u32 = u32::MAX - 1;

/// The edit after which there are keyspaces of these names with these options, and their ids.
pub(super) fn changed(
    version: &Version,
    names: &[&str],
    options: &KeyspaceOptions,
) -> Result<(Vec<KeyspaceId>, VersionEdit)> {
    let (mut ids, mut known) = (Vec::new(), HashMap::new());
    let (mut there, mut made) = (Vec::new(), Vec::new());
    let mut last = version.counters.last_keyspace;
    for name in names {
        if *name == DEFAULT_NAME {
            ids.push(KeyspaceId::DEFAULT);
            continue;
        }
        if let Some(id) = known.get(name) {
            ids.push(*id);
            continue;
        }
        let id = if let Some(meta) = version.keyspaces.named(name) {
            if !is_as_said(meta, options)? {
                let mut changed = meta.clone();
                changed.options = options.encode_over(&meta.options)?;
                changed.default_ttl_ms = options.ttl_over(meta.default_ttl_ms);
                there.push(changed);
            }
            meta.id
        } else {
            let id = number_after(last)?;
            last = id.0;
            made.push(KeyspaceMeta {
                id,
                data: id,
                name: (*name).to_owned(),
                options: options.encode_over(&[])?,
                since: SeqNo(0),
                default_ttl_ms: options.ttl_over(None),
            });
            id
        };
        known.insert(*name, id);
        ids.push(id);
    }
    let mut edit = with_new_data(version, made)?;
    edit.keyspaces.extend(there);
    Ok((ids, edit))
}

/// Whether a keyspace has the options that are set here.
fn is_as_said(meta: &KeyspaceMeta, options: &KeyspaceOptions) -> Result<bool> {
    let is_same_ttl = options.ttl_over(meta.default_ttl_ms) == meta.default_ttl_ms;
    Ok(is_same_ttl && options.encode_over(&meta.options)? == meta.options)
}

/// The number of the next keyspace, or of its next data.
pub(super) fn number_after(last: u32) -> Result<KeyspaceId> {
    if last < MOST_KEYSPACES {
        return Ok(KeyspaceId(last + 1));
    }
    let what = "the database has used up its 2^32 numbers of keyspaces";
    Err(Error::invalid(what, "copy it into a new database"))
}

pub(super) fn with(keyspaces: Vec<KeyspaceMeta>) -> VersionEdit {
    VersionEdit {
        keyspaces,
        ..VersionEdit::default()
    }
}

/// The edit that adds keyspaces, or gives them new data ids, which are the next numbers. A keyspace
/// begins with a partition of its own: the last partition of all, which has no end and no key
/// behind the numbers given so far, ends where the first of them begins. That moves nothing, and no
/// job needs to know.
pub(super) fn with_new_data(version: &Version, metas: Vec<KeyspaceMeta>) -> Result<VersionEdit> {
    let Some(last) = version.partitions().last() else {
        return Err(Error::internal("a version without partitions"));
    };
    let Some(newest) = metas.last().map(|meta| meta.data.0) else {
        return Ok(VersionEdit::default());
    };
    let mut next = version.counters.next_partition;
    let mut partitions = vec![PartitionMeta {
        id: last.id,
        start: last.start.clone(),
        end: None,
    }];
    for meta in &metas {
        let border = border(meta.data);
        if let Some(before) = partitions.last_mut() {
            before.end = Some(border.clone());
        }
        partitions.push(PartitionMeta {
            id: PartitionId(next),
            start: border,
            end: None,
        });
        next += 1;
    }
    Ok(VersionEdit {
        last_keyspace: Some(newest),
        next_partition: Some(next),
        partitions,
        ..with(metas)
    })
}

/// The data ids that have no keyspace any more after an edit.
pub(super) fn data_of_gone(edit: &VersionEdit, before: &Version) -> Vec<KeyspaceId> {
    let data = |id| Some(before.keyspaces.get(id)?.data);
    let dropped = edit.dropped_keyspaces.iter().filter_map(|id| data(*id));
    let emptied = edit.keyspaces.iter().filter_map(|meta| {
        let before = data(meta.id)?;
        (before != meta.data).then_some(before)
    });
    dropped.chain(emptied).collect()
}

/// What those that follow the changes see of an edit, numbered from `first` on.
pub(super) fn changes_of(edit: &VersionEdit, before: &Version, first: SeqNo) -> Vec<LoggedChange> {
    let dropped = edit.dropped_keyspaces.iter().filter_map(|id| {
        Some(LoggedChange {
            kind: ChangeKind::Dropped,
            keyspace: before.keyspaces.get(*id)?.data.0,
            ..LoggedChange::default()
        })
    });
    let changed = edit.keyspaces.iter().map(|after| change_to(after, before));
    let numbers = (first.0..).map(SeqNo);
    let numbered = dropped.chain(changed).zip(numbers);
    numbered
        .map(|(change, seq)| LoggedChange { seq, ..change })
        .collect()
}

fn change_to(after: &KeyspaceMeta, before: &Version) -> LoggedChange {
    let named = LoggedChange {
        name: Some(after.name.clone().into_bytes()),
        ..LoggedChange::default()
    };
    let Some(before) = before.keyspaces.get(after.id) else {
        return LoggedChange {
            kind: ChangeKind::Made,
            keyspace: after.data.0,
            ..named
        };
    };
    let is_other = before.data != after.data;
    LoggedChange {
        kind: match (is_other, before.name == after.name) {
            (true, _) => ChangeKind::Emptied,
            (false, false) => ChangeKind::Renamed,
            (false, true) => ChangeKind::Options,
        },
        keyspace: before.data.0,
        now: is_other.then_some(after.data.0),
        ..named
    }
}
