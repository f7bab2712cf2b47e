//! Files whose checksums are right and whose bytes do not follow the grammar, or say more than this
//! release knows, or nothing.

use super::super::footer::{FOOTER_LEN, Footer};
use super::*;
use crate::base::checksum::bound;
use crate::base::coding::{put_prefixed, put_varint};
use crate::error::Error;
use crate::key_table::block::walk::{BlockWalk, parts};
use crate::key_table::block::{entry, fences};
use crate::vfs::file_store::DataFile;
use bytes::Bytes;

const PATH: &str = "db/000007.key";
const FIRST_BLOCK: u64 = 96;
const INLINE_TAG: u8 = 0b1000;
/// An inline value and a pointer at once: no entry has both.
const TWO_VALUES_TAG: u8 = 0b10_1001;

/// A key table, whatever its bytes say.
struct HandMade {
    table: Arc<KeyTable>,
    file: DataFile,
}

impl HandMade {
    /// `blocks` without their checksums; `fields` stand after the properties.
    fn new(blocks: &[Vec<u8>], fields: &[u8]) -> HandMade {
        let store = store_on(&SimVfs::new());
        let mut out = OutputFile::create(&store, "000007.key", header(), 0).unwrap();
        let (mut index, mut blocks_len) = (Vec::new(), 0);
        for (i, block) in blocks.iter().enumerate() {
            with_checksum(&mut out, block.clone());
            let last = [b'a' + i as u8];
            let last = (i > 0).then_some((&last[..], SeqNo(1)));
            fences::encode(&mut index, block.len() + 4, last, &[b'b' + i as u8]);
            blocks_len += block.len() as u64 + 4;
        }
        let index_len = with_checksum(&mut out, index);
        let properties = Properties::default().encode(out.uid(), out.len());
        let (known, _) = properties.split_last_chunk::<4>().unwrap();
        let properties_len = with_checksum(&mut out, [known, fields].concat());
        let footer = Footer {
            records_end: FIRST_BLOCK,
            blocks_len,
            index_len,
            properties_len,
        };
        out.append(&footer.encode(out.uid())).unwrap();
        let (len, checksum) = out.finish().unwrap();
        let meta = KeyTableMeta {
            len,
            checksum,
            ..write_with_header(
                &store_on(&SimVfs::new()),
                header(),
                build(&Model::new(), 64),
            )
            .unwrap()
            .0
        };
        let file = store.data_file(PathBuf::from(PATH), NUMBER, meta.uid, Access::Random);
        HandMade {
            table: Arc::new(KeyTable::open(&store, meta, &ReadCache::new(1 << 20))),
            file,
        }
    }

    fn walk(&self) -> BlockWalk<'_> {
        BlockWalk::open(&self.file, self.table.meta().len).unwrap()
    }
}

/// Appends `bytes` and their checksum, and says how many that are.
fn with_checksum(out: &mut OutputFile, mut bytes: Vec<u8>) -> u64 {
    let crc = bound(out.uid(), out.len(), &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    out.append(&bytes).unwrap();
    bytes.len() as u64
}

fn put(out: &mut Vec<u8>, shared: usize, key: &[u8], value: &[u8]) {
    let entry = KeyEntry {
        key,
        seq: SeqNo(1),
        kind: Kind::Put,
        expiry_ms: None,
        value: EntryValue::Inline(value),
    };
    entry::encode(out, shared, &entry);
}

/// Entries and where their restarts are.
fn block(mut entries: Vec<u8>, restarts: &[usize]) -> Vec<u8> {
    for restart in restarts {
        entries.extend_from_slice(&(*restart as u32).to_le_bytes());
    }
    entries.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    entries
}

/// The keys b1, b2 and b3; `change` learns where the second and the third begin.
fn three_keys(change: impl Fn(&mut Vec<u8>, usize, usize)) -> Vec<u8> {
    let mut entries = Vec::new();
    put(&mut entries, 0, b"b1", b"one");
    let second = entries.len();
    put(&mut entries, 1, b"b2", b"two");
    let third = entries.len();
    put(&mut entries, 1, b"b3", b"three");
    change(&mut entries, second, third);
    block(entries, &[0])
}

fn assert_malformed<T>(found: Result<T>, what: &str) {
    let error: Error = found.err().expect(what);
    assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
    assert_eq!(error.file(), Some(Path::new(PATH)), "{what}");
    assert_eq!(error.offset(), Some(FIRST_BLOCK), "{what}: {error}");
    assert!(error.to_string().contains("malformed"), "{what}: {error}");
}

fn keys_of(iter: &mut KeyIter) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(entry) = iter.entry() {
        found.push(entry.key.to_vec());
        iter.next().unwrap();
    }
    found
}

