//! What a batch may hold.

use crate::base::keys::{KEYSPACE_PREFIX_LEN, MAX_USER_KEY_LEN, MAX_VALUE_LEN};
use crate::error::Error;
use crate::memtable::ops::OP_HEADER_LEN;

/// All operations of a batch together; a WAL record's length is 32 bits.
pub(super) const MAX_BATCH_LEN: usize = 3 << 30;
/// A caller's commit tag: it is kept in memory, and in each manifest.
const MAX_COMMIT_TAG_LEN: usize = 64 << 10;

/// Refuses a commit tag that is too long.
pub(crate) fn check_commit_tag(commit_tag: &[u8]) -> Result<(), Error> {
    if commit_tag.len() <= MAX_COMMIT_TAG_LEN {
        return Ok(());
    }
    let what = format!(
        "a commit tag of {} bytes is longer than {MAX_COMMIT_TAG_LEN}",
        commit_tag.len()
    );
    Err(Error::invalid(what, "use a shorter mark"))
}

/// Refuses more bytes of operations than a record of the log can have.
#[inline]
pub(super) fn check_batch_len(len: usize) -> Result<(), Error> {
    if len <= MAX_BATCH_LEN {
        return Ok(());
    }
    let what = format!("the batch is too large: more than {MAX_BATCH_LEN} bytes");
    Err(Error::invalid(what, "write it as several batches"))
}

/// The encoded length of an operation, if it and the batch with it are within the limits.
#[inline]
pub(super) fn check_limits(
    batch_len: usize,
    key_len: usize,
    value_len: usize,
) -> Result<usize, Error> {
    check_put(key_len, value_len)?;
    let op_len = OP_HEADER_LEN + KEYSPACE_PREFIX_LEN + key_len + value_len;
    check_batch_len(batch_len + op_len)?;
    Ok(op_len)
}

/// Refuses a key or a value that is too long.
#[inline]
pub(crate) fn check_put(key_len: usize, value_len: usize) -> Result<(), Error> {
    if key_len > MAX_USER_KEY_LEN {
        let what = format!("a key of {key_len} bytes is longer than {MAX_USER_KEY_LEN}");
        return Err(Error::invalid(what, "use a shorter key"));
    }
    if value_len > MAX_VALUE_LEN {
        let what = format!("a value of {value_len} bytes is longer than {MAX_VALUE_LEN}");
        return Err(Error::invalid(what, "split the value over several keys"));
    }
    Ok(())
}
