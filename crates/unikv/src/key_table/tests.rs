//! Key sections against a model, against damage, and byte for byte.

use super::block::common_prefix;
use super::builder::write_with_header;
use super::*;
use crate::base::file_header::{FileHeader, FileKind};
use crate::base::keys::{DatabaseId, FileNumber, FileUid, Kind, SeqNo};
use crate::codec::Compression;
use crate::error::{ErrorKind, Result};
use crate::key_table::Expiring;
use crate::key_table::block::fences::Fences;
use crate::testing::golden;
use crate::vfs::file_store::FileStore;
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::vfs::{Access, Env, Vfs};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod block_spans;
mod compressed;
mod hand_made;
mod neighbours;
mod pointer_index;
mod spare;

const DATABASE: DatabaseId = DatabaseId([0xdb; 16]);
const NUMBER: FileNumber = FileNumber(7);

fn store_on(vfs: &SimVfs) -> Arc<FileStore> {
    let runtime = SimRuntime::new(1);
    let env = Env {
        vfs: Arc::new(vfs.clone()),
        runtime,
    };
    env.vfs.create_dir_all(Path::new("db")).unwrap();
    FileStore::new(env, PathBuf::from("db"), DATABASE, 16)
}

/// A durable key table.
fn write_durably(
    store: &Arc<FileStore>,
    number: FileNumber,
    section: KeySectionBuilder,
) -> KeyTableMeta {
    let (meta, file) = write_key_table(store, number, section).unwrap();
    file.sync().unwrap();
    meta
}

fn header() -> FileHeader {
    let uid = FileUid(0x0123_4567_89ab_cdef);
    FileHeader {
        kind: FileKind::KeyTable,
        database: DATABASE,
        uid,
        number: NUMBER,
        required: 0,
    }
}

/// A key and the reverse of its sequence number: the internal order.
type ModelKey = (Vec<u8>, Reverse<u64>);
type Model = BTreeMap<ModelKey, ModelEntry>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelEntry {
    kind: Kind,
    expiry_ms: Option<u64>,
    value: ModelValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelValue {
    None,
    Inline(Vec<u8>),
    Pointer(RecordPointer),
}

impl ModelValue {
    fn as_ref(&self) -> EntryValue<'_> {
        match self {
            ModelValue::None => EntryValue::None,
            ModelValue::Inline(bytes) => EntryValue::Inline(bytes),
            ModelValue::Pointer(pointer) => EntryValue::Pointer(*pointer),
        }
    }
}

fn build(model: &Model, block_bytes: usize) -> KeySectionBuilder {
    build_as(model, block_bytes, Compression::None)
}

fn build_as(model: &Model, block_bytes: usize, compression: Compression) -> KeySectionBuilder {
    let mut builder = KeySectionBuilder::new(block_bytes);
    builder.compress(compression);
    for ((key, seq), entry) in model {
        builder.add(&KeyEntry {
            key,
            seq: SeqNo(seq.0),
            kind: entry.kind,
            expiry_ms: entry.expiry_ms,
            value: entry.value.as_ref(),
        });
    }
    builder
}

fn of_iter(entry: Option<KeyEntry<'_>>) -> Option<(ModelKey, ModelEntry)> {
    let entry = entry?;
    let value = match entry.value {
        EntryValue::None => ModelValue::None,
        EntryValue::Inline(bytes) => ModelValue::Inline(bytes.to_vec()),
        EntryValue::Pointer(pointer) => ModelValue::Pointer(pointer),
    };
    let (kind, expiry_ms) = (entry.kind, entry.expiry_ms);
    let key = (entry.key.to_vec(), Reverse(entry.seq.0));
    Some((
        key,
        ModelEntry {
            kind,
            expiry_ms,
            value,
        },
    ))
}

fn of_model(found: Option<(&ModelKey, &ModelEntry)>) -> Option<(ModelKey, ModelEntry)> {
    found.map(|(key, entry)| (key.clone(), entry.clone()))
}

