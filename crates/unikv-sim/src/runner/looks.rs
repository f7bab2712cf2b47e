//! What else a caller may ask of an open database: figures, estimates, and what must be refused.

use super::{DIR, Interrupt, Runner, env};
use crate::history::Range;
use std::ops::RangeBounds;
use unikv::vfs::Env;
use unikv::{Batch, Db, Error, ErrorKind, Options};

/// The longest key that is allowed.
const MOST_KEY_BYTES: usize = 64 << 10;

/// How many kinds of calls are refused.
pub const REFUSALS: u32 = 8;

impl Runner {
    /// Estimates of a range: a part is not more than the whole, nor the whole far more than what is
    /// there. (A large value that one partition has merged and another not yet counts twice.)
    pub(super) fn measure(&self, range: &Range) -> Result<(), Interrupt> {
        let bounds = range.bounds();
        let size = self.db().approximate_size(bounds.clone());
        let size = self.must("approximate_size", size)?;
        let all = self.db().approximate_size(..);
        let all = self.must("approximate_size", all)?;
        let disk = self.db().stats().disk_bytes;
        assert!(
            size <= all && all <= 2 * disk,
            "{size} bytes in a range of {all}, {disk} on disk"
        );
        let middle = self.must("split_key", self.db().split_key(bounds.clone()))?;
        if let Some(middle) = middle {
            let bounds = (
                bounds.0.as_ref().map(|key| &key[..]),
                bounds.1.as_ref().map(|key| &key[..]),
            );
            assert!(
                RangeBounds::<[u8]>::contains(&bounds, &middle[..]),
                "the middle is outside of the range"
            );
        }
        Ok(())
    }

    /// Options, figures, garbage and the report of the opening.
    pub(super) fn look(&self) -> Result<(), Interrupt> {
        let (options, wanted) = (self.db().options(), &self.config);
        assert_eq!(
            (options.memtable_bytes, options.unsorted_bytes),
            (wanted.memtable_bytes, wanted.unsorted_bytes)
        );
        assert_eq!(
            (options.partition_bytes, options.inline_value_bytes),
            (wanted.partition_bytes, wanted.inline_value_bytes)
        );
        assert_eq!(
            (options.clustering, options.block_bytes),
            (wanted.clustering, wanted.block_bytes)
        );
        let stats = self.db().stats();
        assert_eq!(stats.memory.budget, wanted.memory_budget, "the budget");
        let first = stats.partitions.first().map(|p| &p.start[..]);
        assert_eq!(
            first,
            Some(&b""[..]),
            "the first partition begins below every key"
        );
        for pair in stats.partitions.windows(2) {
            let end = pair[0].end.as_deref();
            // What is gone may lie in several partitions, whose numbers are not shown.
            if pair.iter().any(|partition| partition.keyspace.is_none()) {
                continue;
            }
            let meets = if pair[0].keyspace == pair[1].keyspace {
                end == Some(&pair[1].start[..])
            } else {
                end.is_none() && pair[1].start.is_empty()
            };
            assert!(meets, "partitions have a gap or overlap");
        }
        assert!(stats.partitions.last().is_some_and(|p| p.end.is_none()));
        let garbage = self.db().garbage();
        assert_eq!(garbage.max_space_amp, wanted.max_space_amp);
        let bytes: u64 = garbage.files.iter().map(|file| file.file_bytes).sum();
        let known = garbage.files.len();
        assert_eq!(
            (known, bytes),
            (stats.record_files, stats.record_file_bytes)
        );
        let _opened_in = self.db().recovery().elapsed;
        Ok(())
    }

    /// Calls that must be refused, and change nothing.
    pub(super) fn refused(&self, n: u32) -> Result<(), Interrupt> {
        let (db, long) = (self.db(), vec![b'k'; MOST_KEY_BYTES + 1]);
        let env = || env(&self.vfs, &self.runtime);
        let (what, result, wanted) = match n % REFUSALS {
            0 => (
                "a long key",
                db.put(&long, b"v"),
                ErrorKind::InvalidArgument,
            ),
            1 => (
                "get of a long key",
                db.get(&long).map(drop),
                ErrorKind::InvalidArgument,
            ),
            2 => {
                let mut batch = Batch::new();
                batch.put(b"refused", b"v").delete(&long);
                let result = db.write(&batch);
                (
                    "a batch with a long key",
                    result,
                    ErrorKind::InvalidArgument,
                )
            }
            3 => {
                let unsorted = [(b"refused 2", Some("v")), (b"refused 1", Some("v"))];
                let result = db.ingest_sorted(unsorted.map(unikv::Result::Ok), Some(b"refused"));
                (
                    "an unsorted ingest",
                    result.map(drop),
                    ErrorKind::InvalidArgument,
                )
            }
            4 => {
                // The error of a stream comes as it was: here one of the engine.
                let error: Option<Error> = db.get(&long).err();
                let stream = [Ok((b"refused", Some("v"))), Err(error.expect("an error"))];
                let result = db.ingest_sorted(stream, Some(b"refused"));
                (
                    "an ingest of a failing stream",
                    result.map(drop),
                    ErrorKind::InvalidArgument,
                )
            }
            5 => {
                let result = Db::open_existing(DIR, Options::default().env(env())).map(drop);
                ("a second opener", result, ErrorKind::Locked)
            }
            6 => return self.check_beside(&env()),
            _ => {
                let result = env().destroy(DIR);
                ("destroying an open database", result, ErrorKind::Locked)
            }
        };
        match result {
            Err(err) if err.kind() == wanted => Ok(()),
            // A failing disk may be noticed before what is wrong with the call.
            Err(err) if self.faulted() => self.may::<()>(what, Err(err)).map(drop),
            Err(err) => self.must(what, Err(err)),
            Ok(()) => panic!("{what} is not refused"),
        }
    }

    /// A check beside the writer finds no problem, unless calls fail.
    fn check_beside(&self, env: &Env) -> Result<(), Interrupt> {
        match env.check(DIR) {
            Ok(report) => {
                let may_differ = self.faulted();
                assert!(may_differ || report.is_clean(), "{:?}", report.problems);
                Ok(())
            }
            Err(err) if self.faulted() => self
                .may::<()>("a check of an open database", Err(err))
                .map(drop),
            Err(err) => self.must("a check of an open database", Err(err)),
        }
    }
}
