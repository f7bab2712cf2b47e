//! Stored options, lifetime figures, `CURRENT` and cache hints. The first byte says which: bit 6
//! the last; and with bit 7 that the checksums of `CURRENT` are made right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unikv::{ErrorKind, fuzzing};
use unikv_fuzz::{allocation, seal, typed};

fuzz_target!(|data: &[u8]| {
    let Some((&flags, bytes)) = data.split_first() else {
        return;
    };
    let limit = 32 * bytes.len() + 8192;
    if flags & 0x40 != 0 {
        // It may have been longer: numbers may be spelled with zeros that nobody needs.
        if let Some(again) = allocation::bounded(limit, || fuzzing::hints(bytes)) {
            assert!(again.len() <= bytes.len());
            assert_eq!(fuzzing::hints(&again).as_deref(), Some(&again[..]));
        }
        return;
    }
    match flags % 3 {
        0 => match allocation::bounded(limit, || fuzzing::options(bytes)) {
            Ok(again) => {
                let resolved = fuzzing::options(&again).expect("what holds can be stored");
                assert_eq!(resolved, again);
            }
            // A value out of range: the remedy names another.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                assert!(!error.remedy().is_empty());
            }
            Err(error) => typed::damage(&error),
        },
        1 => {
            let decoded = allocation::bounded(limit, || fuzzing::lifetime(bytes));
            if let Some(again) = typed::checked(decoded) {
                assert_eq!(fuzzing::lifetime(&again).ok().as_deref(), Some(&again[..]));
            }
        }
        _ => {
            let mut bytes = bytes.to_vec();
            if flags & 0x80 != 0 {
                seal::header_checksum(&mut bytes);
                seal::current_checksum(&mut bytes);
            }
            let decoded = allocation::bounded(limit, || fuzzing::current(&bytes));
            if let Some((database, number, uid)) = typed::checked(decoded) {
                assert_eq!(database, bytes[32..48]);
                assert_eq!(number.to_le_bytes(), bytes[96..104]);
                assert_eq!(uid.to_le_bytes(), bytes[104..112]);
                assert_eq!(bytes.len(), 116);
            }
        }
    }
});
