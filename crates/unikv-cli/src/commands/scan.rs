//! `scan`: a range of records in either direction.

use crate::args::{DirArg, KeyspaceArg, Notation};
use crate::exit::{Code, Failure, Outcome};
use crate::text::{self, Form};
use clap::Args;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;

/// `scan DIR`
#[derive(Args)]
pub struct Scan {
    #[command(flatten)]
    dir: DirArg,
    /// The first key of the range
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The end of the range: the first key after it
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// At most this many records
    #[arg(long, value_name = "COUNT", value_parser = crate::args::count)]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print no values
    #[arg(long)]
    keys_only: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

/// A key, and its value if that is to be printed.
type Record = (unikv::Bytes, Option<unikv::Bytes>);
type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl Scan {
    pub fn run(self) -> Outcome {
        let range = self.range()?;
        let db = self.dir.open_existing()?;
        let keyspace = self.keyspace.find(&db)?;
        let Some(range) = range else {
            return Ok(Code::Success);
        };
        let mut out = BufWriter::new(io::stdout().lock());
        if self.keys_only {
            let keys = keyspace.keys(range);
            self.print_all(keys.map(|key| key.map(|key| (key, None))), &mut out)?;
        } else {
            let records = keyspace.range(range).expecting(self.limit());
            let records = records.map(|record| record.map(|(key, value)| (key, Some(value))));
            self.print_all(records, &mut out)?;
        }
        out.flush()?;
        drop(out);
        db.close()?;
        Ok(Code::Success)
    }

    /// The most records to print.
    fn limit(&self) -> usize {
        let limit = self.limit.map(usize::try_from);
        limit.map_or(usize::MAX, |limit| limit.unwrap_or(usize::MAX))
    }

    fn print_all(
        &self,
        records: impl DoubleEndedIterator<Item = unikv::Result<Record>>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        match self.reverse {
            true => self.print(records.rev().take(self.limit()), out),
            false => self.print(records.take(self.limit()), out),
        }
    }

    fn print(
        &self,
        records: impl Iterator<Item = unikv::Result<Record>>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        for record in records {
            let (key, value) = record?;
            let (key, value) = (&key[..], value.as_deref());
            if self.json {
                text::write_record(out, Form::Jsonl, key, value)?;
            } else if self.notation.hex {
                out.write_all(text::to_hex(key).as_bytes())?;
                if let Some(value) = value {
                    write!(out, "\t{}", text::to_hex(value))?;
                }
                out.write_all(b"\n")?;
            } else {
                text::write_record(out, Form::Tsv, key, value)?;
            }
        }
        Ok(())
    }

    /// What `--from`, `--to` and `--prefix` leave together; `None` when that is nothing.
    fn range(&self) -> Result<Option<KeyRange>, Failure> {
        let bytes = |text: &Option<String>| {
            text.as_ref()
                .map(|text| self.notation.bytes(text))
                .transpose()
        };
        Ok(intersection(
            bytes(&self.from)?,
            bytes(&self.to)?,
            bytes(&self.prefix)?,
        ))
    }
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
