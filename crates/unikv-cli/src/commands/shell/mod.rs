//! `shell`: commands from a terminal, with history and completion, or from a script.
//!
//! A script ends at the first command that fails, with its exit status and line; a key that is not
//! there is no failure, and makes the status 1 at the end. On a terminal every error is printed,
//! and the next line is read.

mod complete;
mod words;

use crate::args::{DEFAULT_KEYSPACE, DirArg, find_keyspace};
use crate::exit::{Code, Failure, Outcome};
use crate::text::{self, Form};
use clap::Args;
use complete::Completion;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::ops::Bound;
use std::path::PathBuf;
use unikv::{Db, Keyspace, KeyspaceOptions};

/// Records that `scan` prints if it is not given a number.
const SCANNED: usize = 20;

/// Lines of history that are kept.
const HISTORY: usize = 1000;

const HELP: &str = "\
get KEY                    print the value
put KEY VALUE              store a record
delete KEY                 delete a record
scan [FROM [TO]] [COUNT]   print records from FROM on, before TO; 20 if no COUNT is given
count [FROM [TO]]          count them
keyspaces                  list the keyspaces
use NAME                   go to a keyspace; `use NAME create` makes it
stats                      the figures of the database
flush, compact             write the memtable to a table; merge everything
help, quit
Words with spaces stand in quotes; \\t, \\n, \\\\ and \\xNN stand for bytes. # begins a comment.";

/// `shell DIR`
#[derive(Args)]
pub struct Shell {
    #[command(flatten)]
    dir: DirArg,
    /// Make the database if there is none
    #[arg(long)]
    create: bool,
}

impl Shell {
    pub fn run(self) -> Outcome {
        let db = self.dir.open_to_change(self.create)?;
        let mut session = Session {
            keyspace: find_keyspace(&db, DEFAULT_KEYSPACE)?,
            name: DEFAULT_KEYSPACE.to_owned(),
            db,
        };
        let ended = if io::stdin().is_terminal() {
            session.converse()
        } else {
            session.read_script(&mut io::stdin().lock())
        };
        let Session { db, keyspace, .. } = session;
        drop(keyspace);
        let closed = db.close();
        let code = ended?;
        closed?;
        Ok(code)
    }
}

/// What a line leads to.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Well,
    /// The key is not there.
    NotFound,
    Leave,
}

struct Session {
    db: Db,
    keyspace: Keyspace,
    name: String,
}

impl Session {
    fn read_script(&mut self, script: &mut impl BufRead) -> Outcome {
        let mut out = BufWriter::new(io::stdout().lock());
        let (mut code, mut line, mut number) = (Code::Success, Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            if script.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let done = self.obey(&line, &mut out);
            // What was printed before an error stands before it.
            let flushed = out.flush();
            let done = done.and_then(|done| flushed.map(|()| done).map_err(Failure::from));
            let failed = |failure| match failure {
                // What follows is not done: that is no success.
                Failure::BrokenPipe => Failure::new(Code::Io, "standard output was closed"),
                failure => failure,
            };
            match done.map_err(|failure| failed(failure).at(&format!("line {number}")))? {
                Done::Well => {}
                Done::NotFound => code = Code::KeyNotFound,
                Done::Leave => break,
            }
        }
        Ok(code)
    }

