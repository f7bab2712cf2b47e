//! Histories: lists of operations drawn from a seed.
//!
//! An operation holds everything it needs, so a history with operations left out is a history
//! still; that is how a failing one is cut down. Operations on a snapshot or iterator that an
//! earlier, left-out operation would have made do nothing. [`author`] draws them.

pub mod author;

use crate::config::Config;
use crate::value::{Value, show};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::ops::{Bound, Deref};

/// A key. Its `Debug` is for a person.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", show(&self.0))
    }
}

impl Deref for Key {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
/// The bounds of a scan.
pub type Bounds = (Bound<Key>, Bound<Key>);

/// How many snapshots, and how many iterators, a history makes and drops again and again. Behind
/// these slots is one more, [`LONG_SLOT`].
pub const SLOTS: usize = 3;

/// The slot of a snapshot and of an iterator that are held long.
pub const LONG_SLOT: usize = SLOTS;

/// What a scan reads.
#[derive(Clone, Debug)]
pub enum Range {
    /// Everything.
    All,
    /// The keys within bounds.
    Within(Bounds),
    /// The keys with a prefix.
    Prefix(Key),
}

/// How a database goes away before it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// `close`.
    Close,
    /// The handle is dropped.
    Drop,
    /// The process is killed.
    Kill,
    /// The power goes; the number draws what is kept.
    PowerCut(u64),
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// `put` or `delete` with the options' durability.
    Set(Key, Option<Value>),
    /// A batch; `Some(sync)` names the durability.
    Write(Vec<(Key, Option<Value>)>, Option<bool>),
    /// `delete_range`, or a batch of that and what comes after it.
    DeleteRange(Range, Vec<(Key, Option<Value>)>),
    /// A batch of range deletes, and of what comes after them.
    DeleteRanges(Vec<Range>, Vec<(Key, Option<Value>)>),
    /// `get` and `contains_key`.
    Get(Key),
    /// `multi_get`.
    MultiGet(Vec<Key>),
    /// A scan to its end: forward, backward, or from both ends in turn by the seed.
    Scan(Range, Walk),
    /// Makes a snapshot.
    Snapshot(usize),
    /// Reads a snapshot: keys and a scan.
    ReadSnapshot(usize, Vec<Key>, Range, Walk),
    /// Drops a snapshot.
    DropSnapshot(usize),
    /// Makes an iterator, and perhaps seeks it.
    Iterate(usize, Range, Option<Key>),
    /// Moves an iterator this often, by this walk.
    Advance(usize, usize, Walk),
    /// Moves the front of an iterator.
    Seek(usize, Key),
    /// Says an iterator how many entries are wanted.
    Expect(usize, usize),
    /// Makes an iterator of a snapshot: the slot of this, and of that.
    IterateSnapshot(usize, usize, Range),
    /// Drops an iterator.
    DropIterator(usize),
    /// Makes an iterator release its view, or all of them.
    Release(Option<usize>),
    /// `sync`.
    Sync,
    /// `flush`.
    Flush,
    /// `compact`.
    Compact,
    /// `compact_range`.
    CompactRange(Range),
    /// `ingest_sorted`, with keys that ascend; with a commit tag if so.
    Ingest(Vec<(Key, Option<Value>)>, bool),
    /// `wait_until_idle`.
    Quiesce,
    /// `collect_garbage`.
    CollectGarbage,
    /// `approximate_size` and `split_key`.
    Measure(Range),
    /// `options`, `stats`, `garbage` and `recovery`.
    Look,
    /// A call that must be refused; the number says which.
    Refused(u32),
    /// Sets the wall clock, and moves both clocks on.
    Clock {
        /// Milliseconds since 1970.
        wall_ms: u64,
        /// Milliseconds that pass.
        forward_ms: u64,
    },
    /// Leaves this many bytes of space on the disk, or all of it.
    Space(Option<u64>),
    /// Lets background workers take this many steps.
    Step(usize),
    /// Something in the transaction of a slot.
    Transaction(usize, TxOp),
    /// Something with keyspaces.
    Keyspaces(SpaceOp),
    /// Something with checkpoints, backups and exports.
    Copy(CopyOp),
    /// Something with expiry.
    Expiry(ExpiryOp),
    /// Ends the database and opens it again, with new options if so.
    Reopen(Exit, Option<Box<Config>>),
}

