//! Destroying and repairing databases that nobody has open.

use super::options::Options;
use crate::boundary::args::{Optional, Text};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Kind, Outcome};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use unikv::{Db, RepairOptions};

/// Repairs the database in `dir` beside it, and swaps the two. The damaged one is kept, as `dir`
/// with `.damaged` after its name, and a number if that is taken. One without damage is left alone.
fn repair(dir: &Path) -> Outcome<()> {
    let report = Db::check(dir)?;
    // The repair itself refuses an open one.
    if report.is_clean() && !report.is_open {
        return Ok(());
    }
    // Where an interrupted repair has left its mark the next one goes on. Anything else of the name
    // is not ours to remove: it may be the damaged database, if the swap was interrupted.
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let is_taken = |path: &Path| is_there(path) && !is_there(&path.join("REPAIRING"));
    let repaired = first_beside(dir, ".repairing", is_taken)?;
    Db::repair(dir, &repaired, &RepairOptions::default())?;
    let kept = first_beside(dir, ".damaged", is_there)?;
    let failed = |what: &str, error: io::Error| {
        let what = format!("{}: cannot {what}: {error}", dir.display());
        let remedy = format!(
            "the repaired database is there, or in {}",
            repaired.display()
        );
        Fault::new(Kind::Io, &what, &remedy)
    };
    swap(dir, &repaired, &kept).map_err(|error| failed("swap the directories", error))?;
    sync_parent(dir).map_err(|error| failed("sync the directory above", error))
}

/// Puts `repaired` in the place of `dir`, which becomes `kept`. Where the file system exchanges two
/// names, one of the two databases is there at each moment.
fn swap(dir: &Path, repaired: &Path, kept: &Path) -> io::Result<()> {
    match renameat_with(CWD, dir, CWD, repaired, RenameFlags::EXCHANGE) {
        Ok(()) => std::fs::rename(repaired, kept),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            std::fs::rename(dir, kept)?;
            let renamed = std::fs::rename(repaired, dir);
            if renamed.is_err() {
                std::fs::rename(kept, dir)?;
            }
            renamed
        }
        Err(error) => Err(error.into()),
    }
}

fn sync_parent(dir: &Path) -> io::Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// A path beside `dir` that is not taken: its name with a suffix, and a number if need be.
fn first_beside(dir: &Path, suffix: &str, is_taken: impl Fn(&Path) -> bool) -> Outcome<PathBuf> {
    let Some(name) = dir.file_name() else {
        let what = format!("`{}` does not end with a name", dir.display());
        return Err(Fault::misuse(&what, "pass a path that does"));
    };
    for number in 0..10_000 {
        let mut name = OsString::from(name);
        name.push(suffix);
        if number > 0 {
            name.push(format!("-{number}"));
        }
        let path = dir.with_file_name(name);
        if !is_taken(&path) {
            return Ok(path);
        }
    }
    let what = format!("{}: there are 10,000 repairs beside it", dir.display());
    Err(Fault::misuse(&what, "remove what is not needed any more"))
}

capi! { functions:
    /// Removes the database in directory `name`, which nobody may have open, and the directory if
    /// nothing else is in it. Where there is none, nothing is done.
    fn unikv_destroy_db(options: Optional<Options>, name: Text; errptr) {
        let _ = options;
        Db::destroy(name.path())?;
    }

    /// Saves what is intact of the damaged database in directory `name`, which nobody may have
    /// open: into a new one beside it, which then takes its name. The damaged one is kept, with
    /// `.damaged` after its name. A database without damage is left as it is.
    fn unikv_repair_db(options: Optional<Options>, name: Text; errptr) {
        let _ = options;
        repair(name.path())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use tempfile::TempDir;
    use unikv::Options;

    fn make(dir: &Path) {
        let db = Db::open(dir, Options::default()).unwrap();
        for number in 0..1000u32 {
            db.put(number.to_be_bytes(), [7; 1000]).unwrap();
        }
        db.flush().unwrap();
        db.put("in the log", "it is").unwrap();
        db.close().unwrap();
    }

    /// Changes a byte in the middle of the greatest file.
    fn damage(dir: &Path) {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let file = files
            .max_by_key(|entry| entry.metadata().unwrap().len())
            .unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .open(file.path())
            .unwrap();
        let at = file.metadata().unwrap().len() / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_damaged_database_is_repaired_in_its_place_and_kept() {
        let parent = TempDir::new().unwrap();
        let dir = parent.path().join("db");
        make(&dir);
        repair(&dir).unwrap();
        assert_eq!(names(parent.path()), ["db"], "there was no damage");

        for kept in [1, 2] {
            damage(&dir);
            assert!(!Db::check(&dir).unwrap().is_clean());
            repair(&dir).unwrap();
            let all = ["db", "db.damaged", "db.damaged-1"];
            assert_eq!(names(parent.path()), all[..=kept]);
            assert!(Db::check(&dir).unwrap().is_clean());
            assert!(!Db::check(parent.path().join(all[kept])).unwrap().is_clean());
        }
        let db = Db::open(&dir, Options::default()).unwrap();
        assert!(db.iter().count() >= 990);
        assert_eq!(
            db.get("in the log").unwrap().as_deref(),
            Some(&b"it is"[..])
        );
    }

    #[test]
    fn a_repair_does_not_take_the_place_of_another_database() {
        let parent = TempDir::new().unwrap();
        let (dir, other) = (parent.path().join("db"), parent.path().join("db.repairing"));
        make(&dir);
        make(&other);
        damage(&dir);
        repair(&dir).unwrap();
        assert!(Db::check(&dir).unwrap().is_clean());
        assert!(Db::check(&other).unwrap().is_clean());
        assert_eq!(names(parent.path()), ["db", "db.damaged", "db.repairing"]);
        // The damaged one itself, where the swap was interrupted.
        std::fs::remove_file(other.join("CURRENT")).unwrap();
        let before = names(&other);
        damage(&dir);
        repair(&dir).unwrap();
        assert!(Db::check(&dir).unwrap().is_clean());
        assert_eq!(names(&other), before);
        assert!(repair(Path::new("/")).is_err());
        assert!(repair(&parent.path().join("none")).is_err());
    }
}
