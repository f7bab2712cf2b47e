//! A secondary beside the database: after any operation it may be refreshed, and must show what the
//! database shows; until the next refresh it shows that, whatever becomes of the files.
//!
//! It has a scheduler of its own and only looks at the disk, so the run is the same without it.

use super::{DIR, Interrupt, Runner, Tolerance, env};
use crate::crash::fork;
use crate::oracle::{Ending, State};
use crate::story;
use crate::verify::{same_pairs, scan};
use std::collections::BTreeMap;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, Options, Readable, Secondary, SecondaryOptions};

/// One history in this many has a secondary.
const EVERY: u64 = 3;
/// It does something after one operation in this many.
const OFTEN: u64 = 6;

/// One refresh in this many is followed by a checkpoint of the secondary.
const COPIED: u64 = 5;
/// Where that is, until it has been looked at; each has a number, for a power cut may bring back
/// what was removed.
const COPY: &str = "/followed";

/// What each keyspace holds.
pub(crate) type Whole = BTreeMap<String, State>;

/// A secondary, and what it showed when it was last refreshed.
pub(super) struct Followed {
    secondary: Secondary,
    shows: Whole,
}

fn whole(names: Vec<String>, of: impl Fn(&str) -> State) -> Whole {
    names
        .into_iter()
        .map(|name| (name.clone(), of(&name)))
        .collect()
}

fn state(of: &impl Readable) -> State {
    scan(of.iter()).unwrap_or_else(|err| panic!("a scan beside a writer failed: {err:?}"))
}

/// What a secondary shows.
pub(crate) fn shown_by(secondary: &Secondary) -> Whole {
    let shown = |name: &str| secondary.find_keyspace(name).expect("it is listed");
    whole(secondary.keyspaces(), |name| state(&shown(name)))
}

/// Asserts that two show the same.
pub(crate) fn same(what: &str, got: &Whole, want: &Whole) {
    assert!(
        got.keys().eq(want.keys()),
        "{what}: {:?}, not {:?}",
        got.keys(),
        want.keys()
    );
    for (name, want) in want {
        same_pairs(&format!("{what}, {name}"), &got[name], want);
    }
}

/// What a database shows.
pub(crate) fn held_by(db: &Db) -> Whole {
    let space = |name: &str| db.find_keyspace(name).expect("it is listed");
    whole(db.keyspaces(), |name| state(&space(name)))
}

/// A secondary of a database that nobody has open.
pub(crate) fn alone(disk: &SimVfs) -> Secondary {
    let env = env(disk, &SimRuntime::new(0xf1));
    let opened = Db::open_secondary(DIR, SecondaryOptions::default().env(env.clone()));
    opened.unwrap_or_else(|err| panic!("following after a crash failed: {err:?}"))
}

impl Runner {
    /// The same run without a secondary, which would look at the disk, too.
    pub(crate) fn unfollowed(mut self) -> Runner {
        self.may_follow = false;
        self
    }

    /// Whether a secondary is part of the run. Where time matters its clock may be another.
    fn is_followed(&self) -> bool {
        let is_calm = matches!(self.tolerance, Tolerance::None);
        is_calm && self.may_follow && self.seed % EVERY == 1 && !self.oracle.times.matters
    }

    fn whole(&self) -> Whole {
        held_by(self.db())
    }

    /// Has the secondary do something, if it is its turn.
    pub(super) fn let_follow(&mut self) -> Result<(), Interrupt> {
        let draw = (self.seed ^ (self.step as u64) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if !self.is_followed() || !draw.is_multiple_of(OFTEN) {
            return Ok(());
        }
        match draw / OFTEN % 8 {
            0 => self.followed = None,
            1..3 => {
                if let Some(Followed { secondary, shows }) = &self.followed {
                    same(
                        "a secondary that is not refreshed",
                        &shown_by(secondary),
                        shows,
                    );
                }
            }
            _ => {
                let secondary = self.refreshed()?;
                let (got, want) = (shown_by(&secondary), self.whole());
                same("a secondary", &got, &want);
                assert_eq!(
                    secondary.commit_tag(),
                    self.db().commit_tag(),
                    "the mark of a secondary"
                );
                if (draw / OFTEN / 8).is_multiple_of(COPIED) {
                    self.copy_followed(&secondary, &want)?;
                }
                self.followed = Some(Followed {
                    secondary,
                    shows: want,
                });
                self.coverage.followed += 1;
            }
        }
        Ok(())
    }

    /// A checkpoint of the secondary is a database that holds what it shows, also after a power
    /// cut.
    fn copy_followed(&self, secondary: &Secondary, shows: &Whole) -> Result<(), Interrupt> {
        story::step("   a secondary makes a checkpoint".to_owned());
        let dir = format!("{COPY}{}-{}", self.incarnation, self.step);
        let made = secondary.checkpoint(&dir);
        let made = self.must("a checkpoint of a secondary", made)?;
        let disk = fork(&self.vfs, Ending::PowerCut);
        // Little space is no matter of what is in it.
        disk.set_free_space(None);
        let there = env(&disk, &SimRuntime::new(self.seed ^ 0xf1));
        let report = there.check(&dir).expect("a checkpoint can be checked");
        assert!(report.is_clean(), "{:?}", report.problems);
        let copy = Db::open(&dir, Options::default().env(there)).expect("a checkpoint opens");
        let space = |name: &str| copy.find_keyspace(name).expect("it is listed");
        let got = whole(copy.keyspaces(), |name| state(&space(name)));
        same("a checkpoint of a secondary", &got, shows);
        assert_eq!(copy.commit_tag(), secondary.commit_tag(), "its mark");
        assert_eq!(copy.commit_tag(), made.commit_tag, "its mark");
        let here = env(&self.vfs, &SimRuntime::new(self.seed ^ 0xf2));
        let gone = here.destroy(&dir);
        self.must("destroying a checkpoint", gone)
    }

    /// The secondary as it is after a refresh, or a new one.
    fn refreshed(&mut self) -> Result<Secondary, Interrupt> {
        story::step("   a secondary is refreshed".to_owned());
        let Some(Followed { secondary, .. }) = self.followed.take() else {
            let env = env(&self.vfs, &SimRuntime::new(self.seed ^ 0xf0));
            let opened = Db::open_secondary(DIR, SecondaryOptions::default().env(env.clone()));
            return self.must("following", opened);
        };
        let refreshed = secondary.refresh();
        self.must("a refresh", refreshed)?;
        Ok(secondary)
    }

    /// Nobody has the database open: what a secondary shows then.
    pub(super) fn follow_alone(&mut self, is_same_disk: bool) -> Result<Option<Whole>, Interrupt> {
        if !is_same_disk {
            self.followed = None;
        }
        if !self.is_followed() || self.incarnation.is_multiple_of(2) {
            return Ok(None);
        }
        let secondary = self.refreshed()?;
        let shows = shown_by(&secondary);
        let alone = shows.clone();
        self.followed = Some(Followed { secondary, shows });
        Ok(Some(alone))
    }

    /// It has been opened again: it holds what a secondary showed before.
    pub(super) fn followed_into(&self, alone: Option<Whole>) {
        if let Some(alone) = alone {
            same("a secondary without a writer", &alone, &self.whole());
        }
    }
}
