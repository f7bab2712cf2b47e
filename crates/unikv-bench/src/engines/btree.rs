//! A sorted map in memory behind one lock: no store, but what the clients themselves cost, and a
//! second engine for the tests of the suite. It keeps nothing over a closing but what it writes to
//! one file then.

use crate::engine::{BatchOp, Direction, Engine};
use crate::failure::Failure;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The map, and where it is kept while it is closed.
pub struct InMemory {
    map: RwLock<Map>,
    path: PathBuf,
}

impl Engine for InMemory {
    type Setup = ();

    fn open(dir: &Path, (): &(), create: bool) -> Result<InMemory, Failure> {
        fs::create_dir_all(dir)?;
        let path = dir.join("map");
        let map = match File::open(&path) {
            Ok(file) => load(&mut BufReader::new(file)),
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
            Err(error) => Err(error),
        };
        Ok(InMemory {
            map: RwLock::new(map.map_err(|error| Failure::file(path.display(), error))?),
            path,
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.map.write().insert(key.into(), value.into());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        self.map.write().remove(key);
        Ok(())
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        let mut map = self.map.write();
        for operation in batch {
            match *operation {
                BatchOp::Put(key, value) => map.insert(key.into(), value.into()),
                BatchOp::Delete(key) => map.remove(key),
            };
        }
        Ok(())
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        Ok(self.map.read().get(key).map(|value| found(value)))
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let map = self.map.read();
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        match direction {
            Direction::Forwards => map
                .range::<[u8], _>((from, Bound::Unbounded))
                .take(limit)
                .try_for_each(|(key, value)| visit(key, value)),
            Direction::Backwards => map
                .range::<[u8], _>((Bound::Unbounded, from))
                .rev()
                .take(limit)
                .try_for_each(|(key, value)| visit(key, value)),
        }
    }

    fn settle(&self) -> Result<Duration, Failure> {
        Ok(Duration::ZERO)
    }

    fn close(self) -> Result<(), Failure> {
        let named = |error| Failure::file(self.path.display(), error);
        let mut out = BufWriter::new(File::create(&self.path).map_err(named)?);
        store(&self.map.read(), &mut out).map_err(named)
    }
}

/// Length and bytes of each key and value, one after the other.
fn store(map: &Map, out: &mut impl Write) -> io::Result<()> {
    for bytes in map.iter().flat_map(|(key, value)| [key, value]) {
        out.write_all(&(bytes.len() as u64).to_le_bytes())?;
        out.write_all(bytes)?;
    }
    out.flush()
}

fn load(input: &mut impl Read) -> io::Result<Map> {
    let mut map = Map::new();
    while let Some(key) = load_bytes(input)? {
        let value = load_bytes(input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        map.insert(key, value);
    }
    Ok(map)
}

/// `None` at the end.
fn load_bytes(input: &mut impl Read) -> io::Result<Option<Box<[u8]>>> {
    let mut length = [0; 8];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    if input.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    fn what_is_closed_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        assert!(InMemory::open(dir.path(), &(), false).is_err());
        let engine = InMemory::open(dir.path(), &(), true).unwrap();
        let batch = [BatchOp::Put(b"a", b"1"), BatchOp::Put(b"b", b"")];
        engine.write(&batch).unwrap();
        engine.put(b"c", b"3").unwrap();
        engine.delete(b"a").unwrap();
        engine.close().unwrap();
        let engine = InMemory::open(dir.path(), &(), false).unwrap();
        let mut seen = Vec::new();
        for direction in [Direction::Forwards, Direction::Backwards] {
            let note = |key: &[u8], value: &[u8]| {
                seen.push((key.to_vec(), value.to_vec()));
                Ok(())
            };
            engine.scan(Some(b"b"), direction, 2, note).unwrap();
        }
        let b = (b"b".to_vec(), Vec::new());
        assert_eq!(seen, [b.clone(), (b"c".to_vec(), b"3".to_vec()), b]);
        let get = |key: &[u8]| engine.get(key, <[u8]>::len).unwrap();
        assert_eq!((get(b"a"), get(b"c")), (None, Some(1)));
    }
}
