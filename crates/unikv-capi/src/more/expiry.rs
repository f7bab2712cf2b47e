//! Values that expire.

use super::compare::in_keyspace;
use crate::boundary::args::{Alone, Bytes, Optional, Out, Shared};
use crate::boundary::capi;
use crate::leveldb::database::Database;
use crate::leveldb::reads_and_writes::{ReadOptions, WriteOptions, read};
use std::time::{Duration, SystemTime};
use unikv::Ttl;

/// A time to live from C.
fn ttl(ms: u64) -> Duration {
    match ms {
        u64::MAX => Duration::MAX,
        ms => Duration::from_millis(ms),
    }
}

capi! { functions:
    /// How long the values live that are written, in milliseconds; 0 stands for what the keyspace
    /// says, `UINT64_MAX` for ever.
    fn unikv_writeoptions_set_ttl_ms(options: Alone<WriteOptions>, ttl_ms: u64) {
        options.set_ttl(Some(ttl_ms).filter(|ms| *ms > 0).map(ttl));
    }

    /// How long the value of a key lives from now on, in `*ttl_ms`: milliseconds, `UINT64_MAX` for
    /// ever. 1 if it has a value.
    fn unikv_ttl_ms(
        db: Shared<Database>, options: Optional<ReadOptions>, key[keylen]: Bytes,
        ttl_ms: Out<u64>; errptr
    ) -> u8 {
        let source = match options {
            None => db.source(),
            Some(options) => options.source(db)?,
        };
        let ttl = read!(source, from, from.ttl(key)?);
        ttl_ms.set(match ttl {
            None => 0,
            Some(Ttl::Remaining(left)) => u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            Some(_) => u64::MAX,
        })?;
        u8::from(ttl.is_some())
    }

    /// Has the value of a key expire in `ttl_ms` milliseconds. 1 if it has a value. Of the options
    /// the keyspace counts, here and below.
    fn unikv_expire(
        db: Shared<Database>, options: Optional<WriteOptions>, key[keylen]: Bytes,
        ttl_ms: u64; errptr
    ) -> u8 {
        u8::from(in_keyspace!(db, options, to, to.expire(key, ttl(ttl_ms))?))
    }

    /// Has the value of a key expire at a time, in milliseconds since 1970; a time that has passed
    /// removes the key. 1 if it has a value.
    fn unikv_expire_at(
        db: Shared<Database>, options: Optional<WriteOptions>, key[keylen]: Bytes,
        unix_ms: u64; errptr
    ) -> u8 {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
        u8::from(match time {
            Some(time) => in_keyspace!(db, options, to, to.expire_at(key, time)?),
            None => in_keyspace!(db, options, to, to.expire(key, Duration::MAX)?),
        })
    }

    /// Has the value of a key never expire. 1 if it would have.
    fn unikv_clear_ttl(
        db: Shared<Database>, options: Optional<WriteOptions>, key[keylen]: Bytes; errptr
    ) -> u8 {
        u8::from(in_keyspace!(db, options, to, to.clear_ttl(key)?))
    }
}