fn of_get(key: &[u8], found: Option<block::entry::OwnedEntry>) -> Option<(ModelKey, ModelEntry)> {
    let found = found?;
    let value = match found.value {
        OwnedValue::None => ModelValue::None,
        OwnedValue::Inline(bytes) => ModelValue::Inline(bytes.to_vec()),
        OwnedValue::Pointer(pointer) => ModelValue::Pointer(pointer),
    };
    let entry = ModelEntry {
        kind: found.kind,
        expiry_ms: found.expiry_ms,
        value,
    };
    Some(((key.to_vec(), Reverse(found.seq.0)), entry))
}

fn random_key(rng: &mut SmallRng, alphabet: u8) -> Vec<u8> {
    let mut key = vec![0, 0, 0, rng.random_range(1..3)];
    let len = match rng.random_range(0..100) {
        0 => 0,
        1 => 64 << 10,
        2..10 => rng.random_range(200..300),
        _ => rng.random_range(0..24),
    };
    // Long keys share long prefixes, so that blocks stay in proportion.
    let shared = if len > 100 { len - 3 } else { 0 };
    key.extend((0..len).map(|i| {
        if i < shared {
            b'x'
        } else {
            rng.random_range(0..alphabet)
        }
    }));
    key
}

/// A put that never expires.
fn put_of(value: ModelValue) -> ModelEntry {
    ModelEntry {
        kind: Kind::Put,
        expiry_ms: None,
        value,
    }
}

fn random_entry(rng: &mut SmallRng) -> ModelEntry {
    let kind = if rng.random_ratio(1, 5) {
        Kind::Delete
    } else {
        Kind::Put
    };
    let value = match rng.random_range(0..3) {
        0 if kind == Kind::Delete => ModelValue::None,
        1 => ModelValue::Inline(vec![rng.random(); rng.random_range(0..200)]),
        _ => ModelValue::Pointer(RecordPointer {
            file: FileNumber(rng.random_range(1..40)),
            offset: rng.random::<u64>() >> rng.random_range(24..57),
            len: rng.random_range(40..u32::MAX),
        }),
    };
    let expiry_ms = rng.random_ratio(1, 6).then(|| rng.random());
    ModelEntry {
        kind,
        expiry_ms,
        value,
    }
}

fn random_model(rng: &mut SmallRng) -> Model {
    let alphabet = [1, 2, 4, 255][rng.random_range(0..4)];
    let keys = rng.random_range(0..300);
    let mut model = Model::new();
    for _ in 0..keys {
        let key = random_key(rng, alphabet);
        let versions = match rng.random_range(0..40) {
            0 => rng.random_range(0..400),
            1..8 => rng.random_range(2..10),
            _ => 1,
        };
        for _ in 0..versions {
            let seq = rng.random::<u64>() >> rng.random_range(8..64);
            model.insert((key.clone(), Reverse(seq)), random_entry(rng));
        }
    }
    model
}

/// A position that is in the model, or near one, or anywhere.
fn random_target(rng: &mut SmallRng, model: &Model) -> (Vec<u8>, u64) {
    let any = rng.random_range(0..SeqNo::MAX.0);
    if model.is_empty() || rng.random_ratio(1, 8) {
        return (random_key(rng, 255), any);
    }
    let i = rng.random_range(0..model.len());
    let ((key, seq), _) = model.iter().nth(i).unwrap();
    let mut key = key.clone();
    match rng.random_range(0..6) {
        0 => key.push(rng.random()),
        1 => {
            key.pop();
        }
        2 => {
            if let Some(last) = key.last_mut() {
                *last = last.wrapping_add(1);
            }
        }
        _ => {}
    }
    let seq = match rng.random_range(0..4) {
        0 => seq.0,
        1 => seq.0 + 1,
        2 => seq.0.saturating_sub(1),
        _ => any,
    };
    (key, seq)
}

