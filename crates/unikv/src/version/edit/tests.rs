use super::super::tagged::CRITICAL;
use super::history::LoggedChange;
use super::*;
use crate::base::keys::FileUid;
use crate::codec::{Codec, Codecs, DictionaryPlace, FileCompression};
use crate::error::ErrorKind;
use crate::key_table::Expiring;
use crate::key_table::refs::RecordFileRefs;
use crate::log::DurablePoint;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// An edit in which every field is set, and each list has an entry with every field.
pub(crate) fn full_edit() -> VersionEdit {
    VersionEdit {
        next_file: Some(100),
        last_seq: Some(SeqNo(5000)),
        wal_low_water: Some(FileNumber(98)),
        wal_durable: Some(DurableSegment {
            point: DurablePoint {
                file: FileNumber(99),
                offset: 4096,
            },
            uid: FileUid(0xa3),
        }),
        clock_ms: Some(1_700_000_000_000),
        hash_seed: Some(0x1122_3344_5566_7788),
        next_partition: Some(4),
        options: Some(b"options".to_vec()),
        commit_tag: Some(b"host".to_vec()),
        edits_before: Some(17),
        lifetime: Some(b"lifetime".to_vec()),
        history: None,
        later: None,
        last_keyspace: Some(9),
        dropped_keyspaces: vec![KeyspaceId(3)],
        keyspaces: vec![KeyspaceMeta {
            id: KeyspaceId(1),
            data: KeyspaceId(6),
            since: SeqNo(0),
            name: "names".to_owned(),
            options: vec![1, 2],
            default_ttl_ms: None,
        }],
        partitions: vec![PartitionMeta {
            id: PartitionId(2),
            start: b"a".to_vec(),
            end: Some(b"m".to_vec()),
        }],
        dropped_partitions: vec![PartitionId(1)],
        record_files: vec![RecordFileMeta {
            number: FileNumber(90),
            uid: FileUid(0xa1),
            len: 5000,
            records_end: 4000,
            count: 30,
            min_key: b"a".to_vec(),
            max_key: b"lz".to_vec(),
            min_seq: SeqNo(4000),
            max_seq: SeqNo(4999),
            checksum: 0x0102_0304,
            expiry: Some((7, 9)),
            has_range_deletes: true,
            ranges: None,
            key_section: true,
            refs: vec![RecordFileRefs {
                file: FileNumber(89),
                count: 2,
                bytes: 70_000,
            }],
            ingest_seq: Some(SeqNo(4500)),
            compression: FileCompression::default(),
        }],
        dropped_record_files: vec![FileNumber(80)],
        tables: vec![TablePlace {
            partition: PartitionId(2),
            generation: GenerationId(3),
            slot: Slot(4),
            file: FileNumber(90),
            share: Some(TableShare {
                records: 12,
                bytes: 1600,
            }),
            hidden_bytes: 700,
        }],
        dropped_generations: vec![(PartitionId(2), GenerationId(1))],
        key_tables: vec![(
            PartitionId(2),
            KeyTableMeta {
                number: FileNumber(91),
                uid: FileUid(0xb2),
                len: 6000,
                count: 40,
                min_key: b"b".to_vec(),
                max_key: b"k".to_vec(),
                min_seq: SeqNo(1),
                max_seq: SeqNo(3999),
                checksum: 0x0506_0708,
                refs: vec![RecordFileRefs {
                    file: FileNumber(70),
                    count: 2,
                    bytes: 2048,
                }],
                inline_bytes: 11,
                older_bytes: 13,
                newest: Some([3, 31, 10, 2, 9, 2048, 3, 31, 1, 2000, 2000].into()),
                expiry: Some((1, 2)),
                expiring: Expiring::default(),
                has_range_deletes: true,
                clip: Some((b"c".to_vec(), b"j".to_vec())),
                compression: FileCompression::default(),
            },
        )],
        dropped_key_tables: vec![(PartitionId(2), FileNumber(60))],
        scan_runs: vec![ScanRunMeta {
            partition: PartitionId(2),
            generation: GenerationId(3),
            end: Slot(4),
            tables: vec![KeyTableMeta {
                number: FileNumber(92),
                uid: FileUid(0xc3),
                len: 700,
                count: 9,
                min_key: b"b".to_vec(),
                max_key: b"k".to_vec(),
                min_seq: SeqNo(4000),
                max_seq: SeqNo(4700),
                checksum: 0x090a_0b0c,
                refs: vec![RecordFileRefs {
                    file: FileNumber(90),
                    count: 9,
                    bytes: 1100,
                }],
                inline_bytes: 0,
                older_bytes: 0,
                newest: None,
                expiry: None,
                expiring: Expiring::default(),
                has_range_deletes: false,
                clip: None,
                compression: FileCompression::default(),
            }],
        }],
        dropped_scan_runs: vec![(PartitionId(2), GenerationId(2))],
    }
}

