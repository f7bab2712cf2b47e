//! What the database must contain, and how much of it each kind of crash may take.
//!
//! The oracle holds the writes in order. One that failed, or was under way when the machine
//! stopped, is *unknown*: there whole or not at all, at its own place in the order.
//! - After a **kill** or a clean reopen every acknowledged write is there (I2).
//! - After a **power cut** the content is that of some prefix of the order (I3, I4) which holds at
//!   least everything up to the last synced point (I1).
//! - What **expires** has its expiry; a database is compared at the time of its opening
//!   ([`Times`]).
//! - The caller's **commit tag** is that of the last write which is there and had one.
//!
//! Writes below `base` are behind every synced point and will not be looked at again.

use crate::times::{self, Times};
use crate::value::{Bytes, show, show_option};
use std::collections::{BTreeMap, BTreeSet};

/// The content of a database.
pub type State = BTreeMap<Vec<u8>, Bytes>;

/// One key of a write; `None` deletes it.
pub type Change = (Vec<u8>, Option<Bytes>);

/// A content with the commit tag of the last write in it that had one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Keys and values.
    pub state: State,
    /// The commit tag.
    pub commit_tag: Option<Bytes>,
}

/// The most writes with unknown outcome that may stand at once: the states double with each.
pub const MAX_UNKNOWN: usize = 10;

/// What became of the machine before the database was opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was closed, or its process was killed: what reached the kernel is still there.
    Kill,
    /// The power went: only what was synced is sure, and what is there now is on the disk.
    PowerCut,
}

#[derive(Clone, Debug)]
struct Write {
    changes: Vec<Change>,
    commit_tag: Option<Bytes>,
    unknown: bool,
    serial: u64,
}

/// The model of one database.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    base: Content,
    writes: Vec<Write>,
    /// How many of `writes` are synced.
    synced: usize,
    /// `base` with the acknowledged ones of `writes`.
    now: Content,
    serial: u64,
    ever: BTreeSet<Vec<u8>>,
    /// The keys of each write there was, whatever became of it.
    written: Vec<Vec<Vec<u8>>>,
    /// What is known of the time.
    pub times: Times,
}

impl Content {
    fn apply(&mut self, write: &Write) {
        apply(&mut self.state, &write.changes);
        if write.commit_tag.is_some() {
            self.commit_tag.clone_from(&write.commit_tag);
        }
    }

    /// Whether this is what is to be seen of it at a time.
    fn shows(&self, found: &Content, time_ms: u64, times: &Times) -> bool {
        let there = self.state.iter();
        let there = there.filter(|(key, value)| {
            let is_gone = || !found.state.contains_key(*key);
            value.is_there(time_ms) && !(times.may_be_gone(value.expiry_ms) && is_gone())
        });
        self.commit_tag == found.commit_tag && there.eq(found.state.iter())
    }
}

fn apply(state: &mut State, changes: &[Change]) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(state.insert(key.clone(), value.clone())),
            None => drop(state.remove(key)),
        }
    }
}

impl Oracle {
    /// An empty database.
    pub fn new() -> Oracle {
        Oracle::default()
    }

    /// A write that was acknowledged.
    pub fn acknowledged(&mut self, changes: Vec<Change>) {
        self.acknowledged_with(changes, None);
    }

    /// A write with a commit tag that was acknowledged.
    pub fn acknowledged_with(&mut self, changes: Vec<Change>, commit_tag: Option<Bytes>) {
        self.push(changes, commit_tag, false);
        if let Some(write) = self.writes.last() {
            self.now.apply(write);
        }
    }

    /// The keys of each write there was.
    pub fn written(&self) -> &[Vec<Vec<u8>>] {
        &self.written
    }

    /// What is there if every write is in force that was acknowledged.
    pub fn now(&self) -> &State {
        &self.now.state
    }

    /// A write that failed or never returned.
    pub fn unknown(&mut self, changes: Vec<Change>) {
        self.unknown_with(changes, None);
    }

    /// A write with a commit tag that failed or never returned.
    pub fn unknown_with(&mut self, changes: Vec<Change>, commit_tag: Option<Bytes>) {
        self.push(changes, commit_tag, true);
        assert!(
            self.unknowns() <= MAX_UNKNOWN,
            "the history lets too many writes fail"
        );
    }

    fn push(&mut self, changes: Vec<Change>, commit_tag: Option<Bytes>, unknown: bool) {
        self.ever.extend(changes.iter().map(|(key, _)| key.clone()));
        let keys = changes.iter().map(|(key, _)| key.clone());
        self.written.push(keys.collect());
        self.serial += 1;
        self.writes.push(Write {
            changes,
            commit_tag,
            unknown,
            serial: self.serial,
        });
    }