#[test]
fn a_table_answers_like_a_sorted_map() {
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let model = random_model(&mut rng);
        let store = store_on(&SimVfs::new());
        let block_bytes = [1, 64, 512, 4096][rng.random_range(0..4)];
        let compression = any_compression(&mut rng);
        let section = build_as(&model, block_bytes, compression);
        let meta = write_durably(&store, NUMBER, section);
        assert_meta(&meta, &model);
        let cache = ReadCache::new([0, 20_000, 1 << 24][rng.random_range(0..3)]);
        let table = Arc::new(KeyTable::open(&store, meta, &cache));
        table.verify().unwrap();
        for _ in 0..200 {
            let (key, seq) = random_target(&mut rng, &model);
            let newest = model.range((key.clone(), Reverse(seq))..).next();
            let expected = of_model(newest.filter(|((found, _), _)| *found == key));
            let found = of_get(&key, table.get(&key, SeqNo(seq)).unwrap());
            assert_eq!(found, expected, "seed {seed}: get {key:?} at {seq}");
        }
        for access in [Access::Random, Access::Sequential] {
            walk(&mut rng, &model, table.iter(access), seed);
            assert_eq!(
                all(table.iter(access)).unwrap(),
                model.clone().into_iter().collect::<Vec<_>>()
            );
        }
    }
}

/// None, or one of those that this build has.
fn any_compression(rng: &mut SmallRng) -> Compression {
    let mut all = crate::codec::tests::built_in();
    // The slow ones take as long here as everything else.
    all.retain(|compression| compression.level() < 9);
    all.push(Compression::None);
    all.swap_remove(rng.random_range(0..all.len()))
}

fn assert_meta(meta: &KeyTableMeta, model: &Model) {
    assert_eq!(meta.count, model.len() as u64);
    let first = model.first_key_value().map(|((key, _), _)| key.clone());
    let last = model.last_key_value().map(|((key, _), _)| key.clone());
    assert_eq!(meta.min_key, first.unwrap_or_default());
    assert_eq!(meta.max_key, last.unwrap_or_default());
    let seqs = || model.keys().map(|(_, seq)| SeqNo(seq.0));
    assert_eq!(meta.min_seq, seqs().min().unwrap_or_default());
    assert_eq!(meta.max_seq, seqs().max().unwrap_or_default());
    let expiries = || model.values().filter_map(|entry| entry.expiry_ms);
    assert_eq!(meta.expiry, expiries().min().zip(expiries().max()));
    let mut refs = BTreeMap::new();
    let mut inline_bytes = 0;
    for entry in model.values() {
        match &entry.value {
            ModelValue::None => {}
            ModelValue::Inline(bytes) => inline_bytes += bytes.len() as u64,
            ModelValue::Pointer(pointer) => {
                let (count, bytes) = refs.entry(pointer.file).or_insert((0, 0));
                *count += 1;
                *bytes += u64::from(pointer.len);
            }
        }
    }
    let of_refs = |(file, (count, bytes))| RecordFileRefs { file, count, bytes };
    assert_eq!(meta.refs, refs.into_iter().map(of_refs).collect::<Vec<_>>());
    assert_eq!(meta.inline_bytes, inline_bytes);
    assert_eq!(meta.newest, Some(newest(model)));
}

/// The versions with values after which no newer one of their key stands.
fn newest(model: &Model) -> Newest {
    let mut numbers = [0; 11];
    let mut before: Option<&[u8]> = None;
    for ((key, _), entry) in model {
        let is_newest = before.replace(key) != Some(key);
        let (at, bytes) = match &entry.value {
            ModelValue::None => continue,
            ModelValue::Inline(bytes) => (0, bytes.len() as u64),
            ModelValue::Pointer(pointer) => (3, u64::from(pointer.len)),
        };
        if is_newest {
            numbers[at] += 1;
            numbers[at + 1] += key.len() as u64;
            numbers[at + 2] += bytes;
            let value_len = bytes.saturating_sub(if at == 0 { 0 } else { key.len() as u64 + 36 });
            if value_len < 256 || key.len() > 32 + 4 {
                numbers[6] += 1;
                numbers[7] += key.len() as u64;
            }
        }
    }
    numbers.into()
}

