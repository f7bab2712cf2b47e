//! The engines.

mod fjall;
mod rocksdb;
mod unikv;

pub use fjall::Fjall;
pub use rocksdb::RocksDb;
pub use unikv::UniKv;
