//! Checkpoints, backups and exports: what is in them must be what the oracle knew when they were
//! made, whatever becomes of the database and of the machine afterwards.

mod exports;

use super::{Interrupt, Runner, env};
use crate::crash::fork;
use crate::history::CopyOp;
use crate::oracle::{Ending, Oracle};
use crate::spaces;
use crate::verify;
use exports::Exported;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unikv::backup::Repository;
use unikv::vfs::Vfs;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, ErrorKind, Options};

/// Where the repository of backups is.
const BACKUPS: &str = "/backups";
/// Where points are restored, on a copy of the disk.
const RESTORED: &str = "/restored";

/// A copy of the database, and what it must hold.
#[derive(Clone, Debug)]
pub struct Copied {
    place: Place,
    oracle: Arc<Oracle>,
    /// The call that made it has returned, so that it must be there.
    is_made: bool,
    /// A call that removes it has begun.
    may_be_gone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Checkpoint(PathBuf),
    Point(u64),
}

/// The copies that a run has made.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    all: Vec<Copied>,
    exports: Vec<Exported>,
    /// Attempts so far.
    begun: u64,
}

impl Copies {
    /// Asserts that each copy on a disk is whole, and that all are there that must be. The disk is
    /// one after a crash.
    pub fn verify(&self, disk: &SimVfs) {
        // Checkpoints are alike; the newest two have met all that their like can meet.
        let checkpoints = self.all.iter().rev().filter(|copied| !copied.is_point());
        for copied in checkpoints.take(2) {
            copied.verify(disk);
        }
        let points = self.all.iter().filter(|copied| copied.is_point());
        points.for_each(|copied| copied.verify(disk));
        self.verify_exports(disk);
    }

    /// Forgets the copies that need not be there and are not.
    pub fn resolve(&mut self, disk: &SimVfs) {
        let must_be_there = |copied: &Copied| copied.is_made && !copied.may_be_gone;
        self.all
            .retain(|copied| must_be_there(copied) || copied.is_there(disk));
        self.resolve_exports(disk);
    }

    fn begin(&mut self, place: Place, oracle: &Oracle) {
        let mut oracle = oracle.clone();
        // How late it will be when a copy is made that the machine did not live to report, nobody
        // knows.
        oracle.times.may_be_any();
        self.all.push(Copied {
            place,
            oracle: Arc::new(oracle),
            is_made: false,
            may_be_gone: false,
        });
    }
}

impl Copied {
    fn is_point(&self) -> bool {
        matches!(self.place, Place::Point(_))
    }

    fn is_there(&self, disk: &SimVfs) -> bool {
        match &self.place {
            Place::Checkpoint(dir) => disk.list(dir).is_ok(),
            Place::Point(number) => numbers(disk).contains(number),
        }
    }

    fn verify(&self, disk: &SimVfs) {
        if !self.is_there(disk) {
            let may_lack = !self.is_made || self.may_be_gone;
            assert!(may_lack, "{:?} was acknowledged and is gone", self.place);
            return;
        }
        let disk = fork(disk, Ending::Kill);
        // Little space is no matter of what is in it.
        disk.set_free_space(None);
        let dir = match &self.place {
            Place::Checkpoint(dir) => dir,
            Place::Point(number) => {
                let restored = repository(&disk).restore(*number, RESTORED);
                restored.unwrap_or_else(|err| panic!("point {number} is broken: {err}"));
                Path::new(RESTORED)
            }
        };
        self.examine(&disk, dir);
    }

    /// The database in `dir` holds what the oracle knew.
    fn examine(&self, disk: &SimVfs, dir: &Path) {
        // A copy begins with a time as a crash would leave it, whenever it is opened.
        let mut oracle = Oracle::clone(&self.oracle);
        let runtime = oracle.times.runtime(3);
        let db = Db::open(dir, Options::default().env(env(disk, &runtime)));
        let db = db.unwrap_or_else(|err| panic!("{:?} does not open: {err}", self.place));
        let found = spaces::whole(&db, oracle.times.matters)
            .unwrap_or_else(|err| panic!("a scan failed: {err:?}"));
        // All in it is durable, also what was not so in the database.
        verify::settle(&db, &mut oracle, &found, Ending::Kill);
        let cut = &db.recovery().wal_cut;
        assert!(cut.is_none(), "{:?} was cut: {cut:?}", self.place);
    }
}