fn decode(bytes: &[u8]) -> Result<VersionEdit> {
    VersionEdit::decode(bytes, Path::new("MANIFEST-000001"), 96)
}

fn some<T>(rng: &mut SmallRng, value: impl FnOnce(&mut SmallRng) -> T) -> Option<T> {
    rng.random::<bool>().then(|| value(rng))
}

fn bytes(rng: &mut SmallRng) -> Vec<u8> {
    let mut out = vec![0; rng.random_range(0..40)];
    rng.fill(&mut out[..]);
    out
}

fn list<T>(rng: &mut SmallRng, mut value: impl FnMut(&mut SmallRng) -> T) -> Vec<T> {
    (0..rng.random_range(0..4)).map(|_| value(rng)).collect()
}

/// Often the greatest.
fn amount(rng: &mut SmallRng) -> u64 {
    rng.random::<u64>() >> rng.random_range(16..64)
}

fn number(rng: &mut SmallRng) -> u64 {
    rng.random::<u64>() >> rng.random_range(2..64)
}

fn random_record_file(rng: &mut SmallRng) -> RecordFileMeta {
    let len = amount(rng);
    RecordFileMeta {
        number: FileNumber(number(rng)),
        uid: FileUid(rng.random()),
        len,
        records_end: rng.random_range(0..=len),
        count: amount(rng),
        min_key: bytes(rng),
        max_key: bytes(rng),
        min_seq: SeqNo(rng.random::<u64>() >> 8),
        max_seq: SeqNo(rng.random::<u64>() >> 8),
        checksum: rng.random(),
        expiry: some(rng, |rng| (rng.random(), rng.random())),
        has_range_deletes: rng.random(),
        ranges: None,
        key_section: rng.random(),
        refs: list(rng, random_refs),
        ingest_seq: rng
            .random::<bool>()
            .then(|| SeqNo(rng.random::<u64>() >> 8)),
        compression: random_compression(rng, len),
    }
}

/// Of what this build has.
fn random_codecs(rng: &mut SmallRng) -> Codecs {
    let mut codecs = Codecs::default();
    for codec in Codec::ALL.into_iter().filter(|it| it.is_built_in()) {
        if rng.random() {
            codecs.add(codec);
        }
    }
    codecs
}

fn random_compression(rng: &mut SmallRng, file_len: u64) -> FileCompression {
    let codecs = random_codecs(rng);
    let len = rng.random_range(0..=file_len.min(1 << 20));
    FileCompression {
        codecs,
        level: if codecs.is_empty() { 0 } else { rng.random() },
        saved_bytes: if codecs.is_empty() { 0 } else { amount(rng) },
        dictionary: some(rng, |rng| DictionaryPlace {
            offset: rng.random_range(0..=file_len - len),
            len: len as u32,
            hash: rng.random(),
        }),
    }
}

fn random_refs(rng: &mut SmallRng) -> RecordFileRefs {
    RecordFileRefs {
        file: FileNumber(number(rng)),
        count: amount(rng),
        bytes: amount(rng),
    }
}

fn random_expiring(rng: &mut SmallRng) -> Expiring {
    let mut expiring = Expiring::default();
    for _ in 0..rng.random_range(0..50) {
        expiring.add(rng.random(), rng.random_range(0..1000));
    }
    expiring.settle();
    expiring
}

fn random_key_table(rng: &mut SmallRng) -> KeyTableMeta {
    KeyTableMeta {
        number: FileNumber(number(rng)),
        uid: FileUid(rng.random()),
        len: amount(rng),
        count: amount(rng),
        min_key: bytes(rng),
        max_key: bytes(rng),
        min_seq: SeqNo(rng.random::<u64>() >> 8),
        max_seq: SeqNo(rng.random::<u64>() >> 8),
        checksum: rng.random(),
        refs: list(rng, random_refs),
        inline_bytes: amount(rng),
        older_bytes: amount(rng),
        newest: some(rng, |rng| {
            std::array::from_fn::<_, 11, _>(|_| amount(rng)).into()
        }),
        expiry: some(rng, |rng| (rng.random(), rng.random())),
        expiring: random_expiring(rng),
        has_range_deletes: rng.random(),
        clip: some(rng, |rng| (bytes(rng), bytes(rng))),
        compression: FileCompression {
            dictionary: None,
            ..random_compression(rng, 0)
        },
    }
}

fn random_history(rng: &mut SmallRng) -> History {
    let seq = |rng: &mut SmallRng| SeqNo(rng.random::<u64>() >> 8);
    History {
        from: seq(rng),
        incarnations: list(rng, |rng| (rng.random(), seq(rng))),
        changes: list(rng, |rng| LoggedChange {
            seq: seq(rng),
            keyspace: rng.random(),
            now: some(rng, Rng::random),
            name: some(rng, bytes),
            keys: some(rng, |rng| (bytes(rng), bytes(rng))),
            commit_tag: some(rng, bytes),
            ..LoggedChange::default()
        }),
        files: list(rng, |rng| (seq(rng), FileNumber(number(rng)))),
    }
}

