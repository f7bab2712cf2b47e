//! The lives of the database in a run: how it is opened, ends and is opened again.

use super::{DIR, Interrupt, PATIENCE, Runner, Tolerance, env, keyspaces};
use crate::config::Config;
use crate::history::{Exit, Op};
use crate::oracle::Ending;
use crate::runner::Coverage;
use crate::verify;
use unikv::vfs::sim::{Keep, SimRuntime, SimVfs};
use unikv::{Db, ErrorKind};

impl Runner {
    pub(super) fn open(&mut self) -> Result<(), Interrupt> {
        let may_fail = matches!(
            self.tolerance,
            Tolerance::AfterFault { .. }
                | Tolerance::AfterReadFault(_)
                | Tolerance::ShortOfSpace(_)
                | Tolerance::Storms(_)
        );
        let mut tries = if may_fail { PATIENCE } else { 1 };
        loop {
            let options = if self.bare_options {
                self.config.bare_options()
            } else {
                self.config.options()
            };
            if self.oracle.times.matters {
                self.runtime.set_wall_clock_ms(self.oracle.times.wall_ms);
            }
            let opened = Db::open(DIR, options.env(env(&self.vfs, &self.runtime)));
            let budget = self.config.memory_budget;
            if matches!(&opened, Err(err) if err.kind() == ErrorKind::InvalidArgument)
                && budget < self.budget
            {
                // The hash indexes need what the database had before.
                self.config.memory_budget = self.budget;
                continue;
            }
            self.budget = budget;
            tries -= 1;
            if tries < PATIENCE / 2 {
                self.calm();
            }
            let db = if tries > 0 {
                self.may("open", opened)?
            } else {
                Some(self.must("open", opened)?)
            };
            if let Some(db) = db {
                self.db = Some(db);
                self.forget_clustering();
                self.begin_clock();
                return Ok(());
            }
            self.oracle.times.tries += 1;
            self.vfs.set_free_space(None);
            self.runtime = SimRuntime::new(self.seed ^ self.incarnation << 32 ^ 0xf);
        }
    }

    /// Ends the database and opens it again.
    pub fn reopen(&mut self, exit: Exit, config: Option<&Config>) -> Result<(), Interrupt> {
        self.snapshots = Default::default();
        self.iterators = Default::default();
        self.space_iterator = None;
        self.transactions = Default::default();
        self.held_changes = None;
        self.note_time();
        self.incarnation += 1;
        let db = self.db.take().expect("the database is open");
        self.cover(&db);
        let mut ending = Ending::Kill;
        match exit {
            Exit::Close => {
                let clone = db.clone();
                let closed = db.close();
                if self.may("close", closed)?.is_some() {
                    self.oracle.synced();
                }
                let late = clone.put(b"late", b"").map_err(|err| err.kind());
                assert_eq!(late, Err(ErrorKind::Closed), "a put after closing");
                self.report(None);
            }
            Exit::Drop => drop(db),
            Exit::Kill => self.vfs = self.vfs.process_kill(),
            Exit::PowerCut(draw) => {
                self.vfs = self.vfs.power_cut(keep(draw, &self.vfs));
                ending = Ending::PowerCut;
            }
        }
        self.end_clock();
        self.draw_wall();
        self.report(None);
        self.runtime = SimRuntime::new(self.seed ^ self.incarnation << 32);
        match config {
            Some(config) => self.config = config.clone(),
            // What is not set again is as it was.
            None => self.bare_options = self.incarnation.is_multiple_of(2),
        }
        // Without a window an opening forgets the history, however it ends.
        self.report(None);
        let alone = self.follow_alone(matches!(exit, Exit::Close | Exit::Drop))?;
        self.open_without_space(ending);
        let opened = self.open();
        self.bare_options = false;
        opened?;
        self.followed_into(alone);
        let disk = crate::crash::fork(&self.vfs, Ending::Kill);
        self.copies.verify(&disk);
        self.copies.resolve(&disk);
        self.settle(ending)?;
        self.changes_go_on(ending)
    }

    /// Compares the content with the oracle after an opening.
    pub(super) fn settle(&mut self, ending: Ending) -> Result<(), Interrupt> {
        let matters = self.oracle.times.matters;
        let found = self.must("a scan", keyspaces::whole(self.db(), matters))?;
        let db = self.db.as_ref().expect("the database is open");
        verify::settle(db, &mut self.oracle, &found, ending);
        self.check_all()
    }

    /// Closes the database, checks it offline, opens it and checks everything.
    pub fn finish(mut self) -> Coverage {
        let mut checked = self.check_all();
        if let Err(Interrupt::ReadFailed) = checked {
            checked = self.check_all();
        }
        checked.expect("the machine is there");
        self.exec_patiently(&Op::Reopen(Exit::Close, None))
            .expect("the machine is there");
        let db = self.db.take().expect("the database is open");
        if let Err(err) = db.close() {
            panic!("close failed: {err:?}");
        }
        verify::check_clean(&self.vfs);
        if self.seed.is_multiple_of(4) {
            verify::destroys(&self.vfs);
        }
        self.vfs.clear_faults();
        self.coverage
    }
}

/// What a power cut leaves on a disk, by a drawn number.
fn keep(draw: u64, disk: &SimVfs) -> Keep {
    let rest = draw >> 3;
    match draw % 8 {
        0 | 4 => Keep::Nothing,
        1 | 5 => Keep::All,
        2 => Keep::Prefix(rest),
        6 => Keep::First(rest % disk.pending_changes().max(1)),
        3 => Keep::Torn(rest),
        _ => Keep::Sectors(rest),
    }
}
