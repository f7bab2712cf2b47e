//! The reads of a run: each answer is compared with the oracle.

mod held;

use super::{Held, Interrupt, Runner};
use crate::history::{Key, Range, Walk};
use crate::oracle::State;
use crate::spaces;
use crate::value::{Bytes, show, show_option};
use crate::verify;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Bound;
use unikv::{Error, Readable};

/// The error of the engine in that of a stream.
#[expect(
    clippy::panic,
    reason = "a stream must fail with an error of the engine"
)]
fn engine_error(error: io::Error) -> Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let inner: Option<&Error> = inner;
    inner.cloned().unwrap_or_else(|| panic!("{error:?}"))
}

/// How far a cursor is moved.
const CURSOR_STEPS: usize = 12;

impl Runner {
    pub(super) fn get(&self, key: &[u8]) -> Result<(), Interrupt> {
        let got = self.must("get", spaces::get(self.db(), key))?;
        self.check_key("get", key, got.as_deref());
        if !spaces::is_own(key) {
            return Ok(());
        }
        let there = self.must("contains_key", self.db().contains_key(key))?;
        if self.oracle.unknowns() == 0 {
            assert_eq!(there, got.is_some(), "contains_key of {}", show(key));
        }
        let len = self.must("value_len", self.db().value_len(key))?;
        if self.oracle.unknowns() == 0 {
            let wanted = got.as_ref().map(|value| value.len());
            assert_eq!(len, wanted, "value_len of {}", show(key));
            return self.parts_of(self.db(), key, got.as_deref());
        }
        self.ttl(key)
    }

    /// How long a value lives, where the time matters.
    pub(super) fn ttl(&self, key: &[u8]) -> Result<(), Interrupt> {
        if !self.oracle.times.matters {
            return Ok(());
        }
        let time_ms = self.time();
        let ttl = self.must("ttl", spaces::ttl(self.db(), key))?;
        let end = ttl.map(|ttl| spaces::expiry(ttl, time_ms));
        let is_it = |value: Option<&Bytes>| value.map(|value| value.expiry_ms) == end;
        assert!(
            self.oracle.allows_by(key, time_ms, is_it),
            "ttl of {} is {ttl:?} at {time_ms}, but {:?} was written last",
            show(key),
            self.oracle.state().get(key)
        );
        Ok(())
    }

    /// Reads a part of a value, and all of it as a stream.
    fn parts_of(
        &self,
        from: &impl Readable,
        key: &[u8],
        want: Option<&[u8]>,
    ) -> Result<(), Interrupt> {
        let len = want.map_or(0, <[u8]>::len);
        // Any place of it, without a draw.
        let start = self.step.wrapping_mul(0x9e37_79b9) % (len + 2);
        let range = start..start + 1 + self.step % 700;
        let part = self.must("get_range", from.get_range(key, range.clone()))?;
        let wanted = want.map(|want| &want[start.min(len)..range.end.min(len)]);
        assert!(
            part.as_deref() == wanted,
            "the bytes {range:?} of {}: {}, not {}",
            show(key),
            show_option(part.as_deref()),
            show_option(wanted)
        );
        let Some(mut reader) = self.must("get_reader", from.get_reader(key))? else {
            assert!(want.is_none(), "no reader of {}", show(key));
            return Ok(());
        };
        let mut read = Vec::new();
        let done = reader.seek(SeekFrom::Start(start as u64));
        let done = done.and_then(|_| reader.read_to_end(&mut read));
        self.must("a read of a stream", done.map_err(engine_error))?;
        let wanted = want.map(|want| &want[start.min(len)..]);
        assert!(
            wanted == Some(&read[..]),
            "the stream of {} from {start} on: {}, not {}",
            show(key),
            show(&read),
            show_option(wanted)
        );
        Ok(())
    }

    pub(super) fn multi_get(&self, keys: &[Key]) -> Result<(), Interrupt> {
        let got = self.must("multi_get", self.db().multi_get(keys))?;
        assert_eq!(got.len(), keys.len());
        for (key, got) in keys.iter().zip(&got) {
            self.check_key("multi_get", key, got.as_deref());
        }
        Ok(())
    }

