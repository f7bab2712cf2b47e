//! The pointer index of a table against the table itself.

use super::*;
use crate::base::hash::key_hash;
use crate::key_table::Wish;

const SEED: u64 = 0x5eed;

/// Keys with one to three versions, the newest of every tenth of which is as `others` says.
fn model_of(keys: u32, longest: u32, others: &ModelEntry) -> Model {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut model = Model::new();
    for i in 0..keys {
        for seq in 0..rng.random_range(1..4) {
            let pointer = RecordPointer {
                file: FileNumber(rng.random_range(20..60)),
                offset: rng.random_range(64..1 << 26),
                len: rng.random_range(40..=longest),
            };
            let entry = put_of(ModelValue::Pointer(pointer));
            model.insert((i.to_be_bytes().to_vec(), Reverse(1000 + seq)), entry);
        }
        if i % 10 == 3 {
            model.insert((i.to_be_bytes().to_vec(), Reverse(2000)), others.clone());
        }
    }
    model
}

fn table_of(model: &Model, cache: &Arc<ReadCache>) -> Arc<KeyTable> {
    let store = store_on(&SimVfs::new());
    let meta = write_durably(&store, NUMBER, build(model, 512));
    Arc::new(KeyTable::open(&store, meta, cache))
}

/// Charges for an index and makes it, if it can be made.
fn make(table: &Arc<KeyTable>) -> bool {
    (0..1000).any(|_| table.count_lookup()) && table.make_index(SEED)
}

/// The newest version of each key.
fn newest(model: &Model) -> impl Iterator<Item = (&[u8], u64, &ModelEntry)> {
    let mut last: Option<&[u8]> = None;
    model.iter().filter_map(move |((key, seq), entry)| {
        let is_newest = last.replace(key) != Some(key);
        is_newest.then_some((&key[..], seq.0, entry))
    })
}

fn tombstone() -> ModelEntry {
    ModelEntry {
        kind: Kind::Delete,
        expiry_ms: None,
        value: ModelValue::None,
    }
}

#[test]
fn it_leads_to_the_newest_record_of_every_key_and_of_no_other() {
    let in_the_table = put_of(ModelValue::Inline(vec![1; 9]));
    for (longest, others) in [
        (40, tombstone()),
        (1070, in_the_table),
        (60_000, tombstone()),
    ] {
        let model = model_of(3000, longest, &others);
        let cache = ReadCache::new(4 << 20);
        let table = table_of(&model, &cache);
        make(&table);
        let index = table.index();
        let index = index.as_ref().unwrap();
        assert!(!index.is_complete());
        let (mut wrong, mut longer) = (0, 0);
        for (key, seq, entry) in newest(&model) {
            let mut found = index.candidates(key_hash(SEED, key));
            let ModelValue::Pointer(pointer) = &entry.value else {
                wrong += found.count();
                continue;
            };
            let is_it = |it: &Candidate| (it.file, it.offset) == (pointer.file, pointer.offset);
            let it = found.find(is_it).unwrap();
            assert!(it.may_be(SeqNo(seq)) && !it.may_be(SeqNo(seq + 1)));
            assert!(it.read_len >= pointer.len as usize);
            longer += it.read_len - pointer.len as usize;
        }
        assert!(longer as u64 <= 3000 * u64::from(longest) / 500, "{longer}");
        let absent = 3000..40_000u32;
        let of_absent = absent.map(|i| index.candidates(key_hash(SEED, &i.to_be_bytes())).count());
        wrong += of_absent.sum::<usize>();
        assert!(wrong < 20, "{wrong} of 37,300 lead to a record");
    }
}

#[test]
fn where_all_keys_have_a_record_it_knows_those_that_are_not_there() {
    let mut model = model_of(500, 100, &tombstone());
    model.retain(|_, entry| entry.kind == Kind::Put);
    let cache = ReadCache::new(1 << 20);
    let table = table_of(&model, &cache);
    make(&table);
    let before = cache.used_bytes();
    assert!(table.index().as_ref().unwrap().is_complete());
    assert!((4000..9000).contains(&cache.index_budget().used()));
    drop(table);
    assert_eq!(cache.index_budget().used(), 0);
    assert!(cache.used_bytes() < before);
}

