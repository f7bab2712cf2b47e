//! Ranges of keys, as arguments.

use crate::args::Notation;
use crate::exit::Failure;
use clap::Args;
use std::ops::Bound;

pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// `--from KEY --to KEY --prefix PREFIX`
#[derive(Args)]
pub struct RangeArgs {
    /// The first key of the range
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The end of the range: the first key after it
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

impl RangeArgs {
    /// What they leave together; `None` when that is nothing.
    pub fn bounds(&self, notation: &Notation) -> Result<Option<KeyRange>, Failure> {
        let bytes = |text: &Option<String>| {
            let text = text.as_ref();
            text.map(|text| notation.bytes(text)).transpose()
        };
        Ok(intersection(
            bytes(&self.from)?,
            bytes(&self.to)?,
            bytes(&self.prefix)?,
        ))
    }
}

/// Whether all keys are in the range: none was named, or empty texts were.
pub fn is_everything(range: &KeyRange) -> bool {
    let begins = match &range.0 {
        Bound::Included(key) => key.is_empty(),
        Bound::Excluded(_) => false,
        Bound::Unbounded => true,
    };
    begins && range.1 == Bound::Unbounded
}

fn intersection(
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
) -> Option<KeyRange> {
    let behind_prefix = prefix.as_deref().and_then(after_prefix);
    let start = from.max(prefix);
    let end = match (to, behind_prefix) {
        (Some(to), Some(behind)) => Some(to.min(behind)),
        (to, behind) => to.or(behind),
    };
    // An engine may rightly refuse a range whose end is not after its start.
    if let (Some(start), Some(end)) = (&start, &end)
        && start >= end
    {
        return None;
    }
    let start = start.map_or(Bound::Unbounded, Bound::Included);
    let end = end.map_or(Bound::Unbounded, Bound::Excluded);
    Some((start, end))
}

/// The least key greater than every key that begins with `prefix`; none after all-ones bytes.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[test]
    fn ends_of_prefixes() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn bounds_intersect() {
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(intersection(None, None, None), Some((Unbounded, Unbounded)));
        let both = Some((Included(b"bb".to_vec()), Excluded(b"c".to_vec())));
        assert_eq!(intersection(key("bb"), key("d"), key("b")), both);
        let prefix = Some((Included(b"b".to_vec()), Excluded(b"bz".to_vec())));
        assert_eq!(intersection(key("a"), key("bz"), key("b")), prefix);
        assert_eq!(intersection(key("c"), None, key("b")), None);
        assert_eq!(intersection(key("b"), key("b"), None), None);
    }
}