#[test]
fn a_hand_made_table_that_keeps_the_grammar_is_read() {
    let second = {
        let mut entries = Vec::new();
        put(&mut entries, 0, b"c", b"four");
        block(entries, &[0])
    };
    let made = HandMade::new(&[three_keys(|_, _, _| {}), second], b"");
    made.table.verify().unwrap();
    let mut iter = made.table.iter(Access::Random);
    iter.seek_to_first().unwrap();
    assert_eq!(keys_of(&mut iter), [&b"b1"[..], b"b2", b"b3", b"c"]);
    let found = made.table.get(b"b3", SeqNo::MAX).unwrap().unwrap();
    assert_eq!(
        found.value,
        OwnedValue::Inline(Bytes::from_static(b"three"))
    );
    let entries = made.walk().block(0).unwrap().unwrap().entries.unwrap();
    assert_eq!(entries.len(), 3);
}

/// Up to the entry that does not follow the grammar everything is read, with it comes the error,
/// and afterwards the iterator stands nowhere until it seeks.
#[test]
fn a_malformed_entry_ends_an_iteration_with_an_error() {
    type Change = fn(&mut Vec<u8>, usize, usize);
    let changes: [(&str, Change); 4] = [
        ("shares more than there is", |b, second, _| b[second] = 9),
        ("two values", |b, second, _| b[second + 2] = TWO_VALUES_TAG),
        ("an unknown kind", |b, second, _| {
            b[second + 2] = INLINE_TAG | 7
        }),
        ("a key beyond the entries", |b, second, _| {
            b[second + 1] = 99
        }),
    ];
    for (what, change) in changes {
        let made = HandMade::new(&[three_keys(change)], b"");
        for access in [Access::Random, Access::Sequential] {
            let mut iter = made.table.iter(access);
            for _ in 0..2 {
                iter.seek_to_first().unwrap();
                assert_eq!(iter.entry().unwrap().key, b"b1", "{what}");
                assert_malformed(iter.next(), what);
                assert!(!iter.is_on_entry(), "{what}");
                iter.next().unwrap();
                assert!(!iter.is_on_entry(), "{what}: it stays there");
            }
            assert_malformed(iter.seek_to_last(), what);
            assert!(!iter.is_on_entry(), "{what}");
        }
        let walked = made.walk().block(0).unwrap().unwrap();
        let fault = walked.entries.err().expect(what);
        assert_eq!(fault, "the block's entries are malformed");
    }
}

#[test]
fn a_malformed_entry_is_no_answer_to_a_lookup() {
    let two_values = |b: &mut Vec<u8>, second, _| b[second + 2] = TWO_VALUES_TAG;
    let made = HandMade::new(&[three_keys(two_values)], b"");
    let (key, what) = (&b"b2"[..], "two values");
    assert_malformed(made.table.get(key, SeqNo::MAX), what);
    assert_malformed(made.table.part_before(key), what);
    let mut iter = made.table.iter(Access::Random);
    assert_malformed(iter.seek(key, SeqNo::MAX), what);
    assert!(made.table.get(b"b1", SeqNo::MAX).unwrap().is_some());

    let first = |b: &mut Vec<u8>, _, _| b[2] = TWO_VALUES_TAG;
    let made = HandMade::new(&[three_keys(first)], b"");
    assert_malformed(made.table.get(b"b1", SeqNo::MAX), what);
    assert_malformed(made.table.iter(Access::Sequential).seek_to_first(), what);
}

/// A step back begins at the restart before it. Here that lies within a value, and what it is taken
/// for passes over the entry that is looked for.
#[test]
fn a_restart_within_an_entry_is_no_way_back() {
    let mut behind = Vec::new();
    put(&mut behind, 0, b"b2", b"two");
    // An entry whose value is all that follows.
    let within = [0, 2, INLINE_TAG | 1, 1, b'b', b'1', behind.len() as u8];
    let mut entries = Vec::new();
    put(&mut entries, 0, b"b1", &within);
    let restart = entries.len() - within.len();
    entries.extend_from_slice(&behind);
    let made = HandMade::new(&[block(entries, &[0, restart])], b"");
    let mut iter = made.table.iter(Access::Random);
    iter.seek_to_first().unwrap();
    iter.next().unwrap();
    assert_eq!(iter.entry().unwrap().key, b"b2");
    assert_malformed(iter.prev(), "a restart within an entry");
    iter.prev().unwrap();
    assert!(!iter.is_on_entry());
}

