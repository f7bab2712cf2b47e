use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::sync::Arc;

/// What this build can compress with.
pub(crate) fn built_in() -> Vec<Compression> {
    let all = [
        Compression::Lz4,
        Compression::Zstd { level: 1 },
        Compression::zstd(3),
        Compression::Zstd { level: 19 },
    ];
    all.into_iter().filter(|it| it.check().is_ok()).collect()
}

fn text(rng: &mut SmallRng, len: usize) -> Vec<u8> {
    let words = ["alpha ", "beta ", "gamma ", "delta ", "\"id\":", "0123"];
    let mut out = Vec::new();
    while out.len() < len {
        out.extend_from_slice(words[rng.random_range(0..words.len())].as_bytes());
    }
    out.truncate(len);
    out
}

fn noise(rng: &mut SmallRng, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    rng.fill_bytes(&mut out);
    out
}

fn dictionary(rng: &mut SmallRng) -> Option<Arc<Dictionary>> {
    let mut samples = dictionary::Samples::default();
    (0..2000).for_each(|_| samples.add(&text(rng, 200)));
    Dictionaries::default().of(samples)
}

#[test]
fn what_shrinks_comes_back_and_what_does_not_is_left_alone() {
    let mut rng = SmallRng::seed_from_u64(1);
    let decoders = Decoders::default();
    for compression in built_in() {
        for with_dictionary in [false, true] {
            let dictionary = dictionary(&mut rng).filter(|_| with_dictionary);
            let mut encoder = Encoder::new(dictionary.clone());
            for len in [0, 1, 24, 63, 64, 100, 1000, 5000, 40_000, 300_000] {
                let raw = text(&mut rng, len);
                let Some((codec, stored)) = encoder.encode(&raw, compression) else {
                    assert!(len < 1000, "{compression:?} {len}");
                    continue;
                };
                assert!(stored.len() <= len - len / 8 && len <= codec.most_raw_len(stored.len()));
                assert_eq!(codec, encoder_codec(compression, dictionary.is_some(), len));
                let mut found = vec![0; len];
                let dictionary = dictionary.as_deref();
                decoders
                    .decode(codec, stored, &mut found, dictionary)
                    .unwrap();
                assert_eq!(found, raw, "{compression:?} {len}");
                for wrong in [len - 1, len + 1] {
                    let mut found = vec![0; wrong];
                    let done = decoders.decode(codec, stored, &mut found, dictionary);
                    assert!(done.is_err(), "{compression:?} {len}");
                }
            }
            let tried = (0..1000).filter(|_| {
                let raw = noise(&mut rng, 1000);
                encoder.encode(&raw, compression).is_some()
            });
            assert_eq!(tried.count(), 0);
        }
    }
    assert!(decoders.memory_bytes() < 1 << 20);
}

fn encoder_codec(compression: Compression, with_dictionary: bool, len: usize) -> Codec {
    match compression.codec() {
        Codec::Zstd if with_dictionary && len <= dictionary::LONGEST_VALUE => {
            Codec::ZstdWithDictionary
        }
        codec => codec,
    }
}

#[test]
fn zeros_shrink_the_most_and_are_plausible() {
    for compression in built_in() {
        let raw = vec![0; 4 << 20];
        let mut encoder = Encoder::new(None);
        let (codec, stored) = encoder.encode(&raw, compression).unwrap();
        assert!(raw.len() <= codec.most_raw_len(stored.len()), "{codec:?}");
    }
}

#[test]
fn damaged_input_is_an_error_or_other_bytes_and_never_a_panic() {
    let mut rng = SmallRng::seed_from_u64(2);
    let decoders = Decoders::default();
    let dictionary = dictionary(&mut rng);
    for compression in built_in() {
        let raw = text(&mut rng, 2000);
        let mut encoder = Encoder::new(dictionary.clone());
        let (codec, stored) = encoder.encode(&raw, compression).unwrap();
        for _ in 0..2000 {
            let mut damaged = stored.to_vec();
            let at = rng.random_range(0..damaged.len());
            damaged[at] ^= 1 << rng.random_range(0..8);
            damaged.truncate(rng.random_range(0..=damaged.len()));
            let mut found = vec![0; raw.len()];
            let _error_or_not = decoders.decode(codec, &damaged, &mut found, dictionary.as_deref());
        }
        let mut found = vec![0; raw.len()];
        if codec == Codec::ZstdWithDictionary {
            assert!(decoders.decode(codec, stored, &mut found, None).is_err());
        }
    }
}

#[test]
fn after_noise_most_is_passed_over_and_text_is_found_again() {
    let mut rng = SmallRng::seed_from_u64(3);
    for compression in built_in() {
        let mut encoder = Encoder::new(None);
        for _ in 0..500 {
            assert!(encoder.encode(&noise(&mut rng, 500), compression).is_none());
        }
        let raw = text(&mut rng, 500);
        let found = (0..100).filter(|_| encoder.encode(&raw, compression).is_some());
        assert!((36..100).contains(&found.count()));
    }
}

#[test]
fn settings_have_numbers_and_unknown_ones_are_refused() {
    let path = Path::new("MANIFEST-000001");
    for compression in built_in().into_iter().chain([Compression::None]) {
        let number = compression.number();
        assert_eq!(Compression::of_number(number, path).unwrap(), compression);
    }
    for unknown in [3, 4, 0x0100, 0x1_0000, 0x1702, 0x8002] {
        let error = Compression::of_number(unknown, path).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Incompatible, "{unknown:#x}");
    }
    for level in [-8, 23, i32::MAX, i32::MIN] {
        let error = Compression::Zstd { level }.check().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
    }
}

#[test]
fn settings_have_names() {
    for compression in built_in().into_iter().chain([Compression::None]) {
        let name = compression.to_string();
        assert_eq!(name.parse::<Compression>().unwrap(), compression);
    }
    assert_eq!("zstd".parse::<Compression>().unwrap(), Compression::zstd(3));
    for wrong in ["", "gzip", "zstd:", "zstd:23", "zstd:-8", "lz4:1", "Zstd"] {
        let error = wrong.parse::<Compression>().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument, "{wrong}");
    }
}

#[test]
fn codecs_of_newer_releases_and_those_that_are_not_built_in_are_named() {
    let path = Path::new("MANIFEST-000001");
    let mut all = Codecs::default();
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
        all.add(codec);
        assert_eq!(all.holds(codec), codec != Codec::None);
    }
    assert_eq!(Codecs::of(all.bits(), "a file", path).unwrap(), all);
    let error = Codecs::of(1 << 5, "a file", path).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Incompatible);
    for codec in Codec::ALL.into_iter().filter(|codec| !codec.is_built_in()) {
        let error = Codecs::of(1 << codec as u8, "a file is", path).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Incompatible);
        for words in [codec.feature(), "a file is compressed"] {
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(error.remedy().contains(codec.feature()), "{error}");
    }
}

#[test]
fn a_flush_never_uses_a_slow_level() {
    let (slow, fast) = (
        Compression::Zstd { level: 19 },
        Compression::Zstd { level: -5 },
    );
    let all = [Haste::None, Haste::Some];
    let [unhurried, hurried] = all.map(|haste| slow.of_flush(haste));
    assert_eq!(unhurried, Compression::zstd(3));
    assert_eq!(hurried, Compression::Zstd { level: 1 });
    assert_eq!(fast.of_flush(Haste::None), fast);
    for kept in [Compression::None, Compression::Lz4] {
        assert_eq!(all.map(|haste| kept.of_flush(haste)), [kept; 2]);
    }
}