    /// Everything acknowledged so far is synced.
    pub fn synced(&mut self) {
        self.synced = self
            .writes
            .iter()
            .rposition(|w| !w.unknown)
            .map_or(0, |last| last + 1);
        if self.unknowns() == 0 {
            for write in self.writes.drain(..self.synced) {
                self.base.apply(&write);
            }
            self.synced = 0;
        }
    }

    /// The content when no write is unknown; else that without the unknown ones.
    pub fn state(&self) -> &State {
        &self.now.state
    }

    /// A commit tag for the next write.
    pub fn next_commit_tag(&self) -> Bytes {
        format!("mark {}", self.serial + 1).into_bytes().into()
    }

    /// Whether the newest commit tag may be `got` now.
    pub fn allows_commit_tag(&self, got: Option<&[u8]>) -> bool {
        for write in self.writes.iter().rev().filter(|w| w.commit_tag.is_some()) {
            if write.commit_tag.as_deref() == got {
                return true;
            }
            if !write.unknown {
                return false;
            }
        }
        self.base.commit_tag.as_deref() == got
    }

    /// Every key ever written.
    pub fn keys(&self) -> &BTreeSet<Vec<u8>> {
        &self.ever
    }

    /// How many writes have an unknown outcome.
    pub fn unknowns(&self) -> usize {
        self.writes.iter().filter(|w| w.unknown).count()
    }

    /// Whether a write above `base` gave `key` this value, or it has it there.
    pub fn ever_was(&self, key: &[u8], value: &Bytes) -> bool {
        let is_it = |(k, v): &Change| k == key && v.as_ref() == Some(value);
        let mut writes = self.writes.iter();
        let in_base = || self.base.state.get(key) == Some(value);
        writes.any(|write| write.changes.iter().any(is_it)) || in_base()
    }

    /// Whether a read of `key` at this time may answer `got` now.
    pub fn allows(&self, key: &[u8], time_ms: u64, got: Option<&[u8]>) -> bool {
        self.allows_by(key, time_ms, |value| value.map(|value| &value[..]) == got)
    }

    /// Whether what a read of `key` at this time may find has something about it.
    pub fn allows_by(
        &self,
        key: &[u8],
        time_ms: u64,
        is_it: impl Fn(Option<&Bytes>) -> bool,
    ) -> bool {
        let is_it = |value: Option<&Bytes>| is_it(value.filter(|value| value.is_there(time_ms)));
        for write in self.writes.iter().rev() {
            let last = write.changes.iter().rev().find(|(k, _)| k == key);
            if let Some((_, value)) = last {
                if is_it(value.as_ref()) {
                    return true;
                }
                if !write.unknown {
                    return false;
                }
            }
        }
        is_it(self.base.state.get(key))
    }

    /// What is there at this time if no write is unknown.
    pub fn visible(&self, time_ms: u64) -> State {
        times::visible(self.state(), time_ms)
    }

    /// The database was opened again after `ending`, with this time, and holds `found`: checks that
    /// it may, and goes on from there.
    ///
    /// # Errors
    /// Says which keys are wrong and which write each value came from, or that the time is.
    pub fn settle(&mut self, found: &Content, time_ms: u64, ending: Ending) -> Result<(), String> {
        self.times.opened(time_ms)?;
        let floor = match ending {
            Ending::Kill => self.writes.len(),
            Ending::PowerCut => self.synced,
        };
        // Each candidate is a state after the prefix and the unknown writes taken to be in it.
        let mut candidates = vec![(self.base.clone(), Vec::new())];
        for prefix in 0..=self.writes.len() {
            if prefix >= floor {
                let is_it = |c: &Content| c.shows(found, time_ms, &self.times);
                let mut matching = candidates.iter().filter(|(c, _)| is_it(c));
                if let Some((content, taken)) = matching.next() {
                    let taken = matching.next().is_none().then(|| taken.clone());
                    if taken.is_none() || prefix < self.writes.len() {
                        self.times.hides(time_ms);
                    }
                    let content = content.clone();
                    self.go_on(content, prefix, taken, ending);
                    self.forget_gone(&found.state, time_ms);
                    return Ok(());
                }
            }
            let Some(write) = self.writes.get(prefix) else {
                break;
            };
            if write.unknown {
                let without = candidates.clone();
                candidates
                    .iter_mut()
                    .for_each(|(_, taken)| taken.push(prefix));
                candidates
                    .iter_mut()
                    .for_each(|(content, _)| content.apply(write));
                candidates.extend(without);
            } else {
                candidates
                    .iter_mut()
                    .for_each(|(content, _)| content.apply(write));
            }
        }
        Err(self.explain(found, time_ms, floor))
    }