    /// Makes an answer part of [`Runner::answers`].
    /// Where values expire it depends on the options what time it is, and so the answers do.
    pub(super) fn note(&self, bytes: Option<&[u8]>) {
        if self.oracle.times.matters {
            return;
        }
        const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |sum: u64, word: u64| (sum ^ word).rotate_left(29).wrapping_mul(PRIME);
        let len = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        let mut sum = mix(self.answers.get(), len);
        for chunk in bytes.unwrap_or_default().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            sum = mix(sum, u64::from_le_bytes(word));
        }
        self.answers.set(sum);
    }

    fn note_pair(&self, pair: Option<(&[u8], &[u8])>) {
        self.note(pair.map(|(key, _)| key));
        self.note(pair.map(|(_, value)| value));
    }

    pub(super) fn check_key(&self, what: &str, key: &[u8], got: Option<&[u8]>) {
        self.note(got);
        let time_ms = self.time();
        assert!(
            self.oracle.allows(key, time_ms, got),
            "{what} of {} answers {} at {time_ms}, but {:?} was written last",
            show(key),
            show_option(got),
            self.oracle.state().get(key),
        );
    }

    pub(super) fn scan(&self, range: &Range, walk: Walk) -> Result<(), Interrupt> {
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        self.scan_of(
            self.db(),
            &spaces::own(self.oracle.state(), self.time()),
            range,
            walk,
        )
    }

    /// Takes all entries of `range` with an iterator, and moves a cursor about from the first one.
    pub(super) fn scan_of(
        &self,
        from: &impl Readable,
        state: &State,
        range: &Range,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let mut held = Held::of(from, state, range);
        let most = held.left.len() + 1;
        self.follow(&mut held, most, walk)?;
        match held.pairs.first() {
            Some((key, _)) => self.walk_cursor(from, state, key, walk),
            None => Ok(()),
        }
    }

    /// Moves a cursor to and fro from `key` on, and compares each step with what is wanted.
    fn walk_cursor(
        &self,
        from: &impl Readable,
        state: &State,
        key: &[u8],
        walk: Walk,
    ) -> Result<(), Interrupt> {
        let mut cursor = from.cursor();
        let mut want = Some(key);
        let mut moved = self.must("seek of a cursor", cursor.seek(key))?;
        for n in 0..CURSOR_STEPS {
            assert_eq!(
                (moved, cursor.key()),
                (want.is_some(), want),
                "step {n} of a cursor"
            );
            if n % 3 == 0 {
                let value = self.must("value of a cursor", cursor.value())?;
                let wanted = want.and_then(|key| state.get(key)).map(|value| &value[..]);
                assert_eq!(
                    value.as_deref(),
                    wanted,
                    "the value at step {n} of a cursor"
                );
            }
            let Some(at) = want else {
                return Ok(());
            };
            let (below, above) = (Bound::Excluded(at), Bound::Excluded(at));
            let (step, next) = if walk.is_back(n) {
                let mut before = state.range::<[u8], _>((Bound::Unbounded, below));
                (cursor.prev(), before.next_back())
            } else {
                let mut after = state.range::<[u8], _>((above, Bound::Unbounded));
                (cursor.next(), after.next())
            };
            moved = self.must("a step of a cursor", step)?;
            want = next.map(|(key, _)| &key[..]);
        }
        Ok(())
    }

    /// Takes `steps` steps and compares each with what is wanted.
    pub(super) fn follow(
        &self,
        held: &mut Held,
        steps: usize,
        walk: Walk,
    ) -> Result<(), Interrupt> {
        for n in 0..steps {
            let back = walk.is_back(n);
            let (got, want) = if back {
                (held.iter.next_back(), held.left.next_back())
            } else {
                (held.iter.next(), held.left.next())
            };
            let got = self.must("a step of an iterator", got.transpose())?;
            let got = got.as_ref().map(|(key, value)| (&key[..], &value[..]));
            let want = want.map(|n| &held.pairs[n]);
            let want = want.map(|(key, value)| (&key[..], &value[..]));
            assert!(
                got == want,
                "step {n} ({}) of a scan: got {}, want {}",
                if back { "back" } else { "forward" },
                verify::show_pair(got),
                verify::show_pair(want)
            );
            self.note_pair(got);
        }
        Ok(())
    }

    /// Every key by `get` and by a scan both ways, whatever is unknown.
    pub fn check_all(&self) -> Result<(), Interrupt> {
        for key in self.oracle.keys() {
            self.get(key)?;
        }
        let forward = self.must("a scan", spaces::whole(self.db(), false))?;
        let backward = self.must("a scan", spaces::whole_back(self.db()))?;
        verify::same_pairs("backward scan", &backward, &forward);
        let commit_tag = self.db().commit_tag();
        self.note(commit_tag.as_deref());
        let shown = show_option(commit_tag.as_deref());
        let allowed = self.oracle.allows_commit_tag(commit_tag.as_deref());
        assert!(allowed, "the mark is {shown}");
        for key in self.oracle.keys() {
            self.check_key("a scan", key, forward.get(key).map(|v| &v[..]));
        }
        let foreign = forward
            .keys()
            .find(|key| !self.oracle.keys().contains(*key));
        assert!(
            foreign.is_none(),
            "a scan yields {}, never written",
            show(foreign.unwrap())
        );
        Ok(())
    }
}