fn random_edit(rng: &mut SmallRng) -> VersionEdit {
    VersionEdit {
        next_file: some(rng, number),
        last_seq: some(rng, |rng| SeqNo(rng.random::<u64>() >> 8)),
        wal_low_water: some(rng, |rng| FileNumber(number(rng))),
        wal_durable: some(rng, |rng| DurableSegment {
            point: DurablePoint {
                file: FileNumber(number(rng)),
                offset: amount(rng),
            },
            uid: FileUid(rng.random()),
        }),
        clock_ms: some(rng, Rng::random),
        hash_seed: some(rng, Rng::random),
        next_partition: some(rng, number),
        history: some(rng, |rng| random_history(rng).into()),
        later: some(rng, |rng| random_history(rng).into()),
        last_keyspace: some(rng, Rng::random),
        dropped_keyspaces: list(rng, |rng| KeyspaceId(rng.random())),
        options: some(rng, bytes),
        commit_tag: some(rng, bytes),
        edits_before: some(rng, number),
        lifetime: some(rng, bytes),
        keyspaces: list(rng, |rng| KeyspaceMeta {
            id: KeyspaceId(rng.random()),
            data: KeyspaceId(rng.random()),
            since: SeqNo(0),
            name: format!("keyspace {}", rng.random::<u32>()),
            options: bytes(rng),
            default_ttl_ms: some(rng, Rng::random),
        }),
        partitions: list(rng, |rng| PartitionMeta {
            id: PartitionId(number(rng)),
            start: bytes(rng),
            end: some(rng, bytes),
        }),
        dropped_partitions: list(rng, |rng| PartitionId(number(rng))),
        record_files: list(rng, random_record_file),
        dropped_record_files: list(rng, |rng| FileNumber(number(rng))),
        tables: list(rng, |rng| TablePlace {
            partition: PartitionId(number(rng)),
            generation: GenerationId(number(rng)),
            slot: Slot(rng.random()),
            file: FileNumber(number(rng)),
            share: some(rng, |rng| TableShare {
                records: amount(rng),
                bytes: amount(rng),
            }),
            hidden_bytes: amount(rng),
        }),
        dropped_generations: list(rng, |rng| {
            (PartitionId(number(rng)), GenerationId(number(rng)))
        }),
        key_tables: list(rng, |rng| (PartitionId(number(rng)), random_key_table(rng))),
        dropped_key_tables: list(rng, |rng| {
            (PartitionId(number(rng)), FileNumber(number(rng)))
        }),
        scan_runs: list(rng, |rng| ScanRunMeta {
            partition: PartitionId(number(rng)),
            generation: GenerationId(number(rng)),
            end: Slot(rng.random()),
            tables: list(rng, random_key_table),
        }),
        dropped_scan_runs: list(rng, |rng| {
            (PartitionId(number(rng)), GenerationId(number(rng)))
        }),
    }
}

#[test]
fn edits_survive_their_encoding() {
    assert_eq!(decode(&[]).unwrap(), VersionEdit::default());
    assert_eq!(decode(&full_edit().encode()).unwrap(), full_edit());
    let mut rng = SmallRng::seed_from_u64(5);
    for round in 0..500 {
        let edit = random_edit(&mut rng);
        assert_eq!(decode(&edit.encode()).unwrap(), edit, "round {round}");
    }
}

/// Whatever bytes come, decoding ends with an edit or a typed error.
#[test]
fn damaged_edits_never_panic() {
    let good = full_edit().encode();
    for len in 0..good.len() {
        if let Err(error) = decode(&good[..len]) {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(error.offset(), Some(96));
        }
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let kind = decode(&bad).map_err(|error| error.kind());
        if let Err(kind) = kind {
            assert!(matches!(
                kind,
                ErrorKind::Corruption | ErrorKind::Incompatible
            ));
        }
    }
    let mut rng = SmallRng::seed_from_u64(6);
    for _ in 0..2000 {
        let mut bad = random_edit(&mut rng).encode();
        for _ in 0..rng.random_range(1..5) {
            if !bad.is_empty() {
                let at = rng.random_range(0..bad.len());
                bad[at] = rng.random();
            }
        }
        let _ = decode(&bad);
    }
}

#[test]
fn unknown_fields_are_refused_if_critical_and_else_skipped() {
    let with = |tag: u16| {
        let mut bytes = full_edit().encode();
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&3u32.to_le_bytes());
        bytes.extend_from_slice(b"new");
        bytes
    };
    assert_eq!(decode(&with(300)).unwrap(), full_edit());
    let error = decode(&with(300 | CRITICAL)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("300"), "{error}");
    let error = decode(&with(CRITICAL)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
}

