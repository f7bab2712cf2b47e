//! What a run does with keyspaces.

use super::time::{add, entries, find};
use super::{Held, HeldSnapshot, HeldSpace, Interrupt, Runner};
use crate::history::{Key, Range, SpaceOp, Walk};
use crate::oracle::Change;
use crate::spaces::{self, NAMES, key_in};
use crate::value::Value;
use unikv::{Batch, Compression, ErrorKind, KeyspaceOptions};

impl Runner {
    /// One operation on keyspaces. While the outcome of a write is unknown nobody knows which
    /// there are.
    pub(super) fn space_op(&mut self, op: &SpaceOp) -> Result<(), Interrupt> {
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        match op {
            SpaceOp::Make(name) => self.make_space(NAMES[*name]),
            SpaceOp::Drop(name) => self.drop_space(NAMES[*name]),
            SpaceOp::Empty(name) => self.empty_space(NAMES[*name]),
            SpaceOp::Rename(from, to) => self.rename_space(NAMES[*from], NAMES[*to]),
            SpaceOp::Write(changes, sync) => self.write_to_spaces(changes, *sync),
            SpaceOp::Churn(name, changes, often) => {
                let changes: Vec<_> = changes
                    .iter()
                    .map(|(key, value)| (Some(*name), key.clone(), *value))
                    .collect();
                let before = self.oracle.unknowns();
                for _ in 0..*often {
                    self.make_space(NAMES[*name])?;
                    self.write_to_spaces(&changes, false)?;
                    self.drop_space(NAMES[*name])?;
                    // What fails would fail again and again: the oracle takes few such calls.
                    if self.oracle.unknowns() > before {
                        break;
                    }
                }
                Ok(())
            }
            SpaceOp::DeleteRange(name, range) => self.delete_range_in_space(*name, range),
            SpaceOp::Ingest(name, changes) => self.ingest_into_space(NAMES[*name], changes),
            SpaceOp::Read(name, keys, range, walk) => {
                self.read_space(NAMES[*name], keys, range, *walk)
            }
            SpaceOp::Iterate(name, range) => {
                self.space_iterator = self.iterate_space(NAMES[*name], range);
                Ok(())
            }
            SpaceOp::Advance(steps, walk) => self.advance_in_space(*steps, *walk),
        }
    }

    fn is_there(&self, name: &str) -> bool {
        spaces::is_there(self.oracle.state(), name)
    }

    /// A call that makes these changes, durably where it `syncs`. Whether it has worked.
    pub(super) fn change(
        &mut self,
        what: &str,
        changes: Vec<Change>,
        call: impl FnOnce(&Runner) -> unikv::Result<()>,
        syncs: bool,
    ) -> Result<bool, Interrupt> {
        let under_way = (changes, None);
        self.report(Some(&under_way));
        let result = call(self);
        let (changes, _) = under_way;
        match result {
            Ok(()) => {
                self.oracle.acknowledged(changes);
                if syncs {
                    self.oracle.synced();
                }
                Ok(true)
            }
            Err(error) => {
                self.oracle.unknown(changes);
                self.report(None);
                self.may::<()>(what, Err(error))?;
                if self.is_short_of_space() {
                    self.check_all()?
                } else {
                    self.recover_from_fault()?
                }
                Ok(false)
            }
        }
    }

    fn make_space(&mut self, name: &str) -> Result<(), Interrupt> {
        let options = match name {
            "b" => KeyspaceOptions::default().compression(Compression::Lz4),
            "c" => KeyspaceOptions::default().compression(Compression::zstd(3)),
            _ => KeyspaceOptions::default(),
        };
        let call = |runner: &Runner| {
            let made = runner.db().keyspace(name, options.clone());
            made.map(drop)
        };
        if self.is_there(name) {
            self.change("keyspace", Vec::new(), call, false)?
        } else {
            self.change("keyspace", vec![spaces::present(name, None)], call, true)?
        };
        Ok(())
    }

    fn drop_space(&mut self, name: &str) -> Result<(), Interrupt> {
        let Some(keyspace) = self.db().find_keyspace(name) else {
            assert!(!self.is_there(name), "the keyspace {name} is not there");
            return Ok(());
        };
        assert!(self.is_there(name), "the keyspace {name} is there");
        let mut changes = spaces::emptied(self.oracle.state(), name);
        changes.push(spaces::absent(name));
        let handle = keyspace.clone();
        if self.change("drop", changes, move |_| handle.drop_keyspace(), true)? {
            assert!(spaces::is_gone(&keyspace.get("key")), "a get after a drop");
            let entry = keyspace.iter().next().transpose();
            assert!(spaces::is_gone(&entry), "a scan after a drop");
            let put = keyspace.put("key", "value");
            assert!(spaces::is_gone(&put), "a put after a drop: {put:?}");
        }
        Ok(())
    }

    fn empty_space(&mut self, name: &str) -> Result<(), Interrupt> {
        let Some(keyspace) = self.db().find_keyspace(name) else {
            return Ok(());
        };
        let changes = spaces::emptied(self.oracle.state(), name);
        self.change("truncate", changes, |_| keyspace.truncate(), true)?;
        Ok(())
    }