#[test]
fn properties_of_a_newer_release_are_passed_over_and_malformed_ones_refused() {
    let mut newer = Vec::new();
    put_varint(&mut newer, 77);
    put_prefixed(&mut newer, b"what a later release says");
    let known = HandMade::new(&[], b"").table.facts().unwrap();
    let made = HandMade::new(&[], &newer);
    assert_eq!(made.table.facts().unwrap(), known);
    for len in [1, 2, newer.len() - 1] {
        let made = HandMade::new(&[], &newer[..len]);
        let error = made.table.facts().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{len}");
        assert!(error.to_string().contains("malformed"), "{len}: {error}");
    }
}

#[test]
fn a_malformed_footer_is_refused() {
    let (uid, offset) = (FileUid(5), 400);
    let good = Footer {
        records_end: 96,
        blocks_len: 104,
        index_len: 150,
        properties_len: 50,
    };
    let decode = |mut bytes: [u8; FOOTER_LEN]| {
        let crc = bound(uid, offset, &bytes[..FOOTER_LEN - 4]);
        bytes[FOOTER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        Footer::decode(&bytes, uid, offset, Path::new(PATH))
    };
    assert_eq!(decode(good.encode(uid)).unwrap(), good);
    let mut other_magic = good.encode(uid);
    other_magic[0] ^= 1;
    let mut reserved = good.encode(uid);
    reserved[40] = 1;
    let short = Footer {
        properties_len: 49,
        ..good
    };
    let within_header = Footer {
        records_end: 95,
        blocks_len: 105,
        ..good
    };
    let endless = Footer {
        blocks_len: u64::MAX,
        ..good
    };
    let lengths = [short, within_header, endless].map(|footer| footer.encode(uid));
    for bytes in [other_magic, reserved].into_iter().chain(lengths) {
        let error = decode(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.offset(), Some(offset));
        assert!(error.to_string().contains("malformed"), "{error}");
    }
}

#[test]
fn in_a_table_without_entries_nothing_is_found() {
    let made = HandMade::new(&[], b"");
    let table = &made.table;
    assert_eq!(table.get(b"b", SeqNo::MAX).unwrap(), None);
    assert_eq!(table.part_before(b"b").unwrap(), 0.0);
    assert_eq!(table.key_at_fraction(0.5).unwrap(), b"");
    for access in [Access::Random, Access::Sequential] {
        let mut iter = table.iter(access);
        iter.seek(b"b", SeqNo::MAX).unwrap();
        assert!(!iter.is_on_entry());
        iter.seek_to_first().unwrap();
        assert!(!iter.is_on_entry());
        iter.seek_to_last().unwrap();
        assert!(!iter.is_on_entry());
    }
    let walk = made.walk();
    assert_eq!((walk.len(), walk.fence(0)), (0, &b""[..]));
    assert!(walk.block(0).unwrap().is_none());
    assert_eq!(parts(&made.file, table.meta().len).unwrap().blocks_len, 0);
}

#[test]
fn what_the_cache_keeps_at_a_place_comes_back_as_nothing_else() {
    let cache = ReadCache::new(1 << 20);
    let bytes = || Bytes::from_static(b"a verified frame");
    let at_fences = u64::MAX;
    for offset in [96, at_fences] {
        cache.offer_record(NUMBER, offset, bytes());
        let found = cache.record(NUMBER, offset, |frame| frame.part(0..bytes().len()));
        assert_eq!(found, Some(bytes()));
        assert!(cache.block(NUMBER, offset).is_none());
    }
    assert!(cache.fences(NUMBER).is_none());
    let fences = Arc::new(Fences::decode(&[], 96, 0).unwrap());
    cache.insert_fences(NUMBER, Arc::clone(&fences));
    assert!(Arc::ptr_eq(&cache.fences(NUMBER).unwrap(), &fences));
    assert!(cache.record(NUMBER, at_fences, |_| Some(())).is_none());
    assert!(cache.block(NUMBER, at_fences).is_none());
}
