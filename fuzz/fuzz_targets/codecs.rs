//! Codecs. The first byte says which, and whether the rest is stored or raw; the second how long
//! the dictionary is that follows it, whatever its bytes are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unikv::{Compression, fuzzing};
use unikv_fuzz::allocation;

/// No frame says more.
const MOST_RAW: usize = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let &[flags, dictionary_len, ref bytes @ ..] = data else {
        return;
    };
    let (dictionary, bytes) = bytes.split_at(bytes.len().min(dictionary_len.into()));
    if flags & 0x80 != 0 {
        let compression = match flags % 3 {
            0 => Compression::Lz4,
            1 => Compression::Zstd { level: 1 },
            _ => Compression::zstd(3),
        };
        if let Some((codec, stored)) = fuzzing::encode(bytes, compression, dictionary) {
            assert!(stored.len() < bytes.len());
            let again = fuzzing::decode(codec, &stored, bytes.len(), dictionary);
            assert_eq!(again.as_deref(), Some(bytes));
        }
        return;
    }
    let raw_len = MOST_RAW >> (flags >> 2 & 15);
    let limit = raw_len + 4 * data.len() + (64 << 10);
    let decode = || fuzzing::decode(flags & 3, bytes, raw_len, dictionary);
    if let Some(raw) = allocation::bounded(limit, decode) {
        assert!(raw.len() <= raw_len);
    }
});
