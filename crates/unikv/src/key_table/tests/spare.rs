//! Sections with spare entries, good and bad ones, and sections of ingested files.

use super::*;
use crate::error::Error;
use crate::key_table::builder::rebuilt::{SpareEntries, TakeEntry};

const PATH: &str = "db/000007.key";

/// Keys k00 to k39, each once and with the sequence number `seq`.
fn forty(seq: u64) -> Model {
    let entry = |i: u8| ModelEntry {
        kind: Kind::Put,
        expiry_ms: None,
        value: ModelValue::Inline(vec![i; 10]),
    };
    let key = |i| (format!("k{i:02}").into_bytes(), Reverse(seq));
    (0..40).map(|i| (key(i), entry(i))).collect()
}

/// The section of `model` in small blocks, nothing of which the cache keeps.
fn section(
    vfs: &SimVfs,
    model: &Model,
    ingest_seq: Option<SeqNo>,
    spare: Option<SpareEntries>,
) -> Arc<KeySection> {
    let store = store_on(vfs);
    let meta = write_with_header(&store, header(), build(model, 128))
        .unwrap()
        .0;
    let file = store.data_file(PathBuf::from(PATH), NUMBER, meta.uid, Access::Random);
    let (file, cache) = (Arc::new(file), ReadCache::new(0));
    let kind = FileKind::KeyTable;
    let section = KeySection::new(&store, file, kind, meta.len, ingest_seq, &cache, spare);
    Arc::new(section)
}

fn spare(entries: Vec<(ModelKey, ModelEntry)>, fails: bool) -> SpareEntries {
    SpareEntries::new(move |take: &mut TakeEntry<'_>| {
        for ((key, seq), entry) in &entries {
            take(&KeyEntry {
                key,
                seq: SeqNo(seq.0),
                kind: entry.kind,
                expiry_ms: entry.expiry_ms,
                value: entry.value.as_ref(),
            })?;
        }
        if fails {
            Err(Error::corruption(Path::new("records"), 1, "damaged, too"))
        } else {
            Ok(())
        }
    })
}

/// What stands once more elsewhere answers in the place of a damaged block only where it is the
/// same.
#[test]
fn only_spare_entries_that_fit_the_section_stand_in_for_a_damaged_block() {
    let model = forty(3);
    let whole: Vec<_> = model.clone().into_iter().collect();
    let mut disordered = whole.clone();
    disordered.swap(10, 30);
    let mut twice = whole.clone();
    twice.insert(5, whole[5].clone());
    let mut fewer = whole.clone();
    fewer.drain(8..20);
    let cases = [
        ("all", Some((whole.clone(), false))),
        ("none", None),
        ("disordered", Some((disordered, false))),
        ("one twice", Some((twice, false))),
        ("some lost", Some((fewer, false))),
        ("damaged, too", Some((whole, true))),
    ];
    let key = b"k15";
    for (what, entries) in cases {
        let vfs = SimVfs::new();
        let entries = entries.map(|(entries, fails)| spare(entries, fails));
        let section = section(&vfs, &model, None, entries);
        let sound = section.get(key, SeqNo::MAX).unwrap();
        let fences = section.fences().unwrap();
        let place = fences.find(key, SeqNo::MAX).and_then(|i| fences.place(i));
        let place = place.unwrap();
        assert!(vfs.flip_bit(Path::new(PATH), 8 * (place.offset + 3)));
        for _ in 0..2 {
            let found = section.get(key, SeqNo::MAX);
            if what == "all" {
                assert_eq!(found.unwrap(), sound);
                let memory = size_of::<KeySection>();
                assert!(section.memory_bytes() > memory, "what stands in is counted");
                continue;
            }
            let error = found.expect_err(what);
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
            assert_eq!(error.file(), Some(Path::new(PATH)), "{what}: {error}");
            assert_eq!(error.offset(), Some(place.offset), "{what}: {error}");
        }
    }
}

/// Without the index nobody knows the cuts: blocks of a section that is cut again are none of the
/// fences that an iterator has had since before.
#[test]
fn an_iterator_does_not_take_a_block_that_is_cut_again_for_its_own() {
    let (vfs, model) = (SimVfs::new(), forty(3));
    let entries: Vec<_> = model.clone().into_iter().collect();
    let section = section(&vfs, &model, None, Some(spare(entries.clone(), false)));
    let mut iter = section.iter(Access::Random);
    iter.seek_to_first().unwrap();
    let second = section.fences().unwrap().place(1).unwrap();
    let len = vfs.len(Path::new(PATH)).unwrap();
    // The second block, and the footer, without which there is no index.
    for byte in [second.offset, len - 1] {
        assert!(vfs.flip_bit(Path::new(PATH), 8 * byte));
    }
    assert_eq!(all(section.iter(Access::Random)).unwrap(), entries);
    let mut read = 0;
    let error = loop {
        assert_eq!(of_iter(iter.entry()).as_ref(), entries.get(read));
        read += 1;
        match iter.next() {
            Ok(()) => assert!(read < entries.len(), "the damage was passed over"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.offset(), Some(second.offset));
}

#[test]
fn a_section_shows_what_it_has_and_not_what_that_holds() {
    let model = forty(3);
    let spare = spare(model.clone().into_iter().collect(), false);
    let shown = format!("{:?}", section(&SimVfs::new(), &model, None, Some(spare)));
    for part in ["SpareEntries", "ReadCache", "used_bytes: 0", "capacity"] {
        assert!(shown.contains(part), "{part} of {shown}");
    }
    assert!(shown.len() < 2000, "{shown}");
}

/// The entries of an ingested file say 0, and all have the number of the ingest.
#[test]
fn an_ingested_section_is_sought_by_the_number_of_the_ingest() {
    let all = SeqNo(50);
    let section = section(&SimVfs::new(), &forty(0), Some(all), None);
    for access in [Access::Random, Access::Sequential] {
        let mut iter = section.iter(access);
        let mut sought = |key: &str, seq| {
            iter.seek(key.as_bytes(), seq).unwrap();
            let found = iter.entry();
            found.map(|e| (String::from_utf8(e.key.to_vec()).unwrap(), e.seq))
        };
        let at = |key: &str| Some((key.to_owned(), all));
        for seq in [SeqNo(50), SeqNo(51), SeqNo::MAX] {
            assert_eq!(sought("k15", seq), at("k15"), "{seq:?}");
        }
        // Behind the only version of the key.
        for seq in [SeqNo(49), SeqNo(0)] {
            assert_eq!(sought("k15", seq), at("k16"), "{seq:?}");
            assert_eq!(sought("k15x", seq), at("k16"), "{seq:?}");
            assert_eq!(sought("k39", seq), None, "{seq:?}");
        }
    }
    assert_eq!(section.get(b"k15", SeqNo(49)).unwrap(), None);
    assert_eq!(section.get(b"k15", all).unwrap().unwrap().seq, all);
}