#[test]
fn a_table_without_records_or_of_large_ones_has_none() {
    let mut in_the_table = model_of(100, 100, &tombstone());
    for entry in in_the_table.values_mut() {
        *entry = put_of(ModelValue::Inline(vec![2; 20]));
    }
    let mut large = model_of(100, 100, &tombstone());
    for entry in large.values_mut() {
        if let ModelValue::Pointer(pointer) = &mut entry.value {
            pointer.len = crate::key_table::STREAMED_BYTES;
        }
    }
    for model in [in_the_table, large] {
        let cache = ReadCache::new(1 << 20);
        let table = table_of(&model, &cache);
        assert!(!make(&table));
        assert!(table.index().is_none());
        assert!(!make(&table), "it is not tried again");
        assert_eq!(cache.index_budget().used(), 0);
    }
}

#[test]
fn an_index_becomes_worth_its_cost_once() {
    let model = model_of(500, 100, &tombstone());
    let cache = ReadCache::new(1 << 20);
    let wishes = cache.wishes();
    let unheard = table_of(&model, &cache);
    unheard.want_index();
    assert_eq!(wishes.of(Wish::Index).take(), None);
    wishes.hear();
    let table = table_of(&model, &cache);
    assert!(!table.wants_index() && !table.make_index(SEED));
    let worth = (0..1000).filter(|_| table.count_lookup()).count();
    assert!(worth == 1 && table.wants_index());
    assert!(wishes.of(Wish::Index).are_any() && !wishes.of(Wish::Blocks).are_any());
    let number = table.meta().number;
    assert_eq!(wishes.of(Wish::Index).take(), Some(number));
    assert_eq!(wishes.of(Wish::Index).take(), None, "it is reported once");
    assert!(table.make_index(SEED) && !table.wants_index());
    // That it is wanted beside the index costs later look-ups nothing.
    table.want_index();
    cache.set_capacity(0);
    assert!(table.index().is_none());
    cache.set_capacity(1 << 20);
    assert!((0..1000).any(|_| table.count_lookup()));
    assert_eq!(wishes.of(Wish::Index).take(), Some(number));
    // Without room, each attempt costs more.
    let small = ReadCache::new(1 << 10);
    let table = table_of(&model, &small);
    let attempts = (0..1000).filter(|_| table.count_lookup() && !table.make_index(SEED));
    assert!((6..11).contains(&attempts.count()));
}

#[test]
fn a_smaller_cache_releases_those_that_are_used_least() {
    let model = model_of(3000, 100, &tombstone());
    let cache = ReadCache::new(2 << 20);
    let tables: Vec<_> = (0..20).map(|_| table_of(&model, &cache)).collect();
    let has_one = || {
        tables
            .iter()
            .filter(|table| table.index().is_some())
            .count()
    };
    for table in &tables {
        make(table);
    }
    let had = has_one();
    assert!((6..16).contains(&had), "{had} of some 27 KB in 512 KB");
    assert!(cache.index_budget().used() <= 512 << 10);
    cache.set_capacity(1 << 20);
    let left = has_one();
    assert!(left > 0 && left < had && cache.index_budget().used() <= 256 << 10);
    // Which of them is used is shown by the second look.
    cache.set_capacity((1 << 20) - 1);
    let used = tables.iter().rposition(|table| table.index().is_some());
    let used = &tables[used.unwrap()];
    cache.index_budget().forget_uses();
    drop(used.index());
    cache.set_capacity(1 << 19);
    assert!(used.index().is_some() && has_one() < left);
    cache.set_capacity(0);
    assert_eq!((has_one(), cache.index_budget().used()), (0, 0));
}

#[test]
fn damage_leaves_a_table_without_one() {
    let model = model_of(3000, 100, &tombstone());
    let vfs = SimVfs::new();
    let meta = write_durably(&store_on(&vfs), NUMBER, build(&model, 512));
    assert!(vfs.flip_bit(Path::new("db/000007.key"), meta.len * 4));
    let cache = ReadCache::new(1 << 20);
    let table = Arc::new(KeyTable::open(&store_on(&vfs), meta, &cache));
    assert!(!make(&table));
    assert!(table.index().is_none() && cache.index_budget().used() == 0);
}

#[test]
fn of_counts_that_cannot_be_the_memory_is_more_than_there_may_ever_be() {
    let cache = ReadCache::new(1 << 20);
    let store = store_on(&SimVfs::new());
    let model = model_of(10, 100, &tombstone());
    let meta = write_durably(&store, NUMBER, build(&model, 512));
    let count = u64::MAX;
    let table = Arc::new(KeyTable::open(
        &store,
        KeyTableMeta { count, ..meta },
        &cache,
    ));
    let (all, _) = KeyTable::index_bytes_of([&table, &table]);
    assert_eq!(all, u64::MAX);
}
