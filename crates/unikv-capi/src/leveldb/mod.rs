//! LevelDB's C interface: its functions under the prefix `unikv_`, in its order of arguments and
//! with its conventions. Programs that say `leveldb_` link the library of that name, which only
//! leads here.

pub(crate) mod batch;
pub(crate) mod comparator;
pub(crate) mod database;
pub(crate) mod iterator;
pub(crate) mod offline;
pub(crate) mod options;
pub(crate) mod properties;
pub(crate) mod reads_and_writes;
pub(crate) mod small;
