//! Checking without a lock: a process may have the database open, or open it meanwhile.
//!
//! A database that is open is followed: a secondary holds the files of what it shows, and has read
//! the log up to there. Of one that nobody has open all is checked, and what an opening changes
//! meanwhile looks like damage. So the result counts if it has no problem, or if nobody has opened
//! the database in between, which makes a page and a manifest before it changes anything else.

use super::{Check, check_alone, is_no_problem};
use crate::base::keys::{DatabaseId, FileNumber, FileUid};
use crate::base::seeded::seeded;
use crate::engine::open::directory::take_lock_to_read;
use crate::engine::secondary::Follow;
use crate::engine::stats::report::CheckReport;
use crate::engine::visible_page::FollowedPage;
use crate::error::{Error, ErrorKind, Result};
use crate::options::SecondaryOptions;
use crate::version::file_names;
use crate::version::manifest::Manifest;
use crate::vfs::Env;
use crate::vfs::file_store::FileStore;
use std::path::Path;

/// Checks that openings may spoil.
const TRIES: usize = 8;

/// Who has the database, as far as files show it.
#[derive(PartialEq, Eq)]
struct Moment {
    manifest: Option<(FileNumber, FileUid)>,
    page: Page,
}

#[derive(PartialEq, Eq)]
enum Page {
    /// Nobody has made one.
    None,
    /// That of a process, and whether it has the database open.
    Of(FileUid, bool),
    /// The file system has none: only the lock shows who has it.
    Unsupported,
}

impl Moment {
    fn now(env: &Env, dir: &Path) -> Result<Moment> {
        // What cannot be read is a matter of the check.
        let current = Manifest::read_current(&*env.vfs, dir).ok();
        let page = match &current {
            Some(current) => page_in(env, dir, current.database)?,
            None => Page::None,
        };
        Ok(Moment {
            manifest: current.map(|current| (current.number, current.uid)),
            page,
        })
    }
}

fn page_in(env: &Env, dir: &Path, database: DatabaseId) -> Result<Page> {
    let store = FileStore::new(env.clone(), dir.to_owned(), database, 1);
    match FollowedPage::open(&store) {
        Ok(None) => Ok(Page::None),
        Ok(Some(page)) => match page.is_held(dir) {
            Err(error) if error.kind() == ErrorKind::Incompatible => Ok(Page::Unsupported),
            held => Ok(Page::Of(page.uid(), held?)),
        },
        Err(error) if error.kind() == ErrorKind::Incompatible => Ok(Page::Unsupported),
        Err(error) => Err(error),
    }
}

/// Checks until the result says something about the database.
pub(super) fn until_it_is_true(env: &Env, dir: &Path) -> Result<CheckReport> {
    let mut tries = 0;
    loop {
        tries += 1;
        let before = Moment::now(env, dir)?;
        let checked = match before.page {
            Page::Of(_, true) => check_open(env, dir),
            Page::Of(..) | Page::None => check_alone(env, dir),
            Page::Unsupported => {
                let _lock = take_lock_to_read(env, dir)?;
                return check_alone(env, dir);
            }
        };
        let is_clean = checked.as_ref().is_ok_and(CheckReport::is_clean);
        if is_clean || before == Moment::now(env, dir)? || seeded!(SpoiledCheckCounts) {
            return checked;
        }
        if tries == TRIES {
            // It is opened again and again.
            return Err(Error::locked(dir, None));
        }
    }
}

/// Checks what is visible of a database that a process has open.
fn check_open(env: &Env, dir: &Path) -> Result<CheckReport> {
    let mut check = Check::default();
    let follow = match Follow::open(env, dir, &SecondaryOptions::default()) {
        Err(error) if error.kind() == ErrorKind::Corruption => {
            check.problem(dir, &error);
            check.report.is_open = true;
            let what = "another process has it open: the check ended at this problem; close the \
                        database and check it again for others";
            check.report.notes.push(what.to_owned());
            return Ok(check.report);
        }
        opened => opened?,
    };
    let view = follow.shown().read.view.load_full();
    match check.version(&view.version, &dir.join(file_names::CURRENT)) {
        Err(error) if is_no_problem(&error) => return Err(error),
        Err(error) => check.problem(dir, &error),
        Ok(()) => {}
    }
    check.report.is_open = true;
    let what = "another process has it open: of its log, what is visible was read";
    check.report.notes.push(what.to_owned());
    Ok(check.report)
}

#[cfg(test)]
mod tests;
