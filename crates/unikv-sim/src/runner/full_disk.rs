//! Openings where no byte is free: now and then a copy of the disk is opened so, with the ballast
//! or without, before the database is opened again, and holds the same.

use super::{DIR, Interrupt, Runner, Tolerance, env};
use crate::crash::fork;
use crate::oracle::{Ending, State};
use crate::spaces;
use crate::story;
use std::path::Path;
use unikv::vfs::Vfs as _;
use unikv::vfs::sim::{Keep, SimRuntime};
use unikv::{Db, ErrorKind};

/// One opening in this many.
const EVERY: u64 = 5;

impl Runner {
    /// What a copy of the database holds that is opened without space. `ending`: how the process
    /// before ended.
    pub(super) fn opened_without_space(&self, ending: Ending) -> Option<State> {
        let is_calm = matches!(self.tolerance, Tolerance::None);
        let is_chosen = (self.seed ^ self.incarnation).is_multiple_of(EVERY);
        if !is_calm || !is_chosen || self.oracle.times.matters {
            return None;
        }
        story::step("   a copy is opened where no byte is free".to_owned());
        let disk = fork(&self.vfs, Ending::Kill);
        if self.incarnation.is_multiple_of(2) {
            let _there_may_be_none = disk.remove(&Path::new(DIR).join("BALLAST"));
        }
        disk.set_free_space(Some(0));
        let there = env(&disk, &SimRuntime::new(self.seed ^ 0xfd));
        let db = match Db::open_in(there, DIR, self.config.options()) {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => return None,
            opened => opened.expect("an opening on a full disk"),
        };
        let found = spaces::whole(&db, false).expect("a scan on a full disk");
        let refused = db
            .put("\u{1}refused", "here")
            .expect_err("a put on a full disk");
        assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
        if ending == Ending::PowerCut {
            // All of it is durable.
            let cut = disk.power_cut(Keep::Nothing);
            cut.set_free_space(None);
            let there = env(&cut, &SimRuntime::new(self.seed ^ 0xfe));
            let db = Db::open_in(there, DIR, self.config.options()).expect("an opening");
            let after = spaces::whole(&db, false).expect("a scan");
            assert!(
                after == found,
                "a power cut after an opening on a full disk"
            );
        }
        Some(found)
    }

    /// It has been opened again.
    pub(super) fn same_without_space(&self, found: Option<State>) -> Result<(), Interrupt> {
        if let Some(found) = found {
            let now = self.must("a scan", spaces::whole(self.db(), false))?;
            assert!(now == found, "an opening on a full disk");
        }
        Ok(())
    }
}
