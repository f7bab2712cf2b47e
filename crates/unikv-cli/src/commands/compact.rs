//! `compact`: merges what is waiting to be merged.

use crate::args::{DEFAULT_KEYSPACE, DirArg, Notation, find_keyspace};
use crate::exit::{Code, Outcome};
use crate::output::Output;
use clap::Args;
use serde_json::json;
use std::ops::Bound;
use std::time::Instant;

/// `compact DIR`
#[derive(Args)]
pub struct Compact {
    #[command(flatten)]
    dir: DirArg,
    /// The first key of the range; by default the first of the keyspace
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The end of the range: the first key after it; by default there is no end
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// The keyspace; by default all of them, or `default` if a range is given
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Say that the wall clock is right, and destroy what has expired by it
    #[arg(long)]
    trust_clock: bool,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    output: Output,
}

impl Compact {
    pub fn run(self) -> Outcome {
        let bytes = |key: &Option<String>| key.as_ref().map(|key| self.notation.bytes(key));
        let from = bytes(&self.from).transpose()?;
        let to = bytes(&self.to).transpose()?;
        let db = self.dir.open_existing()?;
        let begin = Instant::now();
        if self.trust_clock {
            db.trust_wall_clock()?;
        }
        if from.is_none() && to.is_none() && self.keyspace.is_none() {
            db.compact()?;
        } else {
            let name = self.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
            find_keyspace(&db, name)?.compact_range((
                from.map_or(Bound::Unbounded, Bound::Included),
                to.map_or(Bound::Unbounded, Bound::Excluded),
            ))?;
        }
        if self.trust_clock {
            db.collect_garbage()?;
        }
        let stats = db.stats();
        db.close()?;
        self.output.print_json(|| {
            json!({
                "flushes": stats.flushes,
                "merges": stats.merges,
                "merge_bytes": stats.merge_bytes,
                "seconds": begin.elapsed().as_secs_f64(),
            })
        })?;
        Ok(Code::Success)
    }
}
