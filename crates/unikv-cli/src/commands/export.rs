//! `export` and `import`: the records of a range in one verified file, and back.

use crate::args::{DEFAULT_KEYSPACE, DirArg, KeyspaceArg, Notation, find_keyspace};
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::range::RangeArgs;
use crate::reading::Reading;
use clap::Args;
use serde_json::json;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use unikv::{Db, ExportFile, Keyspace};

/// `export DIR FILE`
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    dir: DirArg,
    /// The file to make, which must not exist
    file: PathBuf,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    keyspace: KeyspaceArg,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    output: Output,
}

impl Export {
    pub fn run(self) -> Outcome {
        let range = self.range.bounds(&self.notation)?;
        let db = Reading::open(&self.dir)?;
        let keyspace = db.find(&self.keyspace)?;
        // A range without keys is no reason for a script to find no file.
        let nothing = || (Bound::Included(Vec::new()), Bound::Excluded(Vec::new()));
        let made = keyspace.export(range.unwrap_or_else(nothing), &self.file)?;
        db.close()?;
        print("exported", &made, &self.keyspace.keyspace, self.output)?;
        Ok(Code::Success)
    }
}

/// `import DIR FILE`
#[derive(Args)]
pub struct Import {
    #[command(flatten)]
    dir: DirArg,
    /// The file that `export` has made
    file: PathBuf,
    /// The keyspace to store the records in, which must be there; by default that of which they
    /// were, made as it was if need be
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Read and verify the file, and change nothing
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    output: Output,
}

impl Import {
    pub fn run(self) -> Outcome {
        let export = ExportFile::open(&self.file)?;
        if self.verify {
            let found = export.verify()?;
            print("verified", &found, export.keyspace(), self.output)?;
            return Ok(Code::Success);
        }
        // Before anything is made for it.
        let name = self.keyspace.as_deref();
        let may_create = name.is_none_or(|name| name == DEFAULT_KEYSPACE);
        let db = self.dir.open_to_change(may_create)?;
        let keyspace = self.target(&db, &export)?;
        let found = keyspace.import(&export)?;
        let name = keyspace.name()?;
        db.close()?;
        print("imported", &found, &name, self.output)?;
        Ok(Code::Success)
    }

    fn target(&self, db: &Db, export: &ExportFile) -> Result<Keyspace, Failure> {
        let name = export.keyspace();
        match &self.keyspace {
            Some(name) => find_keyspace(db, name),
            None => match db.find_keyspace(name) {
                Some(found) => Ok(found),
                None => {
                    // A damaged export is to leave no keyspace.
                    export.verify()?;
                    Ok(db.keyspace(name, export.keyspace_options().clone())?)
                }
            },
        }
    }
}

fn print(done: &str, found: &unikv::Export, keyspace: &str, output: Output) -> io::Result<()> {
    let as_json = || {
        json!({
            "keyspace": keyspace,
            "records": found.records,
            "bytes": found.bytes,
            "file_bytes": found.file_bytes,
            "seq": found.seq,
        })
    };
    output.print(as_json, |out| {
        writeln!(out, "{done}, of the keyspace {keyspace:?}: {found}")
    })
}
