//! `delete-range`: removes a range of keys in one write.

use crate::args::{DirArg, KeyspaceArg, Notation};
use crate::exit::{Code, Failure, Outcome};
use crate::range::RangeArgs;
use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use std::io::{self, Write};

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
    /// With --dry-run: print the count as a JSON object
    #[arg(long, requires = "dry_run")]
    json: bool,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
}

impl DeleteRange {
    pub fn run(self) -> Outcome {
        if self.range.is_everything() && !self.all {
            let what = "no range is named";
            let remedy = "give --from, --to or --prefix, or --all for every key";
            return Err(Failure::invalid(format!("{what} ({remedy})")));
        }
        let range = self.range.bounds(&self.notation)?;
        let db = self.dir.open_to_change(false)?;
        let keyspace = self.keyspace.find(&db)?;
        if self.dry_run {
            let mut keys: u64 = 0;
            let mut bytes = 0;
            if let Some(range) = range {
                bytes = keyspace.approximate_size(range.clone())?;
                for key in keyspace.keys(range) {
                    key?;
                    keys += 1;
                }
            }
            let mut out = io::stdout().lock();
            match self.json {
                true => writeln!(out, "{}", json!({ "keys": keys, "about_bytes": bytes }))?,
                false => {
                    let size = HumanBytes(bytes);
                    writeln!(out, "would delete {keys} keys, about {size} on disk")?;
                }
            }
        } else if let Some(range) = range {
            keyspace.delete_range(range)?;
        }
        db.close()?;
        Ok(Code::Success)
    }
}