/// An operation of a transaction.
#[derive(Clone, Debug)]
pub enum TxOp {
    /// Begins it, in the place of the one before: serializable, or with a snapshot's isolation.
    Begin(bool),
    /// `get`, or `get_for_update`.
    Get(Key, bool),
    /// `get`, or `get_for_update`, of this many keys that begin with the given one.
    GetMany(Key, u16, bool),
    /// A scan to its end.
    Scan(Range, Walk),
    /// The first key of a range is taken and deleted, up to this many times.
    Drain(Range, u16),
    /// `put` or `delete`.
    Set(Key, Option<Value>),
    /// `delete_range`.
    DeleteRange(Range),
    /// `expire`: how long the value lives from the commit on, in milliseconds.
    Expire(Key, u64),
    /// `clear_ttl`.
    Persist(Key),
    /// `set_savepoint`.
    Savepoint,
    /// `rollback_to_savepoint`.
    Rollback,
    /// `commit`.
    Commit,
}

/// An operation on checkpoints, backups and exports.
#[derive(Clone, Debug)]
pub enum CopyOp {
    /// `Db::checkpoint`, in a new directory.
    Checkpoint,
    /// `Repository::back_up`.
    BackUp,
    /// `Repository::prune`: this many points are kept.
    Prune(usize),
    /// `export` of a range.
    Export(Source, Range),
    /// `import` of one of the exports, into a keyspace if there is a second number.
    Import(usize, Option<usize>),
}

/// What is exported.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The default keyspace.
    Own,
    /// The keyspace of this number.
    Space(usize),
    /// What a snapshot shows of the default keyspace, whatever was written since.
    Snapshot(usize),
}

/// An operation on keyspaces, which are numbers of names ([`crate::spaces::NAMES`]).
#[derive(Clone, Debug)]
pub enum SpaceOp {
    /// Makes one, if it is not there.
    Make(usize),
    /// Drops one.
    Drop(usize),
    /// Empties one.
    Empty(usize),
    /// Gives one another name.
    Rename(usize, usize),
    /// A batch over several, and the default one; `true`: durable.
    Write(Vec<(Option<usize>, Key, Option<Value>)>, bool),
    /// Makes one, writes these to it and drops it, so often.
    Churn(usize, Vec<(Key, Option<Value>)>, u16),
    /// `delete_range` in one.
    DeleteRange(usize, Range),
    /// `ingest_sorted` into one.
    Ingest(usize, Vec<(Key, Option<Value>)>),
    /// Reads one: keys and a scan.
    Read(usize, Vec<Key>, Range, Walk),
    /// Makes an iterator.
    Iterate(usize, Range),
    /// Moves it.
    Advance(usize, Walk),
}

/// An operation that has to do with expiry and time; spans are in milliseconds.
#[derive(Clone, Debug)]
pub enum ExpiryOp {
    /// A batch whose values live so long, where they say nothing.
    Write(Vec<(Key, Option<Value>)>, u64),
    /// `expire`, in a keyspace if there is a number.
    Expire(Option<usize>, Key, u64),
    /// `expire_at` with a time that is so far from now.
    ExpireAt(Option<usize>, Key, i64),
    /// `clear_ttl`.
    Persist(Option<usize>, Key),
    /// `increment`.
    Increment(Key, i64),
    /// `update`: appends a byte to a value, or makes one of that byte.
    Append(Key),
    /// `compare_and_swap`; `true`: the value that is there is expected.
    Swap(Key, Option<Value>, bool),
    /// Changes how long values live by default in a keyspace.
    Default(usize, u64),
    /// A span passes, in which the background works.
    Pass(u64, Wall),
}

/// What happens to the wall clock.
#[derive(Clone, Copy, Debug)]
pub enum Wall {
    /// It goes on.
    GoesOn,
    /// It is set so far ahead of the time of the database.
    Ahead(u64),
    /// It is set so far back.
    Behind(u64),
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug)]
pub enum Walk {
    /// From the first key.
    Forward,
    /// From the last key.
    Backward,
    /// Each step from one of both ends, as the bits say.
    Both(u64),
}

impl Walk {
    /// Whether step `n` is taken from the back.
    pub fn is_back(self, n: usize) -> bool {
        match self {
            Walk::Forward => false,
            Walk::Backward => true,
            Walk::Both(bits) => bits >> (n % 64) & 1 == 1,
        }
    }
}

/// What a history may contain.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Operations.
    pub steps: usize,
    /// Reads, snapshots and iterators among the writes.
    pub reads: bool,
    /// Exits other than `Close`, which move the database to another disk.
    pub crashes: bool,
    /// Reopening at all.
    pub reopens: bool,
    /// Options under which a few writes lead to a flush, and a few flushes to a merge.
    pub busy: bool,
}

/// A history and the options it starts with.
#[derive(Clone, Debug)]
pub struct History {
    /// What it was drawn from.
    pub seed: u64,
    /// The first options.
    pub config: Config,
    /// Whether nothing is in memory, so that scans take their other way.
    pub cold: bool,
    /// Whether anything may expire, so that the time matters.
    pub expires: bool,
    /// The operations.
    pub ops: Vec<Op>,
}