    fn rename_space(&mut self, from: &str, to: &str) -> Result<(), Interrupt> {
        let Some(keyspace) = self.db().find_keyspace(from) else {
            return Ok(());
        };
        if from != to && self.is_there(to) {
            let error = keyspace.rename(to).expect_err("a name that is taken");
            // A failing disk may be noticed before the name.
            return match error.kind() {
                ErrorKind::InvalidArgument => Ok(()),
                _ => self.may::<()>("rename", Err(error)).map(drop),
            };
        }
        let state = self.oracle.state();
        let mut changes = spaces::emptied(state, from);
        changes.push(spaces::absent(from));
        let present = state.get(&spaces::presence(from)).cloned();
        changes.push((spaces::presence(to), present));
        let held = spaces::within(state, from, 0).into_iter();
        changes.extend(held.map(|(key, value)| (key_in(to, &key), Some(value))));
        self.change("rename", changes, |_| keyspace.rename(to), true)?;
        Ok(())
    }

    /// A batch over several keyspaces, of which those that are not there are left out.
    fn write_to_spaces(
        &mut self,
        changes: &[(Option<usize>, Key, Option<Value>)],
        sync: bool,
    ) -> Result<(), Interrupt> {
        let (mut batch, mut known) = (Batch::new(), Vec::new());
        for (name, key, value) in changes {
            let name = name.map(|name| NAMES[name]);
            let Some(keyspace) = find(self.db(), name) else {
                continue;
            };
            add(&mut batch, keyspace.as_ref(), key, *value);
            let stored = value.map(|value| self.stored(keyspace.as_ref(), value));
            let whole = name.map_or(key.0.clone(), |name| key_in(name, key));
            known.push((whole, stored));
        }
        let syncs = sync || self.config.syncs_every_write();
        let write = |runner: &Runner| {
            if sync {
                runner.db().write_with(&batch, unikv::Durability::Sync)
            } else {
                runner.db().write(&batch)
            }
        };
        self.change("a write", known, write, syncs && !batch.is_empty())?;
        Ok(())
    }

    fn ingest_into_space(
        &mut self,
        name: &str,
        changes: &[(Key, Option<Value>)],
    ) -> Result<(), Interrupt> {
        let Some(keyspace) = self.db().find_keyspace(name) else {
            return Ok(());
        };
        let stored = |value: &Option<Value>| value.map(|value| self.stored(Some(&keyspace), value));
        let changes: Vec<Change> = changes
            .iter()
            .map(|(key, value)| (key.0.clone(), stored(value)))
            .collect();
        let known = changes.iter();
        let known = known.map(|(key, value)| (key_in(name, key), value.clone()));
        let ingest = |_: &Runner| {
            let count = keyspace.ingest_sorted(entries(&changes), None)?;
            assert_eq!(count, changes.len() as u64, "entries ingested");
            Ok(())
        };
        self.change("ingest", known.collect(), ingest, !changes.is_empty())?;
        Ok(())
    }

    fn read_space(
        &mut self,
        name: &str,
        keys: &[Key],
        range: &Range,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let Some(keyspace) = self.db().find_keyspace(name) else {
            assert!(!self.is_there(name), "the keyspace {name} is not there");
            return Ok(());
        };
        for key in keys {
            let got = self.must("get", keyspace.get(key))?;
            let whole = key_in(name, key);
            self.check_key("get", &whole, got.as_deref());
            self.ttl(&whole)?;
        }
        let held = spaces::within(self.oracle.state(), name, self.time());
        self.scan_of(&keyspace, &held, range, walk)
    }

    fn iterate_space(&self, name: &str, range: &Range) -> Option<HeldSpace> {
        let all = spaces::Held::all(self.db()).into_iter();
        let of = all.into_iter().find(|held| held.name == name)?;
        let state = spaces::within(self.oracle.state(), name, self.time());
        let held = Held::of(&of.keyspace, &state, range);
        Some(HeldSpace { of, held })
    }

    /// Goes on with an iterator of a keyspace, which fails if that is gone.
    fn advance_in_space(&mut self, steps: usize, walk: Walk) -> Result<(), Interrupt> {
        let Some(mut space) = self.space_iterator.take() else {
            return Ok(());
        };
        if space.of.is_gone() {
            let next = space.held.iter.next().transpose();
            assert!(spaces::is_gone(&next), "a scan of what is gone: {next:?}");
            return Ok(());
        }
        self.follow(&mut space.held, steps, walk)?;
        self.space_iterator = Some(space);
        Ok(())
    }

    /// What a snapshot shows of keyspaces: those of its moment, unless they are gone.
    pub(super) fn compare_spaces(
        &self,
        snapshot: &HeldSnapshot,
        range: &Range,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        for space in &snapshot.spaces {
            let then = snapshot.snapshot.keyspace(&space.keyspace);
            if space.is_gone() {
                let got = then.get("key");
                assert!(spaces::is_gone(&got), "a snapshot of what is gone: {got:?}");
                continue;
            }
            let state = spaces::within(&snapshot.state, &space.name, snapshot.time_ms);
            self.scan_of(&then, &state, range, walk)?;
        }
        Ok(())
    }
}
