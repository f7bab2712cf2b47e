//! Values in chunks, streams and parts of values through the whole engine, on the simulated
//! machine.

use crate::codec::tests::built_in;
use crate::engine::tests::{Machine, small};
use crate::vfs::Vfs;
use crate::{
    Compression, Db, Error, ErrorKind, KeyspaceOptions, Options, Readable, Tuning, WriteOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

/// Of [`small`]'s memtable a quarter: what is shorter is an ordinary put.
const LARGE: usize = 1 << 10;

/// Some of it shrinks.
fn value(rng: &mut SmallRng, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    while value.len() < len {
        match rng.random_range(0..3) {
            0 => value.extend((0..400).map(|_| rng.random::<u8>())),
            _ => value.extend_from_slice(&[rng.random(); 300]),
        }
    }
    value.truncate(len);
    value
}

/// Gives a few bytes at a time, is interrupted now and then, and may fail in the end.
struct Halting<'b> {
    bytes: &'b [u8],
    rng: SmallRng,
    fails: bool,
}

impl<'b> Halting<'b> {
    fn new(bytes: &'b [u8], fails: bool) -> Halting<'b> {
        let rng = SmallRng::seed_from_u64(bytes.len() as u64);
        Halting { bytes, rng, fails }
    }
}

impl Read for Halting<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.rng.random_ratio(1, 10) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.bytes.is_empty() && self.fails {
            return Err(io::Error::other("the line is dead"));
        }
        let most = out.len().min(self.rng.random_range(1..=700));
        let len = self.bytes.len().min(most);
        let (now, later) = self.bytes.split_at(len);
        out[..len].copy_from_slice(now);
        self.bytes = later;
        Ok(len)
    }
}

type Model = BTreeMap<String, Vec<u8>>;

/// Reads each value in every way.
fn same(from: &impl Readable, model: &Model, rng: &mut SmallRng) {
    for (name, value) in model {
        let key = name.as_bytes();
        assert_eq!(from.get(key).unwrap().unwrap(), value, "{name}");
        assert_eq!(from.value_len(key).unwrap(), Some(value.len()));
        for _ in 0..5 {
            let start = rng.random_range(0..value.len() + 10);
            let range = start..start + rng.random_range(0..2000);
            let expected = &value[start.min(value.len())..range.end.min(value.len())];
            let found = from.get_range(key, range.clone()).unwrap().unwrap();
            assert_eq!(found, expected, "{name} {range:?}");
        }
        let mut reader = from.get_reader(key).unwrap().unwrap();
        assert_eq!(
            (reader.len(), reader.is_empty()),
            (value.len() as u64, value.is_empty())
        );
        let mut whole = Vec::new();
        reader.read_to_end(&mut whole).unwrap();
        assert_eq!(whole, *value, "{name}");
        let at = rng.random_range(0..=value.len());
        reader.seek(SeekFrom::Start(at as u64)).unwrap();
        let mut some = vec![0; rng.random_range(0..=value.len() - at)];
        reader.read_exact(&mut some).unwrap();
        assert_eq!(some, value[at..at + some.len()], "{name}");
        reader.seek(SeekFrom::End(3)).unwrap();
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0);
        assert!(reader.seek(SeekFrom::Current(-(1 << 40))).is_err());
    }
    assert!(from.get_range(b"none", 0..9).unwrap().is_none());
    assert!(from.get_reader(b"none").unwrap().is_none());
}

fn put_all(db: &Db, model: &mut Model, rng: &mut SmallRng) {
    for len in [0, 1, LARGE - 1, LARGE, LARGE + 1, 5000, 70_000] {
        for known in [false, true] {
            let value = value(rng, len);
            let reader = Halting::new(&value, false);
            let key = format!("{len} {known}");
            let len = known.then_some(len as u64);
            db.put_reader(&key, reader, len).unwrap();
            model.insert(key, value);
        }
    }
}

fn options() -> Options {
    small().tuning(
        Tuning::default()
            .partition_bytes(64 << 10)
            .key_table_bytes(1 << 10),
    )
}