/// Seeks and steps at random beside the model.
fn walk(rng: &mut SmallRng, model: &Model, mut iter: KeyIter, seed: u64) {
    assert!(iter.entry().is_none());
    let mut at: Option<ModelKey> = None;
    for _ in 0..300 {
        match rng.random_range(0..12) {
            0 => {
                iter.seek_to_first().unwrap();
                at = model.keys().next().cloned();
            }
            1 => {
                iter.seek_to_last().unwrap();
                at = model.keys().next_back().cloned();
            }
            2 | 3 => {
                let (key, seq) = random_target(rng, model);
                iter.seek(&key, SeqNo(seq)).unwrap();
                at = model
                    .range((key, Reverse(seq))..)
                    .next()
                    .map(|(key, _)| key.clone());
            }
            4..9 => {
                iter.next().unwrap();
                let next = |key| model.range((Bound::Excluded(key), Bound::Unbounded)).next();
                at = at.and_then(|key| next(key).map(|(key, _)| key.clone()));
            }
            _ => {
                iter.prev().unwrap();
                at = at.and_then(|key| model.range(..key).next_back().map(|(key, _)| key.clone()));
            }
        }
        let expected = at.as_ref().and_then(|key| model.get_key_value(key));
        assert_eq!(of_iter(iter.entry()), of_model(expected), "seed {seed}");
    }
}

fn all(mut iter: KeyIter) -> Result<Vec<(ModelKey, ModelEntry)>> {
    let mut found = Vec::new();
    iter.seek_to_first()?;
    while let Some(entry) = of_iter(iter.entry()) {
        found.push(entry);
        iter.next()?;
    }
    Ok(found)
}

/// A small table with all there is in the format: straddling versions, both kinds of value,
/// tombstones, expiry.
fn small_model() -> Model {
    let mut model = Model::new();
    let mut put = |key: &[u8], seq, kind, expiry_ms, value| {
        model.insert(
            (key.to_vec(), Reverse(seq)),
            ModelEntry {
                kind,
                expiry_ms,
                value,
            },
        );
    };
    let pointer = |file, offset, len| {
        ModelValue::Pointer(RecordPointer {
            file: FileNumber(file),
            offset,
            len,
        })
    };
    put(
        b"\0\0\0\x01",
        5,
        Kind::Put,
        None,
        ModelValue::Inline(Vec::new()),
    );
    put(
        b"\0\0\0\x01apple",
        300,
        Kind::Put,
        None,
        pointer(3, 96, 1060),
    );
    put(
        b"\0\0\0\x01apricot",
        17,
        Kind::Delete,
        None,
        ModelValue::None,
    );
    for seq in 20..60 {
        put(
            b"\0\0\0\x01banana",
            seq,
            Kind::Put,
            None,
            pointer(300, seq << 20, 77),
        );
    }
    put(
        b"\0\0\0\x01blue",
        18,
        Kind::Put,
        Some(1_700_000_000_000),
        ModelValue::Inline(b"sky".into()),
    );
    put(
        b"\0\0\0\x02z",
        SeqNo::MAX.0,
        Kind::Delete,
        None,
        pointer(3, 1156, 41),
    );
    model
}

fn write_small(store: &FileStore) -> KeyTableMeta {
    write_with_header(store, header(), build(&small_model(), 128))
        .unwrap()
        .0
}

#[test]
fn the_bytes_of_a_table_are_pinned() {
    let vfs = SimVfs::new();
    let meta = write_small(&store_on(&vfs));
    let bytes = vfs.read_file(Path::new("db/000007.key")).unwrap();
    assert_eq!(meta.len, bytes.len() as u64);
    assert_eq!(meta.checksum, crc32c::crc32c(&bytes));
    golden::check("key_table_expiring", &bytes);
}

#[test]
fn a_table_written_by_an_older_release_is_read() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let meta = write_small(&store);
    for name in ["key_table", "key_table_without_newest"] {
        let (bytes, has_newest) = (golden::load(name), name == "key_table");
        let meta = KeyTableMeta {
            len: bytes.len() as u64,
            newest: meta.newest.filter(|_| has_newest),
            expiring: Expiring::default(),
            ..meta.clone()
        };
        vfs.write_file(Path::new("db/000007.key"), &bytes);
        let table = Arc::new(KeyTable::open(&store, meta, &ReadCache::new(1 << 20)));
        let found = all(table.iter(Access::Sequential)).unwrap();
        assert_eq!(found, small_model().into_iter().collect::<Vec<_>>());
        let facts = table.facts().unwrap();
        assert!(table.meta().agrees_with(&facts));
        assert_eq!(facts.properties.newest, table.meta().newest);
    }
}

