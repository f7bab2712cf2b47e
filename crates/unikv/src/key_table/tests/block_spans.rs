//! Blocks of a table, read at once: those that are named, and all when that is worth its cost.

use super::*;
use crate::key_table::Wish;
use bytes::Bytes;

/// Bytes of a block, about.
const BLOCK: usize = 256;
const KEYS: u32 = 3000;

struct Written {
    vfs: SimVfs,
    meta: KeyTableMeta,
}

fn written() -> Written {
    let entries = (0..KEYS).map(|i| {
        let entry = put_of(ModelValue::Inline(vec![i as u8; 20]));
        ((i.to_be_bytes().to_vec(), Reverse(7)), entry)
    });
    let vfs = SimVfs::new();
    let meta = write_durably(&store_on(&vfs), NUMBER, build(&entries.collect(), BLOCK));
    Written { vfs, meta }
}

/// A cache that has room for all blocks, and is full: it reads them one by one.
fn full_cache(meta: &KeyTableMeta) -> Arc<ReadCache> {
    let cache = ReadCache::new(4 * meta.len);
    for offset in 0..40 {
        let other = Bytes::from(vec![0; meta.len as usize / 8]);
        cache.insert_record(FileNumber(1), offset, other, false);
    }
    assert!(!cache.has_room());
    cache
}

/// What a scan finds that begins at each of these keys, in turn.
fn scan(table: &Arc<KeyTable>, keys: impl Iterator<Item = u32>) -> Vec<Result<u8>> {
    let found = keys.map(|i| {
        let mut scan = table.iter(Access::Random);
        scan.seek(&i.to_be_bytes(), SeqNo::MAX)?;
        let entry = scan.entry().unwrap();
        assert_eq!(entry.key, i.to_be_bytes());
        match entry.value {
            EntryValue::Inline(value) => Ok(value[0]),
            _ => panic!("a value that stands elsewhere"),
        }
    });
    found.collect()
}

/// Keys of many blocks.
fn spread() -> impl Iterator<Item = u32> {
    (0..KEYS).step_by(KEYS as usize / 40)
}

/// Where all blocks begin.
fn offsets(table: &KeyTable) -> Vec<u64> {
    let fences = table.section().fences().unwrap();
    (0..fences.len())
        .filter_map(|i| Some(fences.place(i)?.offset))
        .collect()
}

fn warm(table: &KeyTable, offsets: &[u64]) {
    table.section().warm(offsets, usize::MAX, &|| true);
}

#[test]
fn blocks_that_are_named_are_read_in_few_reads_and_nobody_waits_for_them_again() {
    let written = written();
    let store = store_on(&written.vfs);
    let cache = full_cache(&written.meta);
    let table = Arc::new(KeyTable::open(&store, written.meta.clone(), &cache));
    let offsets = offsets(&table);
    // Every second one, and places where no block begins.
    let some: Vec<u64> = offsets.iter().step_by(2).copied().collect();
    let before = store.reads();
    warm(&table, &[1, 97, u64::MAX]);
    assert_eq!(store.reads(), before);
    warm(&table, &some);
    assert_eq!(store.reads() - before, some.len() as u64);
    let before = store.reads();
    warm(&table, &some);
    assert_eq!(store.reads(), before, "they are there");

    let cache = full_cache(&written.meta);
    let table = Arc::new(KeyTable::open(&store, written.meta.clone(), &cache));
    table.section().fences().unwrap();
    let before = store.reads();
    table.section().warm(&offsets, usize::MAX, &|| false);
    assert_eq!(store.reads(), before, "somebody closes the database");
    table.section().warm(&offsets[..8], 0, &|| true);
    assert_eq!(store.reads() - before, 8, "one by one");
    warm(&table, &offsets);
    assert!(store.reads() - before < 8 + offsets.len() as u64 / 50);
    let before = store.reads();
    for (i, found) in (0..KEYS).zip(scan(&table, 0..KEYS)) {
        assert_eq!(found.unwrap(), i as u8);
    }
    assert_eq!(store.reads(), before);
}

#[test]
fn scans_that_waited_often_wait_no_more() {
    let written = written();
    let store = store_on(&written.vfs);
    let cache = full_cache(&written.meta);
    let table = Arc::new(KeyTable::open(&store, written.meta.clone(), &cache));
    cache.wishes().hear();
    assert!(!table.read_blocks(true), "nobody has waited");
    scan(&table, 0..1);
    assert!(!table.wants_blocks() && !cache.are_blocks_wanted());
    scan(&table, spread());
    assert!(table.wants_blocks() && cache.are_blocks_wanted());
    assert!(!cache.are_blocks_wanted(), "it is reported once");
    let wishes = cache.wishes();
    let number = Some(table.meta().number);
    assert_eq!(
        [
            wishes.of(Wish::Blocks).take(),
            wishes.of(Wish::Blocks).take()
        ],
        [number, None]
    );

    let before = store.reads();
    assert!(table.read_blocks(true));
    let blocks = written.meta.len / BLOCK as u64;
    assert!(store.reads() - before < blocks / 50);
    let before = store.reads();
    for (i, found) in (0..KEYS).zip(scan(&table, 0..KEYS)) {
        assert_eq!(found.unwrap(), i as u8);
    }
    assert_eq!(store.reads(), before);
    assert!(!table.wants_blocks());
}

#[test]
fn look_ups_are_not_charged() {
    let written = written();
    let cache = full_cache(&written.meta);
    let table = Arc::new(KeyTable::open(
        &store_on(&written.vfs),
        written.meta.clone(),
        &cache,
    ));
    for i in spread() {
        assert!(table.get(&i.to_be_bytes(), SeqNo::MAX).unwrap().is_some());
    }
    assert!(!table.wants_blocks());
}

#[test]
fn without_room_nothing_is_read_and_the_next_attempt_costs_more() {
    let written = written();
    let store = store_on(&written.vfs);
    let cache = full_cache(&written.meta);
    assert!(cache.has_room_for_blocks(written.meta.len));
    assert!(!cache.has_room_for_blocks(4 * written.meta.len));
    let table = Arc::new(KeyTable::open(&store, written.meta.clone(), &cache));
    let waits = || {
        let mut keys = (0..KEYS).step_by(10);
        keys.position(|i| {
            cache.set_capacity(0);
            cache.set_capacity(4 * written.meta.len);
            scan(&table, i..i + 1);
            table.wants_blocks()
        })
    };
    let (first, before) = (waits().unwrap(), store.reads());
    assert!(!table.read_blocks(false));
    assert_eq!(store.reads(), before);
    assert!(!table.wants_blocks());
    assert!(waits().unwrap() > first);
}

#[test]
fn damage_is_reported_to_readers_of_the_block_alone() {
    let written = written();
    let middle = written.meta.len / 2;
    assert!(written.vfs.flip_bit(Path::new("db/000007.key"), middle * 8));
    let store = store_on(&written.vfs);
    let cache = full_cache(&written.meta);
    let table = Arc::new(KeyTable::open(&store, written.meta.clone(), &cache));
    warm(&table, &offsets(&table));
    let mut failures = 0;
    for (i, found) in (0..KEYS).zip(scan(&table, 0..KEYS)) {
        match found {
            Ok(found) => assert_eq!(found, i as u8),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                failures += 1;
            }
        }
    }
    assert!((1..20).contains(&failures), "{failures} keys");
}
