//! A follower beside the database: after any operation it may be refreshed, and must show what the
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
use unikv::{Db, FollowOptions, Follower, Options, Readable};

/// One history in this many has a follower.
const EVERY: u64 = 3;
/// It does something after one operation in this many.
const OFTEN: u64 = 6;

/// One refresh in this many is followed by a checkpoint of the follower.
const COPIED: u64 = 5;
/// Where that is, until it has been looked at; each has a number, for a power cut may bring back
/// what was removed.
const COPY: &str = "/followed";

/// What each keyspace holds.
pub(crate) type Whole = BTreeMap<String, State>;

/// A follower, and what it showed when it was last refreshed.
pub(super) struct Followed {
    follower: Follower,
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

/// What a follower shows.
pub(crate) fn shown_by(follower: &Follower) -> Whole {
    let shown = |name: &str| follower.keyspace(name).expect("it is listed");
    whole(follower.keyspaces(), |name| state(&shown(name)))
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

/// A follower of a database that nobody has open.
pub(crate) fn alone(disk: &SimVfs) -> Follower {
    let env = env(disk, &SimRuntime::new(0xf1));
    let opened = Db::follow_in(&env, DIR, FollowOptions::default());
    opened.unwrap_or_else(|err| panic!("following after a crash failed: {err:?}"))
}

impl Runner {
    /// The same run without a follower, which would look at the disk, too.
    pub(crate) fn unfollowed(mut self) -> Runner {
        self.may_follow = false;
        self
    }

    /// Whether a follower is part of the run. Where time matters its clock may be another.
    fn is_followed(&self) -> bool {
        let is_calm = matches!(self.tolerance, Tolerance::None);
        is_calm && self.may_follow && self.seed % EVERY == 1 && !self.oracle.times.matters
    }

    fn whole(&self) -> Whole {
        held_by(self.db())
    }

    /// Has the follower do something, if it is its turn.
    pub(super) fn let_follow(&mut self) -> Result<(), Interrupt> {
        let draw = (self.seed ^ (self.step as u64) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if !self.is_followed() || !draw.is_multiple_of(OFTEN) {
            return Ok(());
        }
        match draw / OFTEN % 8 {
            0 => self.followed = None,
            1..3 => {
                if let Some(Followed { follower, shows }) = &self.followed {
                    same(
                        "a follower that is not refreshed",
                        &shown_by(follower),
                        shows,
                    );
                }
            }
            _ => {
                let follower = self.refreshed()?;
                let (got, want) = (shown_by(&follower), self.whole());
                same("a follower", &got, &want);
                assert_eq!(follower.commit_tag(), self.db().commit_tag(), "the mark of a follower");
                if (draw / OFTEN / 8).is_multiple_of(COPIED) {
                    self.copy_followed(&follower, &want)?;
                }
                self.followed = Some(Followed {
                    follower,
                    shows: want,
                });
                self.coverage.followed += 1;
            }
        }
        Ok(())
    }

    /// A checkpoint of the follower is a database that holds what it shows, also after a power cut.
    fn copy_followed(&self, follower: &Follower, shows: &Whole) -> Result<(), Interrupt> {
        story::step("   a follower makes a checkpoint".to_owned());
        let dir = format!("{COPY}{}-{}", self.incarnation, self.step);
        let made = follower.checkpoint(&dir);
        let made = self.must("a checkpoint of a follower", made)?;
        let disk = fork(&self.vfs, Ending::PowerCut);
        // Little space is no matter of what is in it.
        disk.set_free_space(None);
        let there = env(&disk, &SimRuntime::new(self.seed ^ 0xf1));
        let report = Db::check_in(&there, &dir).expect("a checkpoint can be checked");
        assert!(report.is_clean(), "{:?}", report.problems);
        let copy = Db::open_in(there, &dir, Options::default()).expect("a checkpoint opens");
        let space = |name: &str| copy.find_keyspace(name).expect("it is listed");
        let got = whole(copy.keyspaces(), |name| state(&space(name)));
        same("a checkpoint of a follower", &got, shows);
        assert_eq!(copy.commit_tag(), follower.commit_tag(), "its mark");
        assert_eq!(copy.commit_tag(), made.commit_tag, "its mark");
        let here = env(&self.vfs, &SimRuntime::new(self.seed ^ 0xf2));
        let gone = Db::destroy_in(&here, &dir);
        self.must("destroying a checkpoint", gone)
    }

    /// The follower as it is after a refresh, or a new one.
    fn refreshed(&mut self) -> Result<Follower, Interrupt> {
        story::step("   a follower is refreshed".to_owned());
        let Some(Followed { follower, .. }) = self.followed.take() else {
            let env = env(&self.vfs, &SimRuntime::new(self.seed ^ 0xf0));
            let opened = Db::follow_in(&env, DIR, FollowOptions::default());
            return self.must("following", opened);
        };
        let refreshed = follower.refresh();
        self.must("a refresh", refreshed)?;
        Ok(follower)
    }

    /// Nobody has the database open: what a follower shows then.
    pub(super) fn follow_alone(&mut self, is_same_disk: bool) -> Result<Option<Whole>, Interrupt> {
        if !is_same_disk {
            self.followed = None;
        }
        if !self.is_followed() || self.incarnation.is_multiple_of(2) {
            return Ok(None);
        }
        let follower = self.refreshed()?;
        let shows = shown_by(&follower);
        let alone = shows.clone();
        self.followed = Some(Followed { follower, shows });
        Ok(Some(alone))
    }

    /// It has been opened again: it holds what a follower showed before.
    pub(super) fn followed_into(&self, alone: Option<Whole>) {
        if let Some(alone) = alone {
            same("a follower without a writer", &alone, &self.whole());
        }
    }
}