    /// What does not show at a time when it would is gone.
    fn forget_gone(&mut self, found: &State, time_ms: u64) {
        let times = &self.times;
        let is_gone = |key: &Vec<u8>, value: &Bytes| {
            let may_be_gone = times.may_be_gone(value.expiry_ms);
            may_be_gone && value.is_there(time_ms) && !found.contains_key(key)
        };
        for content in [&mut self.base, &mut self.now] {
            content.state.retain(|key, value| !is_gone(key, value));
        }
        for (key, value) in self.writes.iter_mut().flat_map(|write| &mut write.changes) {
            if value.as_ref().is_some_and(|value| is_gone(key, value)) {
                *value = None;
            }
        }
    }

    /// Takes `content` for that after `prefix`. `taken` says which unknown writes are in it, where
    /// only one choice explains it. Choices that differ in what has expired alone are one: then no
    /// later opening has an earlier wall clock.
    fn go_on(
        &mut self,
        content: Content,
        prefix: usize,
        taken: Option<Vec<usize>>,
        ending: Ending,
    ) {
        self.now = content;
        match (ending, taken) {
            (Ending::PowerCut, _) => {
                self.base = self.now.clone();
                self.writes.clear();
                self.synced = 0;
            }
            (Ending::Kill, Some(taken)) => {
                let mut index = 0;
                let synced = self.synced;
                self.synced = 0;
                self.writes.retain_mut(|write| {
                    let keep = !write.unknown || taken.contains(&index);
                    write.unknown = false;
                    self.synced += usize::from(keep && index < synced);
                    index += 1;
                    keep
                });
                debug_assert_eq!(index, prefix);
            }
            (Ending::Kill, None) => {}
        }
    }

    fn explain(&self, found: &Content, time_ms: u64, floor: usize) -> String {
        let mut at_floor = self.base.clone();
        for write in &self.writes[..floor] {
            if !write.unknown {
                at_floor.apply(write);
            }
        }
        let (first, last) = (self.serial - self.writes.len() as u64, self.serial);
        let mut out = format!(
            "no prefix of the writes explains the content: {} keys found; writes {}..={last} are \
             at stake, of which the first {floor} must be there, {} have an unknown outcome",
            found.state.len(),
            first + 1,
            self.unknowns()
        );
        if found.commit_tag != at_floor.commit_tag {
            let (got, sure) = (found.commit_tag.as_deref(), at_floor.commit_tag.as_deref());
            let (got, sure) = (show_option(got), show_option(sure));
            out += &format!("\n  the mark: found {got}; the sure prefix has {sure}");
        }
        let (found, at_floor) = (&found.state, &times::visible(&at_floor.state, time_ms));
        let keys: BTreeSet<_> = found.keys().chain(at_floor.keys()).collect();
        for key in keys {
            let (got, sure) = (found.get(key), at_floor.get(key));
            if got != sure {
                let from = self.origin(key, got.map(|v| &v[..]));
                let touched: Vec<u64> = self.writes_of(key).map(|w| w.serial).collect();
                let ends = [got, sure].map(|value| value.and_then(|value| value.expiry_ms));
                out += &format!(
                    "\n  {}: found {} {from}; the sure prefix has {}; writes {touched:?} touch it; \
                     they expire at {ends:?}, and it is {time_ms}",
                    show(key),
                    show_option(got.map(|v| &v[..])),
                    show_option(sure.map(|v| &v[..])),
                );
            }
        }
        out
    }

    fn writes_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Write> {
        self.writes
            .iter()
            .filter(move |w| w.changes.iter().any(|(k, _)| k == key))
    }