#[test]
fn a_table_knows_when_the_manifest_says_something_else() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let good = write_small(&store);
    let facts = KeyTable::open(&store, good.clone(), &ReadCache::new(1 << 20))
        .facts()
        .unwrap();
    assert!(good.agrees_with(&facts));
    let wrong: [fn(&mut KeyTableMeta); 9] = [
        |meta| meta.count += 1,
        |meta| meta.min_key.push(0),
        |meta| meta.max_key.truncate(2),
        |meta| meta.max_seq.0 += 1,
        |meta| meta.refs[0].bytes += 1,
        |meta| meta.inline_bytes += 1,
        |meta| meta.newest = meta.newest.map(|_| Newest::default()),
        |meta| meta.expiry = None,
        |meta| meta.has_range_deletes ^= true,
    ];
    for (i, change) in wrong.into_iter().enumerate() {
        let mut meta = good.clone();
        change(&mut meta);
        assert!(!meta.agrees_with(&facts), "change {i}");
    }
}

#[test]
fn no_flipped_bit_yields_wrong_data() {
    let (vfs, model) = (SimVfs::new(), small_model());
    let meta = write_small(&store_on(&vfs));
    let path = Path::new("db/000007.key");
    for bit in 0..meta.len * 8 {
        assert!(vfs.flip_bit(path, bit));
        let store = store_on(&vfs);
        let table = Arc::new(KeyTable::open(
            &store,
            meta.clone(),
            &ReadCache::new(1 << 20),
        ));
        let error = table.verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit}");
        for ((key, seq), entry) in &model {
            if let Ok(found) = table.get(key, SeqNo(seq.0)) {
                let expected = Some(((key.clone(), *seq), entry.clone()));
                assert_eq!(of_get(key, found), expected, "bit {bit}");
            }
        }
        for access in [Access::Random, Access::Sequential] {
            if let Ok(found) = all(table.iter(access)) {
                let expected = model.clone().into_iter().collect::<Vec<_>>();
                assert_eq!(found, expected, "bit {bit}");
            }
        }
        assert!(vfs.flip_bit(path, bit));
    }
}

#[test]
fn a_file_of_another_length_is_refused() {
    let vfs = SimVfs::new();
    let meta = write_small(&store_on(&vfs));
    let path = Path::new("db/000007.key");
    let bytes = vfs.read_file(path).unwrap();
    for len in 0..bytes.len() {
        vfs.write_file(path, &bytes[..len]);
        let table = Arc::new(KeyTable::open(
            &store_on(&vfs),
            meta.clone(),
            &ReadCache::new(0),
        ));
        assert_eq!(table.verify().unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(
            table
                .get(b"\0\0\0\x01apple", SeqNo::MAX)
                .unwrap_err()
                .kind(),
            ErrorKind::Corruption
        );
    }
    vfs.write_file(path, &[&bytes[..], b"x"].concat());
    let table = KeyTable::open(&store_on(&vfs), meta, &ReadCache::new(0));
    assert_eq!(
        table.verify().unwrap_err().offset(),
        Some(bytes.len() as u64)
    );
}

#[test]
fn an_exact_neighbour_under_another_name_is_refused() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let meta = write_small(&store);
    let mut other = header();
    other.number = FileNumber(8);
    other.uid = FileUid(99);
    let other = write_with_header(&store, other, build(&small_model(), 128))
        .unwrap()
        .0;
    vfs.rename(Path::new("db/000008.key"), Path::new("db/000007.key"))
        .unwrap();
    let table = KeyTable::open(&store, meta.clone(), &ReadCache::new(0));
    assert!(table.get(b"\0\0\0\x01apple", SeqNo::MAX).is_err());
    // Even where the manifest is wrong, too, the header says.
    let confused = KeyTableMeta {
        number: NUMBER,
        ..other
    };
    let table = KeyTable::open(&store, confused, &ReadCache::new(0));
    assert!(table.get(b"\0\0\0\x01apple", SeqNo::MAX).is_err());
}

