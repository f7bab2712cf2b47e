use super::chunk::*;
use super::*;
use crate::base::coding::put_varint;
use crate::base::file_header::HEADER_LEN;
use crate::base::file_names::CACHE_HINTS;
use crate::base::keys::DatabaseId;
use crate::base::keys::FileNumber;
use crate::key_table::RecordPointer;
use crate::vfs::file_store::FileStore;
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::vfs::{Env, Vfs, WriteMode};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;

fn index(file: u64) -> Hint {
    let file = FileNumber(file);
    Hint::Index { file }
}

fn block(file: u64, offset: u64) -> Hint {
    let file = FileNumber(file);
    Hint::Block { file, offset }
}

fn record(file: u64, offset: u64, len: u32) -> Hint {
    let file = FileNumber(file);
    Hint::Record(RecordPointer { file, offset, len })
}

fn some(rng: &mut SmallRng, count: usize) -> Vec<Hint> {
    let mut hints: Vec<Hint> = (0..count)
        .map(|_| {
            let (file, offset) = (rng.random_range(1..9), rng.random_range(96..1 << 30));
            match rng.random_range(0..3) {
                0 => index(file),
                1 => block(file, offset),
                _ => record(file, offset, rng.random_range(36..9000)),
            }
        })
        .collect();
    hints.sort_unstable_by_key(Hint::place);
    hints
}

fn store(disk: &SimVfs, database: u8) -> Arc<FileStore> {
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(1),
    };
    env.vfs.create_dir_all(Path::new("/db")).unwrap();
    FileStore::new(env, "/db".into(), DatabaseId([database; 16]), 4)
}

fn read_all(store: &FileStore) -> Vec<Hint> {
    let mut hints = Vec::new();
    let mut reader = HintReader::of(store);
    while let Some(chunk) = reader.as_mut().and_then(HintReader::next) {
        hints.extend(chunk);
    }
    hints
}

#[test]
fn the_bytes_of_a_chunk_stay_what_they_are() {
    let hints = [
        index(3),
        block(3, 200),
        block(3, 4096),
        record(7, 96, 1060),
        record(7, 1156, 300),
    ];
    let golden = [
        5,  // hints
        12, // 3 × 4 + index
        1, 0xc8, 1, // the same file, a block at 200
        1, 0xb8, 0x1e, // and one 3896 later
        18, 96, 0xa4, 8, // 4 files later, a record at 96 of 1060 bytes
        2, 0xa4, 8, 0xac, 2, // the same file, one 1060 bytes later of 300 bytes
    ];
    assert_eq!(encode(&hints), golden);
    assert_eq!(decode(&golden).as_deref(), Some(&hints[..]));
}

#[test]
fn chunks_survive_and_what_is_no_chunk_is_refused() {
    let mut rng = SmallRng::seed_from_u64(1);
    for count in [0, 1, 2, 100, MOST_HINTS] {
        let hints = some(&mut rng, count);
        let bytes = encode(&hints);
        assert!(bytes.len() <= MOST_CHUNK_BYTES);
        assert_eq!(decode(&bytes), Some(hints));
        for len in 0..bytes.len().min(500) {
            assert_eq!(decode(&bytes[..len]), None);
        }
    }
    let widest = [record(u64::MAX >> KIND_BITS, u64::MAX, u32::MAX)];
    assert_eq!(decode(&encode(&widest)).as_deref(), Some(&widest[..]));
    // An index comes first of its file.
    let unsorted = encode(&[record(5, 10_000, 100), index(5), record(5, 96, 100)]);
    assert_eq!(decode(&unsorted), None);
    // More than there may be; an unknown kind; a file and an offset that overflow; bytes behind.
    let mut too_many = Vec::new();
    put_varint(&mut too_many, MOST_HINTS as u64 + 1);
    too_many.resize(3 * MOST_HINTS, 0);
    let wide = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let file_overflows: Vec<u8> = [1; 6].into_iter().flat_map(|_| wide).collect();
    let mut offset_overflows = vec![2, 5];
    offset_overflows.extend(wide);
    offset_overflows.extend([1, 1]);
    for bad in [
        &too_many[..],
        &[1, 3],
        &file_overflows,
        &offset_overflows,
        &[1, 4, 0],
    ] {
        assert_eq!(decode(bad), None, "{bad:?}");
    }
}

#[test]
fn a_damaged_file_shows_what_stands_before_the_damage_and_nothing_else() {
    let disk = SimVfs::new();
    let store = store(&disk, 1);
    let mut rng = SmallRng::seed_from_u64(2);
    let portions: Vec<Vec<Hint>> = (0..4).map(|_| some(&mut rng, 40)).collect();
    let written = write_hints(&store, portions.clone().into_iter()).unwrap();
    let whole: Vec<Hint> = portions.into_iter().flatten().collect();
    assert_eq!((read_all(&store), written.hints), (whole.clone(), 160));
    let path = store.dir().join(CACHE_HINTS);
    let file = disk.open(&path, crate::vfs::Access::Sequential).unwrap();
    let mut bytes = vec![0; written.bytes as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    assert_eq!(file.len().unwrap(), written.bytes);
    let put = |bytes: &[u8]| {
        disk.remove(&path).unwrap();
        let mut file = disk.create(&path, WriteMode::Log, 0).unwrap();
        file.append(bytes).unwrap();
        file.finish().unwrap();
    };
    for at in 0..bytes.len() {
        bytes[at] ^= 0x41;
        put(&bytes);
        bytes[at] ^= 0x41;
        let found = read_all(&store);
        assert!(
            found.len() < whole.len() && whole.starts_with(&found),
            "{at}"
        );
        put(&bytes[..at]);
        let found = read_all(&store);
        assert!(
            found.len() < whole.len() && whole.starts_with(&found),
            "{at}"
        );
    }
    assert!(bytes.len() > 2 * HEADER_LEN);
}

#[test]
fn another_databases_hints_are_none() {
    let disk = SimVfs::new();
    let hints = some(&mut SmallRng::seed_from_u64(3), 10);
    write_hints(&store(&disk, 1), std::iter::once(hints.clone())).unwrap();
    assert_eq!(read_all(&store(&disk, 2)), []);
    // They are replaced.
    write_hints(&store(&disk, 2), std::iter::once(hints.clone())).unwrap();
    assert_eq!(read_all(&store(&disk, 2)), hints);
    assert_eq!(read_all(&store(&disk, 1)), []);
}