#[test]
fn streams_and_parts_of_values_are_the_values_whatever_becomes_of_them() {
    for compression in [vec![Compression::None], built_in()].concat() {
        let machine = Machine::new(5);
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(5));
        for _ in 0..2 {
            let (db, _runtime) = machine.open(options().compression(compression));
            same(&db, &model, &mut rng);
            put_all(&db, &mut model, &mut rng);
            same(&db, &model, &mut rng);
            db.flush().unwrap();
            same(&db, &model, &mut rng);
            let snapshot = db.snapshot();
            let before = model.clone();
            put_all(&db, &mut model, &mut rng);
            db.compact().unwrap();
            db.collect_garbage().unwrap();
            same(&db, &model, &mut rng);
            same(&snapshot, &before, &mut rng);
            let mut transaction = db.begin();
            transaction.put("own", value(&mut rng, 3000)).unwrap();
            let own = transaction.get_range("own", 10..20).unwrap().unwrap();
            assert_eq!(own, transaction.get("own").unwrap().unwrap()[10..20]);
            let mut read = Vec::new();
            let mut reader = transaction.get_reader("own").unwrap().unwrap();
            reader.read_to_end(&mut read).unwrap();
            assert_eq!(read.len(), 3000);
            drop((transaction, snapshot, reader));
            db.close().unwrap();
        }
        let report = machine.env().check("/db").unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

#[test]
fn a_reader_that_fails_leaves_nothing() {
    let machine = Machine::new(6);
    let (db, _runtime) = machine.open(small());
    db.put("key", "before").unwrap();
    let files = machine.disk.list("/db".as_ref()).unwrap();
    for len in [0, 10, LARGE - 1, LARGE, 5 * LARGE + 7, 100 * LARGE] {
        let bytes = vec![7; len];
        for known in [None, Some(len as u64 + 1), Some(200_000)] {
            let failing = Halting::new(&bytes, true);
            let error = db.put_reader("key", failing, known).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("the line is dead"), "{error}");
        }
        let ended = db.put_reader("key", &bytes[..], Some(len as u64 + 1));
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let source = error.io_error().unwrap();
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
    }
    let too_long = db.put_reader("key", io::empty(), Some((1 << 30) + 1));
    assert_eq!(too_long.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let key = vec![0; (64 << 10) + 1];
    let too_long = db.put_reader(key, io::empty(), None);
    assert_eq!(too_long.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get("key").unwrap().unwrap(), "before");
    let mut left = machine.disk.list("/db".as_ref()).unwrap();
    left.sort();
    let mut files = files;
    files.sort();
    assert_eq!(left, files);
    // What is beyond the length stays with the reader.
    let mut reader = &[5; 3 * LARGE][..];
    db.put_reader("key", &mut reader, Some(2 * LARGE as u64))
        .unwrap();
    assert_eq!(
        (reader.len(), db.value_len("key").unwrap()),
        (LARGE, Some(2 * LARGE))
    );
}

#[test]
fn a_panic_of_a_reader_leaves_no_file() {
    struct Panics(usize);
    impl Read for Panics {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            assert!(self.0 > 0, "on purpose");
            self.0 -= 1;
            Ok(out.len())
        }
    }
    let machine = Machine::new(7);
    let (db, _runtime) = machine.open(small());
    let files = machine.disk.list("/db".as_ref()).unwrap().len();
    let put = std::panic::AssertUnwindSafe(|| db.put_reader("key", Panics(9), None));
    std::panic::catch_unwind(put).unwrap_err();
    assert_eq!(machine.disk.list("/db".as_ref()).unwrap().len(), files);
    db.put_reader("key", &[1; 5000][..], None).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), vec![1; 5000]);
    db.close().unwrap();
}

#[test]
fn a_reader_keeps_its_file_and_says_when_the_database_is_closed() {
    let machine = Machine::new(8);
    let (db, _runtime) = machine.open(small());
    let mut rng = SmallRng::seed_from_u64(8);
    let before = value(&mut rng, 200_000);
    db.put("key", &before).unwrap();
    db.put("short", "short").unwrap();
    db.flush().unwrap();
    let mut reader = db.get_reader("key").unwrap().unwrap();
    let mut short = db.get_reader("short").unwrap().unwrap();
    let used = db.stats().memory.iterators;
    assert!(used > 0, "{used}");
    let mut first = vec![0; 300];
    reader.read_exact(&mut first).unwrap();
    db.delete("key").unwrap();
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    assert!(db.stats().pins.bytes > 200_000, "{:?}", db.stats().pins);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert_eq!([first, rest].concat(), before);
    reader.seek(SeekFrom::Start(0)).unwrap();
    let sent = std::thread::spawn(move || {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        reader
    });
    let mut reader = sent.join().unwrap();
    db.close().unwrap();
    for reader in [&mut reader, &mut short] {
        let error = reader.read(&mut [0; 10]).unwrap_err();
        let error = error.get_ref().unwrap().downcast_ref::<Error>().unwrap();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
}

#[test]
fn streams_go_to_keyspaces_and_expire() {
    let machine = Machine::new(9);
    let (db, _runtime) = machine.open(small());
    let films = db.keyspace("films", KeyspaceOptions::default()).unwrap();
    films.put_reader("a", &[3; 9000][..], None).unwrap();
    assert_eq!(db.get("a").unwrap(), None);
    assert_eq!(films.get_range("a", 8990..).unwrap().unwrap(), vec![3; 10]);
    let options = WriteOptions::default().ttl(Duration::from_secs(60));
    films
        .put_reader_with("b", &[4; 9000][..], Some(9000), options)
        .unwrap();
    assert!(films.ttl("b").unwrap().is_some());
    films.drop_keyspace().unwrap();
    let error = films.put_reader("a", &[3; 9000][..], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchKeyspace);
}