#[test]
fn one_block_read_finds_or_refutes_a_key() {
    let mut model = Model::new();
    for i in 0..5000u32 {
        let pointer = RecordPointer {
            file: FileNumber(1),
            offset: 96,
            len: 40,
        };
        let entry = put_of(ModelValue::Pointer(pointer));
        // Two keys in three have one version, the third has several.
        for seq in 0..if i % 3 == 0 { 7 } else { 1 } {
            model.insert((i.to_be_bytes().to_vec(), Reverse(10 * seq)), entry.clone());
        }
    }
    let store = store_on(&SimVfs::new());
    let meta = write_durably(&store, NUMBER, build(&model, 256));
    let len = meta.len;
    let cache = ReadCache::new(1 << 20);
    let table = Arc::new(KeyTable::open(&store, meta, &cache));
    table.get(b"", SeqNo::MAX).unwrap();
    assert!(len / 256 > 100, "enough blocks, of 256 bytes each");
    for i in 0..5001u32 {
        for seq in [0, 5, 31, 60, 1000] {
            let (lookups, reads) = (cache.hits() + cache.misses(), store.reads());
            let found = table.get(&i.to_be_bytes(), SeqNo(seq)).unwrap();
            assert_eq!(found.is_some(), i < 5000);
            assert!(
                cache.hits() + cache.misses() - lookups <= 1 && store.reads() - reads <= 1,
                "one block at most; the fences stay with the table"
            );
        }
    }
    assert!(cache.used_bytes() <= cache.capacity());
    let (misses, hits) = (cache.misses(), cache.hits());
    assert!(all(table.iter(Access::Sequential)).unwrap().len() == model.len());
    assert_eq!(
        cache.misses(),
        misses,
        "a sequential pass does not use the cache"
    );
    assert_eq!(cache.hits(), hits);
    drop(table);
    assert_eq!(cache.pins().used(), 0, "its fences go with the table");
}

#[test]
fn a_sequential_pass_reads_long_runs() {
    let mut model = Model::new();
    for i in 0..40_000u32 {
        let entry = put_of(ModelValue::Inline(vec![i as u8; 30]));
        model.insert((i.to_be_bytes().to_vec(), Reverse(1)), entry);
    }
    let store = store_on(&SimVfs::new());
    let meta = write_durably(&store, NUMBER, build(&model, 4096));
    let len = meta.len;
    let table = Arc::new(KeyTable::open(&store, meta, &ReadCache::new(1 << 24)));
    let before = store.reads();
    assert_eq!(
        all(table.iter(Access::Sequential)).unwrap().len(),
        model.len()
    );
    // Header, footer and index; then the runs.
    assert!(
        store.reads() - before <= 3 + len.div_ceil(256 << 10),
        "{}",
        store.reads()
    );
    let mut iter = table.iter(Access::Sequential);
    let before = store.reads();
    iter.seek_to_last().unwrap();
    let mut count = 0;
    while iter.entry().is_some() {
        count += 1;
        iter.prev().unwrap();
    }
    assert_eq!(count, model.len());
    assert!(store.reads() - before <= len.div_ceil(256 << 10));
}

#[test]
fn malformed_fences_are_refused() {
    let mut index = Vec::new();
    block::fences::encode(&mut index, 100, None, b"first");
    block::fences::encode(&mut index, 50, Some((b"apple", SeqNo(3))), b"apricot");
    block::fences::encode(&mut index, 60, Some((b"banana", SeqNo(9))), b"banana");
    let good = Fences::decode(&index, 96, 210).unwrap();
    assert_eq!(good.find(b"apple", SeqNo(0)), Some(0));
    assert_eq!(good.find(b"apr", SeqNo::MAX), Some(1));
    assert_eq!(good.find(b"banana", SeqNo(9)), Some(1));
    assert_eq!(good.find(b"banana", SeqNo(8)), Some(2));
    assert_eq!(
        good.place(2).map(|place| (place.offset, place.len)),
        Some((246, 60))
    );
    assert_eq!(good.place(3), None);
    assert!(Fences::decode(&index, 96, 209).is_err());
    assert!(Fences::decode(&index, 96, 211).is_err());
    assert!(Fences::decode(&index[..index.len() - 1], 96, 210).is_err());
    assert!(Fences::decode(&index, u64::MAX, 210).is_err());
    assert_eq!(
        Fences::decode(&[], 96, 0).unwrap().find(b"", SeqNo(0)),
        None
    );
}