#[test]
fn a_release_that_does_not_know_the_lifetime_figures_skips_them() {
    let (path, offset) = (Path::new("MANIFEST-000001"), 96);
    let place = Place { path, offset };
    let older = |bytes: &[u8]| {
        let fields = Fields::read(bytes, "version edit", 1..=tag::LIFETIME - 1, place)?;
        fields.u64(tag::NEXT_FILE)
    };
    let without_keyspaces = VersionEdit {
        wal_durable: None,
        last_keyspace: None,
        dropped_keyspaces: Vec::new(),
        ..full_edit()
    };
    let next_file = older(&without_keyspaces.encode()).unwrap();
    assert_eq!(next_file, full_edit().next_file);
    // Where it would read keys of others as its own, it refuses.
    let error = older(&full_edit().encode()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("newer release"), "{error}");
}

/// Entries within an edit can grow in the same way.
#[test]
fn unknown_fields_of_an_entry_are_refused_if_critical_and_else_skipped() {
    let with = |tag: u16| {
        let mut out = FieldWriter::default();
        let place = &full_edit().tables[0];
        out.nested(tag::TABLE, |out| {
            entries::put_table(out, place);
            out.put(99, b"new");
        });
        let mut bytes = out.finish();
        let at = bytes.len() - 9;
        bytes[at..at + 2].copy_from_slice(&tag.to_le_bytes());
        bytes
    };
    let edit = decode(&with(99)).unwrap();
    assert_eq!(edit.tables, full_edit().tables);
    let error = decode(&with(99 | CRITICAL)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
}

#[test]
fn fields_that_are_missing_doubled_or_out_of_range_are_refused() {
    let refused = |build: &dyn Fn(&mut FieldWriter), why: &str| {
        let mut out = FieldWriter::default();
        build(&mut out);
        let error = decode(&out.finish()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(&|out| out.nested(tag::TABLE, |_| {}), "missing");
    refused(&|out| out.nested(tag::RECORD_FILE, |_| {}), "missing");
    refused(
        &|out| {
            out.put_u64(tag::NEXT_FILE, 1);
            out.put_u64(tag::NEXT_FILE, 2);
        },
        "twice",
    );
    refused(&|out| out.put(tag::LAST_SEQ, b"short"), "wrong length");
    refused(
        &|out| out.put(tag::DROPPED_RECORD_FILE, b"short"),
        "wrong length",
    );
    // Sums of sizes must fit, and there must be a next number.
    let greater = "greater";
    refused(&|out| out.put_u64(tag::NEXT_FILE, 1 << 62), greater);
    refused(&|out| out.put_u64(tag::NEXT_PARTITION, u64::MAX), greater);
    refused(&|out| out.put_u64(tag::EDITS_BEFORE, u64::MAX), greater);
    refused(&|out| out.put_u64(tag::WAL_LOW_WATER, u64::MAX), greater);
    refused(&|out| out.put_u64(tag::LAST_SEQ, 1 << 56), greater);
    type Lie = fn(&mut VersionEdit);
    let lies: [Lie; 12] = [
        |edit| edit.record_files[0].len = 1 << 48,
        |edit| edit.record_files[0].count = u64::MAX,
        |edit| edit.record_files[0].number = FileNumber(u64::MAX),
        |edit| edit.record_files[0].max_seq = SeqNo(1 << 56),
        |edit| edit.record_files[0].ingest_seq = Some(SeqNo(u64::MAX)),
        |edit| edit.record_files[0].refs[0].bytes = u64::MAX,
        |edit| edit.key_tables[0].1.refs[0].count = u64::MAX,
        |edit| edit.key_tables[0].1.inline_bytes = u64::MAX,
        |edit| edit.key_tables[0].1.older_bytes = u64::MAX,
        |edit| edit.tables[0].generation = GenerationId(u64::MAX),
        |edit| edit.tables[0].share.as_mut().unwrap().bytes = u64::MAX,
        |edit| edit.partitions[0].id = PartitionId(u64::MAX),
    ];
    for (n, lie) in lies.into_iter().enumerate() {
        let mut edit = full_edit();
        lie(&mut edit);
        let error = decode(&edit.encode()).unwrap_err();
        assert!(error.to_string().contains(greater), "lie {n}: {error}");
    }
    let mut meta = full_edit().record_files.remove(0);
    meta.records_end = meta.len + 1;
    let beyond = VersionEdit {
        record_files: vec![meta],
        ..VersionEdit::default()
    };
    let error = decode(&beyond.encode()).unwrap_err();
    assert!(error.to_string().contains("behind the end"), "{error}");
}
