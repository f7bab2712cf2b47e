//! Records that come as lines from a file or from standard input, with a bar on a terminal.
//!
//! Memory holds one line.

use crate::commands::byte_progress;
use crate::exit::Failure;
use crate::text::{self, Form, Line};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

pub struct Lines {
    input: Box<dyn BufRead>,
    form: Form,
    /// For messages.
    pub name: String,
    /// Lines read so far.
    number: u64,
    line: Vec<u8>,
    /// Of the record that was read last.
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    progress: ProgressBar,
}

impl Lines {
    /// The lines of a file, or of standard input if its name is `-`; their form is as its name
    /// says, where none is given.
    pub fn open(file: &str, form: Option<Form>) -> Result<Lines, Failure> {
        let (input, length): (Box<dyn BufRead>, Option<u64>) = if file == "-" {
            (Box::new(io::stdin().lock()), None)
        } else {
            let opened = File::open(file).map_err(|e| Failure::file(file, &e))?;
            let metadata = opened.metadata().map_err(|e| Failure::file(file, &e))?;
            if metadata.is_dir() {
                let what = format!("{file} is a directory; name a file, or - for standard input");
                return Err(Failure::invalid(what));
            }
            let length = Some(metadata.len());
            (Box::new(BufReader::with_capacity(1 << 20, opened)), length)
        };
        Ok(Lines {
            input,
            form: form.unwrap_or_else(|| form_of(file)),
            name: file.to_owned(),
            number: 0,
            line: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            progress: byte_progress(length),
        })
    }

    /// Reads the next line that is not empty. A record is then in `key` and `value`.
    pub fn next(&mut self) -> Result<Option<Line>, Failure> {
        loop {
            self.line.clear();
            let read = self.input.read_until(b'\n', &mut self.line);
            let read = read.map_err(|e| Failure::file(&self.name, &e))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.progress.inc(read as u64);
            let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            // A carriage return of the data is escaped; a bare one ends a line from elsewhere.
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.is_empty() {
                continue;
            }
            let line = text::read_line(text, self.form, &mut self.key, &mut self.value);
            let at = |what: String| Failure::invalid(what).at(&self.place());
            return line.map(Some).map_err(at);
        }
    }

    /// The line that was read last, for a message.
    pub fn place(&self) -> String {
        format!("{}, line {}", self.name, self.number)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}

fn form_of(file: &str) -> Form {
    let extension = Path::new(file)
        .extension()
        .and_then(|extension| extension.to_str());
    match extension {
        Some("jsonl" | "ndjson" | "json") => Form::Jsonl,
        _ => Form::Tsv,
    }
}
