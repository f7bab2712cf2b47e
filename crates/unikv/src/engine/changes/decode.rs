//! Changes, and how a record of the log becomes one.

use super::token::ChangeToken;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, Kind, SeqNo};
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::log::WalWrite;
use crate::memtable::{BatchOp, OpsIter};
use crate::record::External;
use crate::record::pointed::check_pointed;
use crate::version::edit::history::{ChangeKind as LoggedKind, LoggedChange};
use bytes::Bytes;
use std::path::Path;

/// A change: a batch with all that it has done, or something else that happened at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Everything up to this change has been seen.
    pub token: ChangeToken,
    /// The commit tag that was committed with it
    /// ([`Batch::set_commit_tag`](crate::Batch::set_commit_tag)).
    pub commit_tag: Option<Bytes>,
    /// What has changed.
    pub kind: ChangeKind,
}

/// What a change is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The operations of a batch, in their order.
    Write(Vec<ChangeOp>),
    /// Sorted keys were ingested: all that the keyspace holds from `first` to `last` may be
    /// another. Read it through a snapshot ([`Db::snapshot`](crate::Db::snapshot)), in the place of
    /// what was there: changes that come later are repeated then, which changes nothing in the end.
    /// It shows what is not durable, too: a copy that is to survive a power cut calls
    /// [`Db::sync`](crate::Db::sync) before it is stored.
    Ingest {
        /// The number of the keyspace ([`Keyspace::number`](crate::Keyspace::number)).
        keyspace: u32,
        /// The least key that was ingested.
        first: Bytes,
        /// The greatest one.
        last: Bytes,
    },
    /// A keyspace was made, changed or dropped.
    Keyspace(KeyspaceChange),
}

/// An operation of a batch. Keyspaces are numbers ([`Keyspace::number`](crate::Keyspace::number)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeOp {
    /// A key has got a value.
    Put {
        /// The keyspace.
        keyspace: u32,
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// When it expires, in milliseconds since 1970. That it does is no change of its own.
        expires_ms: Option<u64>,
    },
    /// A key was removed.
    Delete {
        /// The keyspace.
        keyspace: u32,
        /// The key.
        key: Bytes,
    },
    /// A range of keys was removed.
    DeleteRange {
        /// The keyspace.
        keyspace: u32,
        /// The first key of the range.
        start: Bytes,
        /// The first key after it; `None`: it has no end.
        end: Option<Bytes>,
    },
}

/// What has happened to a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyspaceChange {
    /// It was created.
    Created {
        /// Its number.
        number: u32,
        /// Its name.
        name: String,
    },
    /// It has got another name.
    Renamed {
        /// Its number.
        number: u32,
        /// The new name.
        name: String,
    },
    /// Its options have changed, for what is written later.
    Options {
        /// Its number.
        number: u32,
    },
    /// All its keys were removed, and it has another number from now on.
    Truncated {
        /// The number that it had.
        number: u32,
        /// Its number from now on.
        now: u32,
    },
    /// It was dropped with all its keys.
    Dropped {
        /// The number that it had.
        number: u32,
    },
}

/// What a change takes in memory, about.
pub(super) fn bytes_of(change: &Change) -> usize {
    let of_op = |op: &ChangeOp| match op {
        ChangeOp::Put { key, value, .. } => key.len() + value.len(),
        ChangeOp::Delete { key, .. } => key.len(),
        ChangeOp::DeleteRange { start, .. } => start.len(),
    };
    let ops = match &change.kind {
        ChangeKind::Write(ops) => ops.iter().map(of_op).sum::<usize>() + size_of_val(&ops[..]),
        ChangeKind::Ingest { .. } | ChangeKind::Keyspace(_) => 0,
    };
    size_of::<Change>() + ops
}

