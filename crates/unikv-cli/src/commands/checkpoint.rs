//! `checkpoint`: a database of its own that is what another one is now.

use crate::args::DirArg;
use crate::exit::{Code, Outcome};
use crate::output::Output;
use crate::reading::Reading;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use unikv::Checkpoint as Made;

/// `checkpoint DIR DEST`
#[derive(Args)]
pub struct Checkpoint {
    #[command(flatten)]
    dir: DirArg,
    /// The directory of the checkpoint, which must not exist; on the same file system it takes no
    /// space until the two differ
    dest: PathBuf,
    #[command(flatten)]
    output: Output,
}

impl Checkpoint {
    pub fn run(self) -> Outcome {
        let db = Reading::open_to_copy(&self.dir)?;
        let made = db.checkpoint(&self.dest)?;
        db.close()?;
        self.output
            .print(|| as_json(&made), |out| writeln!(out, "{made}"))?;
        Ok(Code::Success)
    }
}

fn as_json(made: &Made) -> Value {
    let files = made.files.iter().map(|file| {
        json!({
            "name": file.name,
            "bytes": file.bytes,
            "crc32c": format!("{:08x}", file.checksum),
            "linked": file.is_linked,
        })
    });
    json!({
        "dir": made.dir.to_string_lossy(),
        "seq": made.seq,
        "commit_tag": made.commit_tag.as_ref().map(|commit_tag| commit_tag.escape_ascii().to_string()),
        "time_ms": made.time_ms,
        "files": files.collect::<Value>(),
        "linked_bytes": made.linked_bytes(),
        "copied_bytes": made.copied_bytes(),
        "copied_because": made.copied_because,
        "seconds": made.elapsed.as_secs_f64(),
    })
}
