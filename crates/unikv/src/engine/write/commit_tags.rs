//! Commit tags: opaque bytes that are committed with a write and with nothing else.
//!
//! A commit tag is in the WAL record of its batch, with the memtable that holds the batch, and in
//! the edit that flushes that memtable. So at any time, and after any crash, the newest commit tag
//! is that of the newest write that had one among those that are there.

use crate::base::keys::SeqNo;
use crate::base::sync::atomic::Ordering;
use crate::engine::write::queue::Write;
use crate::engine::write::{Commit, WritePath};
use bytes::Bytes;

impl WritePath {
    /// The newest commit tag among the visible writes.
    pub(crate) fn commit_tag(&self) -> Option<Bytes> {
        if !self.core.process.is_this() {
            return None;
        }
        let (view, seq) = self.read.read_point();
        if view.version.counters.flushed_seq <= seq {
            let commit_tag = view.commit_tag(seq);
            // A memtable keeps two commit tags. If nothing has become visible meanwhile, one group
            // at most has left another.
            if self.read.visible_seq.load(Ordering::Acquire) == seq.0 {
                return commit_tag;
            }
        }
        drop(view);
        // Writers are quick, or an ingest is being published, whose tables are in the view and not
        // yet visible.
        let _nobody_writes = self.commit.lock();
        let (view, seq) = self.read.read_point();
        view.commit_tag(seq)
    }
}

/// Leaves the newest commit tag of a group, which becomes visible as a whole, with the memtable.
pub(crate) fn note_commit_tag(commit: &Commit, group: &[Write<'_>], first: SeqNo) {
    let (mut next, mut newest) = (first.0, None);
    for Write { batch, .. } in group {
        next += batch.seq_count();
        newest = batch
            .commit_tag()
            .map(|commit_tag| (SeqNo(next - 1), commit_tag))
            .or(newest);
    }
    if let Some((seq, commit_tag)) = newest {
        commit.memtable.table.note_commit_tag(seq, commit_tag);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::{Machine, small};
    use crate::vfs::sim::{Fault, Keep};
    use crate::{Batch, Bytes, Db, ErrorKind};

    fn marked(number: u32) -> Batch {
        let mut batch = Batch::new();
        batch.put(format!("key{number:04}"), vec![7; 300]);
        batch.set_commit_tag(number.to_string());
        batch
    }

    fn tag_of(number: u32) -> Option<Bytes> {
        Some(Bytes::from(number.to_string()))
    }

    #[test]
    fn a_commit_tag_is_the_newest_one_through_flushes_and_reopenings() {
        let machine = Machine::new(1);
        let (db, _runtime) = machine.open(small());
        assert_eq!(db.commit_tag(), None);
        for number in 0..100 {
            db.write(&marked(number)).unwrap();
            db.put("unmarked", "value").unwrap();
            assert_eq!(db.commit_tag(), tag_of(number));
        }
        assert!(db.stats().flushes > 3);
        db.flush().unwrap();
        assert_eq!(db.commit_tag(), tag_of(99));
        db.close().unwrap();

        let (db, _runtime) = machine.open(small());
        assert_eq!(db.commit_tag(), tag_of(99));
        // Flushing writes without a commit tag leaves the old one.
        db.put("unmarked", "value").unwrap();
        db.flush().unwrap();
        assert_eq!(db.commit_tag(), tag_of(99));
        // An empty commit tag is a commit tag.
        db.write(Batch::new().set_commit_tag("")).unwrap();
        assert_eq!(db.commit_tag(), Some(Bytes::new()));
        db.flush().unwrap();
        db.close().unwrap();
        let (db, _runtime) = machine.open(small());
        assert_eq!(db.commit_tag(), Some(Bytes::new()));
        db.close().unwrap();
        machine.check();
    }

    #[test]
    fn nothing_but_commit_tags_is_flushed_and_recovered() {
        let machine = Machine::new(2);
        let (db, _runtime) = machine.open(small());
        for number in 0..500u32 {
            db.write(Batch::new().set_commit_tag(number.to_string()))
                .unwrap();
        }
        assert!(db.stats().flushes > 3);
        db.put("key", "value").unwrap();
        drop(db);
        let disk = machine.disk.process_kill();
        let machine = Machine { disk, seed: 3 };
        machine.check();
        let (db, _runtime) = machine.open(small());
        assert_eq!(db.commit_tag(), tag_of(499));
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        db.write(&marked(500)).unwrap();
        db.flush().unwrap();
        assert_eq!(db.commit_tag(), tag_of(500));
        db.close().unwrap();
    }

    #[test]
    fn a_commit_tag_beyond_the_limit_is_refused_with_its_batch() {
        let (db, _runtime) = Machine::new(3).open(small());
        let mut batch = Batch::new();
        batch
            .put("key", "value")
            .set_commit_tag(vec![0; (64 << 10) + 1]);
        let refused = db.write(&batch).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert_eq!((db.get("key").unwrap(), db.commit_tag()), (None, None));
        batch.clear();
        batch.put("key", "value").set_commit_tag(vec![0; 64 << 10]);
        db.write(&batch).unwrap();
        assert_eq!(
            db.commit_tag().map(|commit_tag| commit_tag.len()),
            Some(64 << 10)
        );
        db.close().unwrap();
    }

    /// The power goes at each call that changes the disk: a commit tag is there if its batch is.
    #[test]
    fn after_any_crash_a_commit_tag_is_there_if_and_only_if_its_batch_is() {
        let write = |db: &Db| (0..40).try_for_each(|number| db.write(&marked(number)));
        let mut crashes = 0;
        for at in 20.. {
            let machine = Machine::new(4);
            let (mut calls, mut cut) = (0, false);
            let (db, runtime) = machine.open(small());
            machine.disk.set_fault(Box::new(move |_| {
                calls += 1;
                cut |= calls == at;
                if cut { Fault::PowerCut } else { Fault::None }
            }));
            let written = write(&db).is_ok();
            runtime.run_until_idle();
            drop(db);
            if written {
                break;
            }
            crashes += 1;
            for keep in [Keep::Nothing, Keep::All, Keep::Prefix(at), Keep::Torn(at)] {
                let disk = machine.disk.power_cut(keep);
                let (db, _runtime) = Machine { disk, seed: 5 }.open(small());
                let last = db.iter().next_back().map(|entry| entry.unwrap().0);
                let number = last.map(|key| String::from_utf8_lossy(&key[3..]).parse::<u32>());
                let commit_tag = number.and_then(|number| tag_of(number.unwrap()));
                assert_eq!(
                    db.commit_tag(),
                    commit_tag,
                    "power cut at call {at}, {keep:?}"
                );
            }
        }
        assert!(crashes > 20, "{crashes}");
    }
}