    fn converse(&mut self) -> Outcome {
        let config = Config::builder().max_history_size(HISTORY);
        let config = config.map_err(|e| io_failure(&e))?.build();
        let mut editor: Editor<Completion, FileHistory> =
            Editor::with_config(config).map_err(|e| io_failure(&e))?;
        let history = history_file();
        // There is none at first.
        let _none = history.as_ref().map(|path| editor.load_history(path));
        loop {
            editor.set_helper(Some(Completion {
                keyspaces: self.db.keyspaces(),
            }));
            let line = match editor.readline(&format!("{}> ", self.name)) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(io_failure(&error)),
            };
            let _not_kept = editor.add_history_entry(&line);
            let mut out = io::stdout().lock();
            match self.obey(line.as_bytes(), &mut out) {
                Ok(Done::Leave) => break,
                Ok(_) => {}
                Err(Failure::BrokenPipe) => break,
                Err(Failure::Failed(failed)) => writeln!(out, "{failed}")?,
            }
        }
        let _not_kept = history.map(|path| editor.save_history(&path));
        Ok(Code::Success)
    }

    /// Does what a line says.
    fn obey(&mut self, line: &[u8], out: &mut impl Write) -> Result<Done, Failure> {
        let words = words::split(line).map_err(Failure::invalid)?;
        let Some((command, rest)) = words.split_first() else {
            return Ok(Done::Well);
        };
        let command = String::from_utf8_lossy(command).to_lowercase();
        match (&*command, rest) {
            ("get", [key]) => return self.get(key, out),
            ("put", [key, value]) => self.keyspace.put(key, value)?,
            ("delete" | "del", [key]) => self.keyspace.delete(key)?,
            ("scan", rest) => self.scan(rest, out)?,
            ("count", rest) => self.count(rest, out)?,
            ("keyspaces", []) => self.list_keyspaces(out)?,
            ("use", [name]) => self.enter(name, false)?,
            ("use", [name, create]) if create == b"create" => self.enter(name, true)?,
            ("stats", []) => crate::commands::stats::print(&self.db, out)?,
            ("flush", []) => self.db.flush()?,
            ("compact", []) => self.db.compact()?,
            ("help", []) => writeln!(out, "{HELP}")?,
            ("quit" | "exit", []) => return Ok(Done::Leave),
            _ if complete::COMMANDS.contains(&&*command) => {
                let words = if rest.len() == 1 { "word" } else { "words" };
                let what = format!("{command} does not take {} {words}", rest.len());
                return Err(Failure::invalid(what).remedy("see `help`"));
            }
            _ => {
                let what = format!("there is no command {command:?}");
                return Err(Failure::invalid(what).remedy("see `help`"));
            }
        }
        Ok(Done::Well)
    }

    fn get(&self, key: &[u8], out: &mut impl Write) -> Result<Done, Failure> {
        let Some(value) = self.keyspace.get(key)? else {
            writeln!(io::stderr(), "(not there)")?;
            return Ok(Done::NotFound);
        };
        text::write_record(out, Form::Tsv, &value, None)?;
        Ok(Done::Well)
    }

    fn scan(&self, words: &[Vec<u8>], out: &mut impl Write) -> Result<(), Failure> {
        let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse::<usize>().ok();
        let count = words.last().filter(|_| !words.is_empty()).and_then(number);
        // A number at the end is how many, so a key that is one needs another number after it.
        let words = match count {
            Some(_) => &words[..words.len() - 1],
            None => words,
        };
        let (from, to) = bounds(words)?;
        let records = self.keyspace.range((from, to));
        for record in records.take(count.unwrap_or(SCANNED)) {
            let (key, value) = record?;
            text::write_record(out, Form::Tsv, &key, Some(&value))?;
        }
        Ok(())
    }

    fn count(&self, words: &[Vec<u8>], out: &mut impl Write) -> Result<(), Failure> {
        let mut count = 0_u64;
        for key in self.keyspace.keys(bounds(words)?) {
            key?;
            count += 1;
        }
        Ok(writeln!(out, "{count}")?)
    }

    fn list_keyspaces(&self, out: &mut impl Write) -> Result<(), Failure> {
        for name in self.db.keyspaces() {
            let here = if name == self.name { "*" } else { " " };
            writeln!(out, "{here} {}", name.escape_debug())?;
        }
        Ok(())
    }

    fn enter(&mut self, name: &[u8], creates: bool) -> Result<(), Failure> {
        let name = std::str::from_utf8(name)
            .map_err(|_| Failure::invalid("the name of a keyspace is text"))?;
        self.keyspace = if creates {
            self.db.keyspace(name, KeyspaceOptions::default())?
        } else {
            find_keyspace(&self.db, name)?
        };
        name.clone_into(&mut self.name);
        Ok(())
    }
}

/// A range of keys.
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// From the first word on, before the second.
fn bounds(words: &[Vec<u8>]) -> Result<Range<'_>, Failure> {
    use Bound::{Excluded, Included, Unbounded};
    match words {
        [] => Ok((Unbounded, Unbounded)),
        [from] => Ok((Included(from), Unbounded)),
        [from, to] => Ok((Included(from), Excluded(to))),
        _ => Err(Failure::invalid("a range is at most two keys").remedy("see `help`")),
    }
}

/// Where the history is kept: `UNIKV_HISTORY`, or in the home directory; empty: nowhere.
fn history_file() -> Option<PathBuf> {
    let path = match std::env::var_os("UNIKV_HISTORY") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".unikv_history"),
    };
    (!path.as_os_str().is_empty()).then_some(path)
}

fn io_failure(error: &ReadlineError) -> Failure {
    Failure::new(Code::Io, error.to_string())
}
