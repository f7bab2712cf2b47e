//! Changes of one key that depend on its value, and transactions that are tried again.

use super::{Isolation, Txn};
use crate::base::bounds::KeyBounds;
use crate::base::keys::KeyspaceId;
use crate::engine::handle::Handle;
use crate::engine::read::lifetimes::Ttl;
use crate::engine::write::waits::Alone;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Lifetime;
use crate::options::WriteOptions;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// From this try on a transaction is alone.
const ALONE_FROM: u32 = 16;
/// A transaction is tried as often as this. Being alone once is not enough: a writer that was under
/// way before may commit first, and each of them can do so once.
pub(crate) const TRIES: u32 = ALONE_FROM + 4;
/// The pauses between the first tries are up to this long; they double up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The value was another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The value that the key has; `None`: it has none.
    pub actual: Option<Bytes>,
}

/// Runs `attempt` on new transactions until one commits or fails otherwise than by a conflict, at
/// most [`TRIES`] times, or for ever.
pub(crate) fn retry<T, E: From<Error>>(
    handle: &Arc<Handle>,
    most: Option<u32>,
    mut attempt: impl FnMut(Txn) -> std::result::Result<T, Ended<E>>,
) -> std::result::Result<T, E> {
    for tried in 1.. {
        let alone = if tried >= ALONE_FROM {
            Alone::begin(&handle.engine.write)
        } else {
            None
        };
        let mut txn = Txn::begin(handle, Isolation::Serializable);
        txn.stay_alone_if(alone);
        let reads = Arc::clone(txn.reads());
        match attempt(txn) {
            Ok(done) => return Ok(done),
            Err(Ended::Failed(error)) if !reads.has_met_emptied() || most == Some(tried) => {
                return Err(error);
            }
            // A keyspace was emptied meanwhile. The next try finds it empty.
            Err(Ended::Failed(_)) => {}
            Err(Ended::Conflict(error)) if most == Some(tried) => return Err(error.into()),
            Err(Ended::Conflict(_)) if tried >= ALONE_FROM => {}
            Err(Ended::Conflict(_)) => pause(handle, tried),
        }
    }
    Err(Error::internal("a transaction was not tried").into())
}

/// How an attempt ended that did not commit.
pub(crate) enum Ended<E> {
    Conflict(Error),
    Failed(E),
}

impl<E: From<Error>> From<Error> for Ended<E> {
    fn from(error: Error) -> Ended<E> {
        match error.kind() {
            ErrorKind::Conflict => Ended::Conflict(error),
            _ => Ended::Failed(error.into()),
        }
    }
}

/// Waits for a drawn time, longer the more tries there were, so that those that have met do not
/// meet again.
fn pause(handle: &Handle, tried: u32) {
    let runtime = &handle.engine.core.store.env().runtime;
    let most = FIRST_PAUSE
        .saturating_mul(1 << tried.min(10))
        .min(LONGEST_PAUSE);
    let most = most.as_nanos() as u64;
    runtime.delay(Duration::from_nanos(runtime.random_u64() % most));
}

/// Puts `change` of the key's value in its place, and returns what `change` does besides.
fn change_value<T>(
    handle: &Arc<Handle>,
    keyspace: KeyspaceId,
    key: &[u8],
    mut change: impl FnMut(Option<Bytes>) -> Result<(Change, T)>,
) -> Result<T> {
    committed(handle, |txn| {
        let (change, result) = change(txn.get(keyspace, key, true)?)?;
        if let Change::To(value) = change {
            let lifetime = txn.lifetime_to_keep(keyspace, key)?;
            txn.write_for(keyspace, key, value.as_deref(), lifetime)?;
        }
        Ok(result)
    })
}

/// Commits what `run` writes, again and again until nothing comes between.
fn committed<T>(handle: &Arc<Handle>, mut run: impl FnMut(&mut Txn) -> Result<T>) -> Result<T> {
    retry(handle, None, |mut txn| {
        let result = run(&mut txn)?;
        txn.commit(WriteOptions::default())?;
        Ok::<_, Ended<Error>>(result)
    })
}

enum Change {
    Nothing,
    /// `None`: the key is removed.
    To(Option<Bytes>),
}

/// Removes the first entry in a range, or the last. Those who take entries of one keyspace take
/// turns: all of them want the same one.
pub(crate) fn pop(
    handle: &Arc<Handle>,
    keyspace: KeyspaceId,
    range: &impl KeyBounds,
    last: bool,
) -> Result<Option<(Bytes, Bytes)>> {
    // In a child of a fork a thread that is not there may have the turn.
    handle.engine.core.check_open()?;
    // A caller's type, which is asked before the turn: it may take entries itself.
    let (start, end) = range.bounds();
    let range = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
    let _turn = handle.turn(keyspace);
    committed(handle, |txn| {
        let mut entries = txn.range(keyspace, &range);
        let entry = if last {
            entries.next_back()
        } else {
            entries.next()
        };
        let Some((key, value)) = entry.transpose()? else {
            return Ok(None);
        };
        txn.write(keyspace, &key, None)?;
        Ok(Some((key, value)))
    })
}

pub(crate) fn compare_and_swap(
    handle: &Arc<Handle>,
    keyspace: KeyspaceId,
    key: &[u8],
    expected: Option<&[u8]>,
    new: Option<&[u8]>,
) -> Result<std::result::Result<(), Mismatch>> {
    let new = new.map(Bytes::copy_from_slice);
    change_value(handle, keyspace, key, |actual| {
        if actual.as_deref() == expected {
            return Ok((Change::To(new.clone()), Ok(())));
        }
        Ok((Change::Nothing, Err(Mismatch { actual })))
    })
}

pub(crate) fn update(
    handle: &Arc<Handle>,
    keyspace: KeyspaceId,
    key: &[u8],
    mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
) -> Result<Option<Bytes>> {
    change_value(handle, keyspace, key, |before| {
        let after = change(before.as_deref()).map(Bytes::from);
        Ok((Change::To(after.clone()), after))
    })
}

pub(crate) fn increment(
    handle: &Arc<Handle>,
    keyspace: KeyspaceId,
    key: &[u8],
    by: i64,
) -> Result<i64> {
    change_value(handle, keyspace, key, |before| {
        let before = before.as_deref().map_or(Ok(0), decode)?;
        let Some(after) = before.checked_add(by) else {
            let what = format!("{before} and {by} are more than 64 bits hold");
            return Err(Error::invalid(what, "keep the number smaller"));
        };
        let bytes = Bytes::copy_from_slice(&after.to_le_bytes());
        Ok((Change::To(Some(bytes)), after))
    })
}

/// Has the value of a key live as long as this: see [`Txn::set_lifetime`].
pub(crate) fn set_lifetime(
    handle: &Arc<Handle>,
    keyspace: KeyspaceId,
    key: &[u8],
    lifetime: Lifetime,
) -> Result<bool> {
    committed(handle, |txn| txn.set_lifetime(keyspace, key, lifetime))
}

/// Has the value of a key live for ever. Whether it would not have.
pub(crate) fn clear_ttl(handle: &Arc<Handle>, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
    let before = committed(handle, |txn| txn.clear_ttl(keyspace, key))?;
    Ok(matches!(before, Some(Ttl::Remaining(_))))
}

fn decode(value: &[u8]) -> Result<i64> {
    let number = value.try_into().map(i64::from_le_bytes);
    number.map_err(|_| {
        let what = format!("the value has {} bytes and is no number", value.len());
        Error::invalid(what, "increment values of 8 bytes, little-endian")
    })
}
