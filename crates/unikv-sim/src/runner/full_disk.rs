//! Openings where no byte is free: now and then a copy of the disk is opened so, with the ballast
//! or without, before the database is opened again, and holds the same.

use super::{DIR, Runner, Tolerance, env};
use crate::crash::fork;
use crate::oracle::{Ending, State};
use crate::spaces;
use crate::story;
use std::path::Path;
use unikv::vfs::Vfs as _;
use unikv::vfs::sim::{Keep, SimRuntime, SimVfs};
use unikv::{Db, ErrorKind};

/// One opening in this many.
const EVERY: u64 = 5;

impl Runner {
    /// Opens copies of the disk before the database is opened again. `ending`: how the process
    /// before ended.
    pub(super) fn open_without_space(&self, ending: Ending) {
        let is_calm = matches!(self.tolerance, Tolerance::None);
        let is_chosen = (self.seed ^ self.incarnation).is_multiple_of(EVERY);
        if !is_calm || !is_chosen || self.oracle.times.matters {
            return;
        }
        story::step("   a copy is opened where no byte is free".to_owned());
        let Some(wanted) = self.content_of(&fork(&self.vfs, Ending::Kill)) else {
            return;
        };
        let disk = fork(&self.vfs, Ending::Kill);
        if self.incarnation.is_multiple_of(2) {
            let _there_may_be_none = disk.remove(&Path::new(DIR).join("BALLAST"));
        }
        disk.set_free_space(Some(0));
        let there = env(&disk, &SimRuntime::new(self.seed ^ 0xfd));
        let db = Db::open(DIR, self.config.options().env(there));
        let db = db.expect("an opening on a full disk");
        let found = spaces::whole(&db, false).expect("a scan on a full disk");
        assert!(found == wanted, "an opening on a full disk");
        let refused = db.put("\u{1}refused", "here");
        let refused = refused.expect_err("a put on a full disk");
        assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
        if ending == Ending::PowerCut {
            // All of it is durable.
            let cut = disk.power_cut(Keep::Nothing);
            let found = self.content_of(&cut).expect("an opening");
            assert!(
                found == wanted,
                "a power cut after an opening on a full disk"
            );
        }
    }

    /// What the database on a disk with space holds; `None`: it needs more memory.
    fn content_of(&self, disk: &SimVfs) -> Option<State> {
        disk.set_free_space(None);
        let there = env(disk, &SimRuntime::new(self.seed ^ 0xfe));
        let db = match Db::open(DIR, self.config.options().env(there)) {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => return None,
            opened => opened.expect("an opening"),
        };
        Some(spaces::whole(&db, false).expect("a scan"))
    }
}
