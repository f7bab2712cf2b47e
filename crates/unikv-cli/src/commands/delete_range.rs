//! `delete-range`: removes a range of keys in one write.

use crate::args::{DirArg, KeyspaceArg, Notation};
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::range::{KeyRange, RangeArgs, is_everything};
use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use unikv::Keyspace;

/// `delete-range DIR`
#[derive(Args)]
pub struct DeleteRange {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    range: RangeArgs,
    /// Delete every key of the keyspace, where no range is named
    #[arg(long)]
    all: bool,
    /// Only count what would be deleted; change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl DeleteRange {
    pub fn run(self) -> Outcome {
        let range = self.range.bounds(&self.notation)?;
        if range.as_ref().is_some_and(is_everything) && !self.all {
            let remedy =
                "give a --from, --to or --prefix that is not empty, or --all for every key";
            return Err(Failure::invalid("the range named is every key").remedy(remedy));
        }
        let db = self.dir.open_to_change(false)?;
        let keyspace = self.keyspace.find(&db)?;
        let name = &self.keyspace.keyspace;
        if self.dry_run {
            let (keys, bytes) = match range {
                Some(range) => count(&keyspace, range)?,
                None => (0, 0),
            };
            let as_json =
                || json!({ "keyspace": name, "dry_run": true, "keys": keys, "about_bytes": bytes });
            self.output.print(as_json, |out| {
                let size = HumanBytes(bytes);
                writeln!(out, "would delete {keys} keys, about {size} on disk")
            })?;
        } else {
            if let Some(range) = range {
                keyspace.delete_range(range)?;
            }
            let as_json = || json!({ "keyspace": name, "dry_run": false });
            self.output.print_json(as_json)?;
        }
        db.close()?;
        Ok(Code::Success)
    }
}

/// The keys of a range, and about how many bytes they take on disk.
fn count(keyspace: &Keyspace, range: KeyRange) -> Result<(u64, u64), Failure> {
    let bytes = keyspace.approximate_size(range.clone())?;
    let mut keys: u64 = 0;
    for key in keyspace.keys(range) {
        key?;
        keys += 1;
    }
    Ok((keys, bytes))
}
