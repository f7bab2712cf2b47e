//! Changes of one key that depend on its value.

use crate::boundary::args::{Bytes, Optional, OptionalBytes, Out, Shared};
use crate::boundary::capi;
use crate::leveldb::database::Database;
use crate::leveldb::reads_and_writes::WriteOptions;

/// The keyspace of write options.
macro_rules! in_keyspace {
    ($db:ident, $options:ident, $to:ident, $change:expr) => {
        match $options
            .map(|options| options.keyspace($db))
            .transpose()?
            .flatten()
        {
            None => {
                let $to = $db.db()?;
                $change
            }
            Some($to) => $change,
        }
    };
}
pub(crate) use in_keyspace;

capi! { functions:
    /// Puts `val` in the place of the value of a key if that is `expected`; NULL stands for no
    /// value, on either side. 1 if it was; else, and on failure, 0, and nothing has changed. Of the
    /// options the keyspace counts.
    fn unikv_compare_and_swap(
        db: Shared<Database>, options: Optional<WriteOptions>, key[keylen]: Bytes,
        expected[expectedlen]: OptionalBytes, val[vallen]: OptionalBytes; errptr
    ) -> u8 {
        let swapped = in_keyspace!(db, options, to, to.compare_and_swap(key, expected, val)?);
        u8::from(swapped.is_ok())
    }

    /// Adds `by` to the number that is the value of a key, 8 bytes, little-endian; no value counts
    /// as 0. The sum is in `*sum`. 1, or 0 on failure. Of the options the keyspace counts.
    fn unikv_increment(
        db: Shared<Database>, options: Optional<WriteOptions>, key[keylen]: Bytes,
        by: i64, sum: Out<i64>; errptr
    ) -> u8 {
        sum.set(in_keyspace!(db, options, to, to.increment(key, by)?))?;
        1
    }
}
