//! File headers and file names. The first byte: the kind that is expected (bits 0 to 2), whether
//! the checksum is made right (bit 3), and whether the database must be a given one (bit 4).
#![no_main]

use libfuzzer_sys::fuzz_target;
use unikv::fuzzing;
use unikv_fuzz::{allocation, seal, typed};

fuzz_target!(|data: &[u8]| {
    let Some((&flags, rest)) = data.split_first() else {
        return;
    };
    let mut bytes = rest.to_vec();
    if flags & 8 != 0 {
        seal::header_checksum(&mut bytes);
    }
    let kind = (flags & 7).clamp(1, 5);
    let database = (flags & 16 != 0).then_some(seal::DATABASE);
    let decoded = allocation::bounded(4096, || fuzzing::file_header(&bytes, kind, database));
    if let Some(again) = typed::checked(decoded) {
        // Of what is not understood only the optional features and the reserved bytes may differ.
        assert_eq!(again[..24], bytes[..24]);
        assert_eq!(again[32..80], bytes[32..80]);
        assert_eq!(
            fuzzing::file_header(&again, kind, database).ok(),
            Some(again)
        );
        assert_eq!(again[8], kind);
        assert!(database.is_none_or(|database| again[32..48] == database));
        let raw = fuzzing::raw_header(&bytes).expect("long enough");
        assert_eq!((raw.0, raw.1, raw.3), (kind, seal::uid(&bytes), true));
    }
    if let Some(name) = bytes
        .get(seal::HEADER_LEN..)
        .and_then(|name| str::from_utf8(name).ok())
        && let Some((spelled, number)) = fuzzing::file_name(name)
    {
        assert_eq!(spelled, name, "a name has one spelling");
        assert!(number.is_none_or(|number| name.contains(&format!("{number:06}"))));
    }
});
