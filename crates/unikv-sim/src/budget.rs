//! How much to explore: little by default, more when the environment asks for it.
//!
//! | variable | meaning |
//! |---|---|
//! | `UNIKV_TIMES` | this many times the seeds that each explorer has by default |
//! | `UNIKV_SEEDS` | seeds per explorer |
//! | `UNIKV_STEPS` | operations per history |
//! | `UNIKV_SEED` | replay this seed alone |
//! | `UNIKV_CRASH_AT` | replay this crash or fault point alone |
//! | `UNIKV_KEEP`, `UNIKV_FAULT`, `UNIKV_VARIANT` | replay this way of coming back, this error,
//! these options alone |
//! | `UNIKV_KEEP_GOING` | report every failure instead of stopping at the first |

use std::env;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// The seeds to run: `default` many from `first` on, unless the environment says otherwise.
pub fn seeds(first: u64, default: u64) -> impl Iterator<Item = u64> {
    share_of_seeds(first, default, 1)
}

/// As [`seeds`], for a test to which only a part of the seeds falls, one in `share`: because others
/// like it take the rest, or because one seed takes as long as many of others.
pub fn share_of_seeds(first: u64, default: u64, share: u64) -> impl Iterator<Item = u64> {
    match number("UNIKV_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let default = default * number("UNIKV_TIMES").unwrap_or(1);
            first..first + number("UNIKV_SEEDS").map_or(default, |n| n.div_ceil(share))
        }
    }
}

/// Whether `value` is to be explored: the environment names none, or this one.
pub fn chosen(name: &str, value: &str) -> bool {
    env::var(name).map_or(true, |only| only == value)
}

/// Whether the environment asks for one seed or place alone: then nothing can be said of how much
/// was covered.
pub fn replays() -> bool {
    [
        "UNIKV_SEED",
        "UNIKV_CRASH_AT",
        "UNIKV_KEEP",
        "UNIKV_FAULT",
        "UNIKV_VARIANT",
    ]
    .iter()
    .any(|name| env::var_os(name).is_some())
}

/// Whether the environment asks for more than the test of a change has.
pub fn is_thorough() -> bool {
    number("UNIKV_TIMES").is_some_and(|times| times > 1)
}

/// The operations of a history.
pub fn steps(default: usize) -> usize {
    number("UNIKV_STEPS").map_or(default, |n| n as usize)
}

/// The places to visit among calls `1..=count`: all of them if at most `sample`, else one drawn
/// from each of `sample` equal stretches, so that every run of the same seed visits the same.
pub fn points(count: u64, sample: u64, seed: u64) -> Vec<u64> {
    if let Some(at) = number("UNIKV_CRASH_AT") {
        return vec![at];
    }
    if count <= sample {
        return (1..=count).collect();
    }
    let stretch = |i: u64| 1 + i * count / sample;
    let draw = |i: u64| seed.wrapping_add(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    (0..sample)
        .map(|i| stretch(i) + draw(i) % (stretch(i + 1) - stretch(i)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_cover_the_whole_run_without_repeats() {
        assert_eq!(points(5, 10, 1), [1, 2, 3, 4, 5]);
        let drawn = points(1000, 30, 1);
        assert_eq!(drawn.len(), 30);
        assert!(drawn.windows(2).all(|w| w[0] < w[1]));
        assert!(drawn[0] >= 1 && drawn[29] > 900 && drawn[29] <= 1000);
    }
}
