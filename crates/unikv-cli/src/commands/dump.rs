//! `dump`: the whole database as text, in the order of the keys.

use crate::args::DirArg;
use crate::commands::byte_progress;
use crate::exit::{Code, Outcome};
use crate::text::{self, Form};
use clap::Args;
use std::io::{self, BufWriter, IsTerminal, Write};

/// `dump DIR`
#[derive(Args)]
pub struct Dump {
    #[command(flatten)]
    dir: DirArg,
    /// The form of the lines
    #[arg(
        long,
        value_name = "FORM",
        default_value = "tsv",
        conflicts_with = "json"
    )]
    format: Form,
    /// The same as --format jsonl
    #[arg(long)]
    json: bool,
}

impl Dump {
    pub fn run(self) -> Outcome {
        let form = if self.json { Form::Jsonl } else { self.format };
        let db = self.dir.open_existing()?;
        let stdout = io::stdout().lock();
        // A bar between the lines of the dump would spoil both.
        let progress = (!stdout.is_terminal()).then(|| byte_progress(None));
        let mut out = BufWriter::with_capacity(1 << 18, stdout);
        for record in db.iter() {
            let (key, value) = record?;
            text::write_record(&mut out, form, &key, Some(&value))?;
            if let Some(progress) = &progress {
                progress.inc((key.len() + value.len()) as u64);
            }
        }
        out.flush()?;
        drop(out);
        if let Some(progress) = progress {
            progress.finish_and_clear();
        }
        db.close()?;
        Ok(Code::Success)
    }
}
