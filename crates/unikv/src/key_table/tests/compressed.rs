//! Compressed blocks.

use super::*;
use crate::base::file_header::BLOCK_CODECS;
use crate::codec::FileCompression;
use crate::codec::tests::built_in;
use crate::key_table::block::walk::BlockWalk;

/// Keys and values that have much in common.
fn model() -> Model {
    let entry = |i: u32| {
        let key = format!("user/{:06}/profile", i * 7).into_bytes();
        let value = format!("{{\"name\":\"name {i}\",\"mail\":\"user{i}@example.com\"}}");
        let entry = ModelEntry {
            kind: Kind::Put,
            expiry_ms: None,
            value: ModelValue::Inline(value.into_bytes()),
        };
        ((key, Reverse(u64::from(i) + 1)), entry)
    };
    (0..200).map(entry).collect()
}

fn header_of(vfs: &SimVfs) -> FileHeader {
    let bytes = vfs.read_file(Path::new("db/000007.key")).unwrap();
    let path = Path::new("000007.key");
    FileHeader::decode(&bytes, FileKind::KeyTable, None, path).unwrap()
}

#[test]
fn files_with_compressed_blocks_say_so_and_others_are_as_they_were() {
    let model = model();
    let plain = SimVfs::new();
    let plain_meta = write_durably(&store_on(&plain), NUMBER, build(&model, 1024));
    assert!(plain_meta.compression.codecs.is_empty() && header_of(&plain).required == 0);
    for compression in built_in() {
        let vfs = SimVfs::new();
        let store = store_on(&vfs);
        let section = build_as(&model, 1024, compression);
        let meta = write_durably(&store, NUMBER, section);
        assert!(meta.compression.codecs.holds(compression.codec()));
        assert_eq!(header_of(&vfs).required, BLOCK_CODECS);
        assert!(
            meta.len < plain_meta.len * 3 / 4,
            "{} {}",
            meta.len,
            plain_meta.len
        );
        // All the rest that is known of it is the same.
        let same = KeyTableMeta {
            uid: plain_meta.uid,
            len: plain_meta.len,
            checksum: plain_meta.checksum,
            compression: FileCompression::default(),
            ..meta.clone()
        };
        assert_eq!(same, plain_meta);
        let cache = ReadCache::new(1 << 20);
        let table = Arc::new(KeyTable::open(&store, meta.clone(), &cache));
        assert!(meta.agrees_with(&table.facts().unwrap()));
        assert!(!plain_meta.agrees_with(&table.facts().unwrap()));
        // A cached block takes what it takes uncompressed.
        let found = all(table.iter(Access::Random)).unwrap();
        assert_eq!(found.len(), model.len());
        assert!(cache.used_bytes() > plain_meta.len - 1000);
        // What does not shrink stays as it is, and so does the file.
        let vfs = SimVfs::new();
        let mut tiny = KeySectionBuilder::new(64);
        tiny.compress(compression);
        tiny.add(&KeyEntry {
            key: b"key",
            seq: SeqNo(1),
            kind: Kind::Delete,
            expiry_ms: None,
            value: EntryValue::None,
        });
        let meta = write_durably(&store_on(&vfs), NUMBER, tiny);
        assert!(meta.compression.codecs.is_empty() && header_of(&vfs).required == 0);
    }
}

#[test]
fn every_damaged_byte_of_a_compressed_table_is_an_error_and_never_another_entry() {
    let model = model();
    let expected: Vec<_> = model.clone().into_iter().collect();
    for compression in built_in().into_iter().take(3) {
        let vfs = SimVfs::new();
        let store = store_on(&vfs);
        let section = build_as(&model, 1024, compression);
        let meta = write_durably(&store, NUMBER, section);
        let path = Path::new("db/000007.key");
        let good = vfs.read_file(path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            vfs.write_file(path, &bad);
            let cache = ReadCache::new(1 << 20);
            let table = Arc::new(KeyTable::open(&store_on(&vfs), meta.clone(), &cache));
            assert!(table.verify().is_err());
            for access in [Access::Random, Access::Sequential] {
                match all(table.iter(access)) {
                    Ok(found) => assert_eq!(found, expected, "byte {at}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}"),
                }
            }
        }
    }
}

#[test]
fn blocks_of_older_builds_of_the_codecs_are_read() {
    let expected: Vec<_> = model().into_iter().collect();
    for (name, compression) in [
        ("key_table_lz4", Compression::Lz4),
        ("key_table_zstd", Compression::zstd(3)),
    ] {
        let codec = compression.codec();
        if !codec.is_built_in() {
            continue;
        }
        let vfs = SimVfs::new();
        let store = store_on(&vfs);
        let path = Path::new("db/000007.key");
        let bytes = golden::kept(name, || {
            let section = build_as(&model(), 1024, compression);
            write_with_header(&store, header(), section).unwrap();
            vfs.read_file(path).unwrap()
        });
        vfs.write_file(path, &bytes);
        let section = build(&model(), 1024);
        let mut meta = write_with_header(&store_on(&SimVfs::new()), header(), section)
            .unwrap()
            .0;
        let plain_len = meta.len;
        meta.len = bytes.len() as u64;
        let file = store.data_file(path.into(), NUMBER, header().uid, Access::Random);
        meta.compression = crate::key_table::block::walk::facts(&file, meta.len)
            .unwrap()
            .properties
            .compression;
        assert!(meta.compression.codecs.holds(codec));
        assert!(
            meta.len + meta.compression.saved_bytes > plain_len,
            "{name}"
        );
        let walk = BlockWalk::open(&file, meta.len).unwrap();
        let blocks = (0..walk.len()).map(|i| walk.block(i).unwrap().unwrap().entries.unwrap());
        assert_eq!(
            blocks.map(|entries| entries.len()).sum::<usize>(),
            expected.len()
        );
        let table = Arc::new(KeyTable::open(
            &store,
            meta.clone(),
            &ReadCache::new(1 << 20),
        ));
        assert!(meta.agrees_with(&table.facts().unwrap()), "{name}");
        assert_eq!(
            all(table.iter(Access::Sequential)).unwrap(),
            expected,
            "{name}"
        );
    }
}