fn repository(disk: &SimVfs) -> Repository {
    env(disk, &SimRuntime::new(5)).repository(BACKUPS)
}

/// The numbers of the points, ascending. None is damaged.
fn numbers(disk: &SimVfs) -> Vec<u64> {
    match repository(disk).points() {
        Ok(listed) => {
            assert!(listed.damaged.is_empty(), "{:?}", listed.damaged);
            listed.points.iter().map(|point| point.number).collect()
        }
        Err(err) if err.kind() == ErrorKind::NotFound => Vec::new(),
        Err(err) => panic!("the repository is lost: {err}"),
    }
}

impl Runner {
    /// Plays an operation on copies.
    pub(super) fn copy_op(&mut self, op: &CopyOp) -> Result<(), Interrupt> {
        match op {
            CopyOp::Checkpoint => self.checkpoint(),
            CopyOp::BackUp => self.back_up(),
            CopyOp::Prune(keep) => self.prune(*keep),
            CopyOp::Export(source, range) => self.export(*source, range),
            CopyOp::Import(number, into) => self.import(*number, *into),
        }
    }

    fn checkpoint(&mut self) -> Result<(), Interrupt> {
        self.copies.begun += 1;
        let dir = PathBuf::from(format!("/checkpoint{}", self.copies.begun));
        self.copies
            .begin(Place::Checkpoint(dir.clone()), &self.crashed());
        self.report(None);
        let made = self.db().checkpoint(&dir);
        if self.may("a checkpoint", made)?.is_some() {
            self.made();
        }
        Ok(())
    }

    fn back_up(&mut self) -> Result<(), Interrupt> {
        let disk = fork(&self.vfs, Ending::Kill);
        let number = numbers(&disk).last().map_or(1, |last| last + 1);
        self.copies.begin(Place::Point(number), &self.crashed());
        self.report(None);
        let made = repository(&self.vfs).back_up(self.db());
        match self.may("a backup", made) {
            Ok(Some(made)) => {
                assert_eq!(made.point.number, number);
                self.made();
                Ok(())
            }
            failed => {
                // Its name may be there; then it is whole.
                self.copies.resolve(&fork(&self.vfs, Ending::Kill));
                failed.map(drop)
            }
        }
    }

    fn prune(&mut self, keep: usize) -> Result<(), Interrupt> {
        let points = self
            .copies
            .all
            .iter_mut()
            .filter(|copied| copied.is_point());
        let gone = points.rev().skip(keep);
        gone.for_each(|copied| copied.may_be_gone = true);
        self.report(None);
        let pruned = repository(&self.vfs).prune(keep);
        if matches!(&pruned, Err(err) if err.kind() == ErrorKind::NotFound) {
            // There has been no backup yet.
            return Ok(());
        }
        let pruned = self.may("a pruning", pruned);
        let disk = fork(&self.vfs, Ending::Kill);
        self.copies.verify(&disk);
        self.copies.resolve(&disk);
        if pruned?.is_some() {
            let is_gone = |copied: &Copied| copied.may_be_gone;
            assert!(
                !self.copies.all.iter().any(is_gone),
                "a pruned point is there"
            );
        }
        self.report(None);
        Ok(())
    }

    /// The newest copy has been made.
    fn made(&mut self) {
        let disk = fork(&self.vfs, Ending::Kill);
        let latest = self.crashed().times;
        if let Some(copied) = self.copies.all.last_mut() {
            copied.is_made = true;
            Arc::make_mut(&mut copied.oracle).times.known_by(&latest);
            copied.verify(&disk);
        }
        self.report(None);
    }
}