impl History {
    /// The same operations under other options: first contrasting ones, then busy ones of its own.
    /// Every answer must be the same.
    pub fn variants(&self) -> [History; 2] {
        let mut contrast = self.clone();
        contrast.config = self.config.contrast();
        contrast.cold = !self.cold;
        let mut busy = self.clone();
        let mut rng = SmallRng::seed_from_u64(self.seed ^ 0xb051);
        busy.config = Config::draw(&mut rng, true).with_ttl_of(&self.config);
        busy.cold = rng.random();
        let reopened = contrast.ops.iter_mut().zip(&mut busy.ops);
        for (contrasting, of_its_own) in reopened {
            if let Op::Reopen(_, Some(config)) = contrasting {
                **config = config.contrast();
            }
            if let Op::Reopen(_, Some(config)) = of_its_own {
                **config = Config::draw(&mut rng, true).with_ttl_of(config);
            }
        }
        let mut variants = [contrast, busy];
        for history in variants.iter_mut().filter(|history| history.expires) {
            history.for_hours();
        }
        variants
    }

    /// Has options under which hours pass quickly.
    fn for_hours(&mut self) {
        self.config = self.config.clone().for_hours();
        for op in &mut self.ops {
            if let Op::Reopen(_, Some(config)) = op {
                **config = config.clone().for_hours();
            }
        }
    }

    /// Kills in the place of power cuts: how much a cut takes depends on the options.
    #[must_use]
    pub fn without_power_cuts(mut self) -> History {
        for op in &mut self.ops {
            if let Op::Reopen(exit @ Exit::PowerCut(_), _) = op {
                *exit = Exit::Kill;
            }
        }
        self
    }
}

impl Range {
    /// The range as bounds.
    pub fn bounds(&self) -> Bounds {
        match self {
            Range::All => (Bound::Unbounded, Bound::Unbounded),
            Range::Within(bounds) => bounds.clone(),
            Range::Prefix(prefix) => {
                let mut end = prefix.clone();
                while end.last() == Some(&0xff) {
                    end.0.pop();
                }
                let above = match end.0.last_mut() {
                    Some(last) => {
                        *last += 1;
                        Bound::Excluded(end)
                    }
                    None => Bound::Unbounded,
                };
                (Bound::Included(prefix.clone()), above)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeBounds;

    #[test]
    fn a_seed_draws_the_same_history_again() {
        let mix = Mix {
            steps: 300,
            reads: true,
            crashes: true,
            reopens: true,
            busy: false,
        };
        let (a, b) = (History::draw(5, mix), History::draw(5, mix));
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
        assert_ne!(format!("{a:?}"), format!("{:?}", History::draw(6, mix)));
        let has = |f: fn(&Op) -> bool| a.ops.iter().any(f);
        assert!(has(|op| matches!(op, Op::Advance(..))));
        assert!(has(|op| matches!(op, Op::Expect(..))));
        assert!(has(|op| matches!(op, Op::Set(_, None))));
        assert!(has(|op| matches!(op, Op::Reopen(..))));
        assert!(has(|op| matches!(op, Op::Ingest(..))));
    }

    #[test]
    fn variants_differ_in_their_options_alone() {
        let mix = Mix {
            steps: 300,
            reads: true,
            crashes: true,
            reopens: true,
            busy: false,
        };
        let drawn = History::draw(5, mix).without_power_cuts();
        let plain = |history: &History| -> Vec<String> {
            let without_options = |op: &Op| match op {
                Op::Reopen(exit, config) => format!("{exit:?} {}", config.is_some()),
                op => format!("{op:?}"),
            };
            history.ops.iter().map(without_options).collect()
        };
        for variant in drawn.variants() {
            assert_eq!(plain(&variant), plain(&drawn));
            assert_ne!(
                format!("{:?}", variant.config),
                format!("{:?}", drawn.config)
            );
        }
        assert!(!plain(&drawn).iter().any(|op| op.contains("PowerCut")));
    }

    #[test]
    fn a_prefix_of_ff_bytes_has_no_upper_bound() {
        let ff = Range::Prefix(Key(b"\xff\xff".to_vec())).bounds();
        assert!(
            ff.contains(&Key(b"\xff\xff\xff".to_vec())) && !ff.contains(&Key(b"\xff".to_vec()))
        );
        let a = Range::Prefix(Key(b"a\xff".to_vec())).bounds();
        assert!(a.contains(&Key(b"a\xff\xff".to_vec())) && !a.contains(&Key(b"b".to_vec())));
    }
}
