//! What the experiments need of an engine, and the records that they write.

use std::path::Path;
use std::time::Duration;
use unikv_bench::Failure;

pub type Outcome<T> = Result<T, Failure>;
/// What was measured, and the figure with its unit.
pub type Figures = Vec<(String, String)>;

/// How large an experiment is.
pub struct Scale {
    pub records: u64,
    pub memory_bytes: u64,
    pub idle_seconds: u64,
}

impl Scale {
    /// A while in which nobody writes.
    pub fn idle(&self) {
        std::thread::sleep(Duration::from_secs(self.idle_seconds));
    }
}

/// An engine. The keyspace in which records are is named by its number.
pub trait Store: Sync + Sized {
    const NAME: &'static str;
    const VERSION: &'static str;
    /// Whether a range is deleted by one operation.
    const DELETES_RANGES: bool;

    fn open(dir: &Path, memory_bytes: u64, keyspaces: usize) -> Outcome<Self>;

    /// With zstd, at the level that it has by default; `None`: it has none.
    fn open_zstd(dir: &Path, memory_bytes: u64) -> Option<Outcome<Self>>;

    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Outcome<()>;

    fn delete(&self, key: &[u8]) -> Outcome<()>;

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Outcome<()>;

    fn get(&self, keyspace: usize, key: &[u8]) -> Outcome<Option<Vec<u8>>>;

    /// Visits at most `limit` records from `from` on, with a new iterator.
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Outcome<()>,
    ) -> Outcome<()>;

    /// Brings the data into the form in which they stay.
    fn compact(&self) -> Outcome<()>;

    /// Reads a key in a transaction, calls `meanwhile`, and writes what `change` makes of the
    /// value. Returns whether that was committed; false: something else was, meanwhile.
    fn transact(
        &self,
        key: &[u8],
        meanwhile: &dyn Fn() -> Outcome<()>,
        change: &dyn Fn(Option<&[u8]>) -> Vec<u8>,
    ) -> Outcome<bool>;

    /// The same until it succeeds, as the engine's own documentation has it.
    fn transact_until(&self, key: &[u8], change: &dyn Fn(Option<&[u8]>) -> Vec<u8>) -> Outcome<()> {
        while !self.transact(key, &|| Ok(()), change)? {}
        Ok(())
    }
}

pub const VALUE_BYTES: usize = 100;

pub fn key(number: u64) -> Vec<u8> {
    format!("key{number:013}").into_bytes()
}

/// The value of a key: it says which, and does not compress.
pub fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in value.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    value
}

/// Fails unless a record has the value that was written.
pub fn check(number: u64, found: Option<&[u8]>) -> Outcome<()> {
    if found == Some(&value(number)[..]) {
        Ok(())
    } else {
        Err(Failure::verification(format!("the value of key {number}")))
    }
}

/// The number of a key.
pub fn number(key: &[u8]) -> Outcome<u64> {
    let digits = key
        .strip_prefix(b"key")
        .and_then(|d| str::from_utf8(d).ok());
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| Failure::verification(format!("no key was written as {key:?}")))
}