    fn origin(&self, key: &[u8], got: Option<&[u8]>) -> String {
        let from: Vec<u64> = self
            .writes_of(key)
            .filter(|w| {
                w.changes
                    .iter()
                    .any(|(k, v)| k == key && v.as_deref() == got)
            })
            .map(|w| w.serial)
            .collect();
        if !from.is_empty() {
            format!("(of write {from:?})")
        } else if self.base.state.get(key).map(|v| &v[..]) == got {
            "(from before)".to_owned()
        } else {
            "(of NO write)".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn put(key: &str, stamp: u32) -> Change {
        (key.into(), Some(Value::new(stamp, 10).bytes()))
    }

    fn state(changes: &[Change]) -> Content {
        let mut out = Content::default();
        apply(&mut out.state, changes);
        out
    }

    fn marked(changes: &[Change], commit_tag: &str) -> Content {
        Content {
            commit_tag: Some(commit_tag.as_bytes().into()),
            ..state(changes)
        }
    }

    #[test]
    fn a_mark_is_there_if_and_only_if_its_write_is() {
        let mut oracle = Oracle::new();
        oracle.acknowledged_with(vec![put("a", 1)], Some((*b"one").into()));
        oracle.acknowledged(vec![put("b", 2)]);
        oracle.unknown_with(vec![put("c", 3)], Some((*b"two").into()));
        assert!(oracle.allows_commit_tag(Some(b"one")) && oracle.allows_commit_tag(Some(b"two")));
        assert!(!oracle.allows_commit_tag(None));
        let both = [put("a", 1), put("b", 2)];
        let all = [put("a", 1), put("b", 2), put("c", 3)];
        for good in [
            Content::default(),
            marked(&[put("a", 1)], "one"),
            marked(&both, "one"),
            marked(&all, "two"),
        ] {
            assert_eq!(oracle.clone().settle(&good, 0, Ending::PowerCut), Ok(()));
        }
        for bad in [state(&both), marked(&both, "two"), marked(&all, "one")] {
            assert!(oracle.clone().settle(&bad, 0, Ending::PowerCut).is_err());
        }
    }

    #[test]
    fn a_power_cut_may_take_a_suffix_but_not_what_was_synced() {
        let mut oracle = Oracle::new();
        oracle.acknowledged(vec![put("a", 1)]);
        oracle.synced();
        oracle.acknowledged(vec![put("b", 2)]);
        oracle.acknowledged(vec![put("c", 3)]);
        for kept in [&[put("a", 1)][..], &[put("a", 1), put("b", 2)]] {
            assert_eq!(
                oracle.clone().settle(&state(kept), 0, Ending::PowerCut),
                Ok(())
            );
        }
        // A hole, a loss of what was synced, a foreign value.
        for bad in [&[put("a", 1), put("c", 3)][..], &[], &[put("a", 9)]] {
            assert!(
                oracle
                    .clone()
                    .settle(&state(bad), 0, Ending::PowerCut)
                    .is_err()
            );
        }
        assert!(
            oracle
                .settle(&state(&[put("a", 1)]), 0, Ending::Kill)
                .is_err()
        );
    }

    #[test]
    fn what_was_on_the_disk_after_one_power_cut_stays_through_the_next() {
        let mut oracle = Oracle::new();
        oracle.acknowledged(vec![put("a", 1)]);
        oracle.acknowledged(vec![put("b", 2)]);
        oracle
            .settle(&state(&[put("a", 1)]), 0, Ending::PowerCut)
            .unwrap();
        oracle.acknowledged(vec![put("c", 3)]);
        assert!(
            oracle
                .clone()
                .settle(&Content::default(), 0, Ending::PowerCut)
                .is_err()
        );
        assert!(
            oracle
                .settle(&state(&[put("a", 1)]), 0, Ending::PowerCut)
                .is_ok()
        );
    }

    #[test]
    fn an_unknown_batch_is_there_whole_or_not_at_all() {
        let mut oracle = Oracle::new();
        oracle.acknowledged(vec![put("a", 1), put("b", 1)]);
        oracle.unknown(vec![put("a", 2), put("b", 2)]);
        oracle.acknowledged(vec![put("c", 3)]);
        assert!(oracle.allows(b"a", 0, Some(&put("a", 2).1.unwrap())));
        assert!(!oracle.allows(b"a", 0, None));
        let in_it = state(&[put("a", 2), put("b", 2), put("c", 3)]);
        let out_of_it = state(&[put("a", 1), put("b", 1), put("c", 3)]);
        let half = state(&[put("a", 2), put("b", 1), put("c", 3)]);
        assert!(oracle.clone().settle(&in_it, 0, Ending::Kill).is_ok());
        assert!(oracle.clone().settle(&half, 0, Ending::Kill).is_err());
        oracle.settle(&out_of_it, 0, Ending::Kill).unwrap();
        // Once known to be out it never comes back.
        assert!(oracle.settle(&in_it, 0, Ending::Kill).is_err());
    }

    #[test]
    fn a_kill_does_not_make_anything_durable() {
        let mut oracle = Oracle::new();
        oracle.acknowledged(vec![put("a", 1)]);
        oracle
            .settle(&state(&[put("a", 1)]), 0, Ending::Kill)
            .unwrap();
        oracle
            .settle(&Content::default(), 0, Ending::PowerCut)
            .unwrap();
    }
}