#[test]
fn random_bytes_with_a_valid_checksum_cause_no_panic() {
    let mut rng = SmallRng::seed_from_u64(3);
    let decoders = crate::codec::Decoders::default();
    for _ in 0..20_000 {
        let len = rng.random_range(0..80);
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.random_range(0..40)).collect();
        let restarts = rng.random_range(0..4u32);
        for _ in 0..restarts {
            bytes.extend_from_slice(&rng.random_range(0..90u32).to_le_bytes());
        }
        // Or the tag of a compressed block.
        let tag = 0x8000_0000 | rng.random_range(0..6u32) << 24 | rng.random_range(0..99u32);
        let last = if rng.random() { restarts } else { tag };
        bytes.extend_from_slice(&last.to_le_bytes());
        let crc = crate::base::checksum::bound(FileUid(1), 0, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        if let Ok(block) = block::Block::verify(bytes.into(), FileUid(1), 0, &decoders) {
            let _ = block.seek(&[rng.random_range(0..40); 3], SeqNo(5));
            let mut at = 0;
            while let Ok(entry) = block.entry_at(at) {
                assert!(entry.next > at, "decoding goes on");
                at = entry.next;
            }
        }
    }
}

#[test]
fn a_failed_write_is_never_finished() {
    use crate::vfs::sim::Fault;
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let header = OutputFile::header(&store, FileKind::KeyTable, NUMBER);
    let mut output = OutputFile::create(&store, "000007.key", header, 0).unwrap();
    let mut failures = 1;
    vfs.set_fault(Box::new(move |_| {
        failures -= 1;
        if failures == 0 {
            Fault::Fail(std::io::ErrorKind::StorageFull)
        } else {
            Fault::None
        }
    }));
    let big = vec![1; 100_000];
    assert_eq!(output.append(&big).unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(output.append(&big).is_err());
    assert!(output.finish().is_err());
}

#[test]
fn prefixes_are_measured_across_word_borders() {
    let (a, mut b) = (vec![7; 40], vec![7; 40]);
    for i in 0..40 {
        b[i] = 8;
        assert_eq!(common_prefix(&a, &b), i);
        assert_eq!(common_prefix(&a[..i], &a), i);
        b[i] = 7;
    }
}

#[test]
fn numbers_of_every_length_survive_in_an_entry() {
    let key = vec![5; 70_000];
    for bits in 0..=64u32 {
        let ones = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        for number in [ones, ones.wrapping_add(1), ones / 3] {
            let file = FileNumber(number);
            let (offset, len) = (number.rotate_left(7), number as u32);
            let pointer = RecordPointer { file, offset, len };
            let seq = SeqNo(number & SeqNo::MAX.0);
            let (shared, expiry_ms) = (number as usize % 60_000, Some(number));
            let kind = Kind::Put;
            for value in [
                EntryValue::None,
                EntryValue::Pointer(pointer),
                EntryValue::Inline(&key),
            ] {
                let wanted = KeyEntry {
                    key: &key,
                    seq,
                    kind,
                    expiry_ms,
                    value,
                };
                let mut block = Vec::new();
                block::entry::encode(&mut block, shared, &wanted);
                let end = block.len();
                block.extend_from_slice(&[0xff; 12]);
                let entries = block::entry::Entries { block: &block, end };
                let found = entries.entry(0).unwrap();
                assert_eq!(found.value.of(&block), value);
                assert_eq!((found.seq, found.expiry_ms), (seq, expiry_ms));
                assert_eq!(found.shared + found.suffix.of(&block).len(), key.len());
                assert_eq!(found.next, end);
                assert_eq!(entries.next(&entries.head(0).unwrap()), Ok(end));
                // Cut anywhere in the value, it runs over the end.
                let cut = block::entry::Entries {
                    block: &block,
                    end: end - 1,
                };
                assert!(cut.entry(0).is_err());
            }
        }
    }
}