/// What a record of the log, of the segment at `path`, has changed.
pub(super) fn of_write(
    core: &Core,
    path: &Path,
    token: ChangeToken,
    write: &WalWrite<'_>,
) -> Result<Change> {
    // An operation takes more than one byte.
    let most = write.ops.len();
    let mut ops = Vec::with_capacity((write.count as usize).min(most));
    let mut seq = write.base_seq;
    for op in OpsIter::new(write.ops) {
        let op = op.map_err(|bad| bad.in_log(path))?;
        ops.push(of_op(core, path, seq, &op)?);
        seq.0 += 1;
    }
    write.check_count(ops.len() as u64, || path.to_owned())?;
    Ok(Change {
        token,
        commit_tag: write.commit_tag.map(Bytes::copy_from_slice),
        kind: ChangeKind::Write(ops),
    })
}

fn of_op(core: &Core, path: &Path, seq: SeqNo, op: &BatchOp<'_>) -> Result<ChangeOp> {
    let keyspace = KeyspaceId::of(op.key).0;
    let copy = Bytes::copy_from_slice;
    let user = |key: &[u8]| copy(key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default());
    let key = user(op.key);
    let put = |value| ChangeOp::Put {
        keyspace,
        key: key.clone(),
        value,
        expires_ms: op.expiry_ms,
    };
    Ok(match op.kind {
        Kind::Put => put(copy(op.value)),
        Kind::External => put(large(core, path, seq, op)?),
        Kind::Delete => ChangeOp::Delete { keyspace, key },
        Kind::RangeDelete => ChangeOp::DeleteRange {
            keyspace,
            start: key,
            // The border of the next keyspace: it has no end.
            end: (KeyspaceId::of(op.value).0 == keyspace).then(|| user(op.value)),
        },
        _ => {
            let what = "an operation of the log is of a kind that is not known";
            return Err(Error::corruption(path, 0, what));
        }
    })
}

/// A large value, which stands beside the log.
fn large(core: &Core, path: &Path, seq: SeqNo, op: &BatchOp<'_>) -> Result<Bytes> {
    let external = External::decode(op.value).ok_or_else(|| {
        let what = "what stands in the place of a large value is malformed";
        Error::corruption(path, 0, what)
    })?;
    let file = external.open_file(&core.store, &core.cache)?;
    // Past the cache, where a secondary could find what stood there under the same number.
    let record = file.read_uncached(external.pointer)?;
    let expected = (op.key, seq, Kind::Put);
    check_pointed(&record, expected, file.path(), external.pointer)?;
    Ok(record.into_value())
}

/// What the manifest has of a change.
pub(super) fn of_logged(token: ChangeToken, logged: &LoggedChange) -> Change {
    let number = logged.keyspace;
    let name = || String::from_utf8_lossy(logged.name.as_deref().unwrap_or_default()).into_owned();
    let copy = |key: &Vec<u8>| Bytes::copy_from_slice(key);
    let kind = match (logged.kind, &logged.keys) {
        (LoggedKind::Ingest, keys) => ChangeKind::Ingest {
            keyspace: number,
            first: keys
                .as_ref()
                .map(|(first, _)| copy(first))
                .unwrap_or_default(),
            last: keys
                .as_ref()
                .map(|(_, last)| copy(last))
                .unwrap_or_default(),
        },
        (kind, _) => ChangeKind::Keyspace(match kind {
            LoggedKind::Made => KeyspaceChange::Created {
                number,
                name: name(),
            },
            LoggedKind::Renamed => KeyspaceChange::Renamed {
                number,
                name: name(),
            },
            LoggedKind::Emptied => KeyspaceChange::Truncated {
                number,
                now: logged.now.unwrap_or(number),
            },
            LoggedKind::Dropped => KeyspaceChange::Dropped { number },
            LoggedKind::Options | LoggedKind::Ingest => KeyspaceChange::Options { number },
        }),
    };
    Change {
        token,
        commit_tag: logged.commit_tag.as_ref().map(copy),
        kind,
    }
}
