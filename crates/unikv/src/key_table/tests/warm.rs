//! Blocks that go to the cache when they are written.

use super::*;

const BLOCK: usize = 256;

fn model() -> Model {
    let entry = |i: u32| put_of(ModelValue::Inline(vec![i as u8; 20]));
    let key = |i: u32| (i.to_be_bytes().to_vec(), Reverse(7));
    (0..3000).map(|i| (key(i), entry(i))).collect()
}

fn written(store: &Arc<FileStore>, model: &Model, cache: &Arc<ReadCache>) -> KeyTable {
    let mut section = build(model, BLOCK);
    section.keep_in(cache);
    let meta = write_key_table(store, NUMBER, section).unwrap();
    KeyTable::open(store, meta, cache)
}

#[test]
fn what_was_kept_when_it_was_written_is_not_read() {
    let (store, model) = (store_on(&SimVfs::new()), model());
    let cache = ReadCache::new(1 << 20);
    let table = written(&store, &model, &cache);
    assert!(table.is_mostly_cached());
    // Once by the fences in the cache, then by those that the table has pinned.
    for _ in 0..2 {
        for (key, entry) in &model {
            let found = of_get(&key.0, table.get(&key.0, SeqNo::MAX).unwrap());
            assert_eq!(found, Some((key.clone(), entry.clone())));
        }
        assert!(table.is_mostly_cached());
    }
    assert_eq!(store.reads(), 0);
}

#[test]
fn what_is_obsolete_leaves_its_room_to_others() {
    let (model, cache) = (model(), ReadCache::new(1 << 20));
    let new_store = || store_on(&SimVfs::new());
    for asks_first in [false, true] {
        let store = new_store();
        let table = written(&store, &model, &cache);
        if asks_first {
            let (key, _) = model.keys().next().unwrap();
            assert!(table.get(key, SeqNo::MAX).unwrap().is_some());
        }
        table.mark_obsolete();
        assert!(!table.is_mostly_cached());
        drop(table);
        assert_eq!(cache.used_bytes(), 0);
    }

    let small = ReadCache::new(40_000);
    let store = new_store();
    let table = written(&store, &model, &small);
    assert!(!small.has_room() && !table.is_mostly_cached());
    table.mark_obsolete();
    assert!(small.has_room());
}
