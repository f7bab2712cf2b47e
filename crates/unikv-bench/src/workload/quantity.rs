//! Sizes, counts and times as people write them.

use std::time::Duration;

/// A size like `4096`, `16MiB` or `1g`. `k`, `m`, `g` and `t` are powers of 1024.
///
/// # Errors
/// A text that is no size, with a hint.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size::Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|error| format!("{error}; write a size like 4096, 16MiB or 1g"))
}

/// A [`size`] of less than 4 GiB.
///
/// # Errors
/// A text that is no such size.
pub fn small_size(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| "at most 4GiB - 1".to_owned())
}

/// A count like `6000000`, `6_000_000`, `500k` or `6m`. `k`, `m` and `g` are powers of 1000.
///
/// # Errors
/// A text that is no count, with a hint.
pub fn count(text: &str) -> Result<u64, String> {
    parse_size::Config::new()
        .with_decimal()
        .parse_size(text.replace('_', ""))
        .map_err(|error| format!("{error}; write a count like 6000000, 500k or 6m"))
}

/// A duration like `100ms`, `30s` or `2min`.
///
/// # Errors
/// A text that is no duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_counts_decimal() {
        assert_eq!(size("16MiB"), Ok(16 << 20));
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(count("6m"), Ok(6_000_000));
        assert_eq!(count("6_000_000"), Ok(6_000_000));
        assert!(size("many").is_err());
        assert!(small_size("4GiB").is_err());
    }
}
