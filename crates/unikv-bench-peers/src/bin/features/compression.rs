//! What zstd makes of JSON, text and noise.

use crate::store::{Figures, Outcome, Scale, Store, key};
use std::path::Path;
use std::time::Instant;
use unikv_bench::Failure;
use unikv_bench::report::figures::rate;

/// Bytes of a value, about.
const VALUE_BYTES: usize = 1_000;
/// Bytes of text for each of the records of other experiments.
const SHARE: u64 = 5;

/// A generator of pseudo-random numbers.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// One of 4,096 words, the first of them much more often than the last.
    fn word(&mut self) -> String {
        let rank = self.below(4_096) * self.below(4_096) / 4_096;
        let mut letters = Draws(rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let length = 2 + letters.below(9);
        let letter = |_| char::from(b"etaoinshrdlucmfwypvbgkqjxz"[letters.below(26) as usize]);
        (0..length).map(letter).collect()
    }
}

/// What values consist of.
#[derive(Clone, Copy)]
enum Kind {
    Json,
    Text,
    Noise,
}

impl Kind {
    const ALL: [(&'static str, Kind); 3] = [
        ("JSON", Kind::Json),
        ("text", Kind::Text),
        ("noise", Kind::Noise),
    ];

    fn value(self, number: u64) -> Vec<u8> {
        let mut draws = Draws((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match self {
            Kind::Json => json(number, &mut draws).into_bytes(),
            Kind::Text => {
                let mut text = String::new();
                while text.len() < VALUE_BYTES {
                    text += &draws.word();
                    text.push(' ');
                }
                text.into_bytes()
            }
            Kind::Noise => {
                let bytes = (0..VALUE_BYTES / 8).flat_map(|_| draws.next().to_le_bytes());
                bytes.collect()
            }
        }
    }
}

/// An order of a shop.
fn json(number: u64, draws: &mut Draws) -> String {
    let mut text = format!(
        "{{\"order\":{number},\"customer\":{{\"id\":{},\"name\":\"{} {}\",\"city\":\"{}\"}},\
         \"created\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\"currency\":\"EUR\",\"items\":[",
        draws.below(1_000_000),
        draws.word(),
        draws.word(),
        draws.word(),
        1 + draws.below(12),
        1 + draws.below(28),
        draws.below(24),
        draws.below(60),
        draws.below(60),
    );
    while text.len() < VALUE_BYTES - 100 {
        text += &format!(
            "{{\"sku\":\"{:08x}\",\"title\":\"{} {}\",\"quantity\":{},\"price\":{}.{:02}}},",
            draws.next() as u32,
            draws.word(),
            draws.word(),
            1 + draws.below(5),
            draws.below(500),
            draws.below(100),
        );
    }
    text.pop();
    text + &format!(
        "],\"status\":\"{}\"}}",
        ["paid", "sent", "open"][draws.below(3) as usize]
    )
}

/// Each kind with zstd: puts, the bytes stored after a compaction, gets.
pub fn zstd<S: Store>(dir: &Path, scale: &Scale) -> Outcome<Figures> {
    let mut figures = Figures::new();
    for (name, kind) in Kind::ALL {
        let Some(store) = S::open_zstd(dir, scale.memory_bytes) else {
            return Ok(Figures::new());
        };
        let (store, records) = (store?, scale.records / SHARE);
        let (begin, mut bytes) = (Instant::now(), 0);
        for n in 0..records {
            let value = kind.value(n);
            bytes += (value.len() + key(n).len()) as u64;
            store.put(0, &key(n), &value)?;
        }
        let written = rate(records, begin.elapsed());
        store.compact()?;
        let begin = Instant::now();
        for n in 0..records {
            let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % records;
            if store.get(0, &key(n))?.as_deref() != Some(&kind.value(n)[..]) {
                return Err(Failure::verification(format!("the value of key {n}")));
            }
        }
        let read = rate(records, begin.elapsed());
        drop(store);
        let stored = bytes_of(dir)?;
        let share = stored as f64 / bytes as f64;
        figures.push((format!("{name}: puts"), written));
        let what = format!("{name}: bytes stored, of those of keys and values");
        figures.push((what, format!("{:.1} MB, {share:.3}", stored as f64 / 1e6)));
        figures.push((format!("{name}: gets"), read));
        std::fs::remove_dir_all(dir).map_err(Failure::Io)?;
    }
    Ok(figures)
}

/// The bytes of the files in a directory that hold records: all but logs, and room that is kept for
/// a full disk.
fn bytes_of(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).map_err(Failure::Io)? {
        let entry = entry.map_err(Failure::Io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".wal") && !name.ends_with(".log") && name != "BALLAST" {
            bytes += entry.metadata().map_err(Failure::Io)?.len();
        }
    }
    Ok(bytes)
}
