//! Blocks that come along with the one that is wanted.

use super::*;

/// Bytes of a block, about.
const BLOCK: usize = 256;

struct Written {
    vfs: SimVfs,
    meta: KeyTableMeta,
    model: Model,
}

fn written() -> Written {
    let mut model = Model::new();
    for i in 0..3000u32 {
        let entry = put_of(ModelValue::Inline(vec![i as u8; 20]));
        model.insert((i.to_be_bytes().to_vec(), Reverse(7)), entry);
    }
    let vfs = SimVfs::new();
    let meta = write_durably(&store_on(&vfs), NUMBER, build(&model, BLOCK));
    Written { vfs, meta, model }
}

#[test]
fn a_cache_with_room_is_filled_by_an_eighth_of_the_reads() {
    let written = written();
    let store = store_on(&written.vfs);
    let cache = ReadCache::new(1 << 20);
    let table = KeyTable::open(&store, written.meta.clone(), &cache);
    for (key, entry) in &written.model {
        let found = of_get(&key.0, table.get(&key.0, SeqNo::MAX).unwrap());
        assert_eq!(found, Some((key.clone(), entry.clone())));
    }
    let (blocks, reads) = (written.meta.len / BLOCK as u64, store.reads());
    assert!(blocks > 200, "{blocks} blocks, about");
    assert!(reads < blocks / 6, "{reads} reads of {blocks} blocks");
}

#[test]
fn without_room_blocks_are_read_one_by_one() {
    let written = written();
    let store = store_on(&written.vfs);
    // Large enough for the fences to stay, and too small for all blocks.
    let cache = ReadCache::new(96_000);
    let table = KeyTable::open(&store, written.meta.clone(), &cache);
    let longest_of_a_pass = || {
        let read_bytes = written.model.keys().map(|(key, _)| {
            let before = store.read_bytes();
            table.get(key, SeqNo::MAX).unwrap();
            store.read_bytes() - before
        });
        read_bytes.max().unwrap()
    };
    assert!(longest_of_a_pass() > 7 * BLOCK as u64);
    let longest = longest_of_a_pass();
    assert!((1..2 * BLOCK as u64).contains(&longest), "{longest} bytes");
}

#[test]
fn damage_is_reported_to_readers_of_the_block_alone() {
    let written = written();
    let middle = written.meta.len / 2;
    assert!(written.vfs.flip_bit(Path::new("db/000007.key"), middle * 8));
    let failures = |cache_bytes| {
        let store = store_on(&written.vfs);
        let cache = ReadCache::new(cache_bytes);
        let table = KeyTable::open(&store, written.meta.clone(), &cache);
        let fails = |key: &ModelKey| match table.get(&key.0, SeqNo::MAX) {
            Ok(found) => {
                let found = of_get(&key.0, found).map(|(_, entry)| entry);
                assert_eq!(found.as_ref(), written.model.get(key));
                false
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                true
            }
        };
        let keys = written.model.keys();
        keys.filter(|key| fails(key)).count()
    };
    let alone = failures(0);
    assert!((1..20).contains(&alone), "{alone} keys");
    assert_eq!(failures(1 << 20), alone);
}

#[test]
fn iterators_beyond_what_may_be_held_of_the_cache_have_blocks_of_their_own() {
    let written = written();
    let store = store_on(&written.vfs);
    let cache = ReadCache::new(1 << 20);
    let table = Arc::new(KeyTable::open(&store, written.meta.clone(), &cache));
    let mut iters: Vec<_> = (0..20).map(|_| table.iter(Access::Random)).collect();
    for iter in &mut iters {
        iter.seek_to_first().unwrap();
    }
    assert!(cache.hold_segment().is_none());
    for expected in &written.model {
        for iter in &mut iters {
            assert_eq!(of_iter(iter.entry()), of_model(Some(expected)));
            iter.next().unwrap();
        }
    }
    drop(iters);
    assert!(cache.hold_segment().is_some());
}
