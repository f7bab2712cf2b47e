use super::reads::ReadSet;
use crate::base::keys::SeqNo;
use crate::engine::tests::{Machine, small};
use crate::memtable::Batch;
use crate::{Db, ErrorKind, Result};

/// Compares a read of these engine keys with what is in memory and with a batch of the same group.
fn check(
    db: &Db,
    since: u64,
    keys: &[&[u8]],
    ranges: &[(&[u8], &[u8])],
    batch: &Batch,
) -> Result<()> {
    let reads = ReadSet::new(SeqNo(since));
    keys.iter().for_each(|key| reads.add_key(key));
    for (lower, upper) in ranges {
        let range = reads.begin_range(lower);
        reads.extend_up(range, upper);
    }
    let engine = &db.0.engine;
    let view = engine.read.view.load();
    engine
        .write
        .recent
        .check(&reads, &view, [batch].into_iter())
}

#[test]
fn what_comes_before_in_the_group_conflicts_as_what_is_in_memory_does() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    db.put("b", "1").unwrap();
    let since = db.0.engine.read.read_point().1.0;
    db.put("d", "2").unwrap();
    let nothing = Batch::new();
    let conflicts = |since, keys: &[&[u8]], ranges: &[(&[u8], &[u8])], batch: &Batch| {
        let error = check(&db, since, keys, ranges, batch).err();
        error.is_some_and(|error| error.kind() == ErrorKind::Conflict)
    };
    let key = |key: &str| [&[0; 4][..], key.as_bytes()].concat();
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(key);
    assert!(!conflicts(since, &[&b, &e], &[(&a, &d)], &nothing));
    assert!(conflicts(since, &[&d], &[], &nothing));
    assert!(conflicts(since, &[], &[(&c, &e)], &nothing));
    assert!(conflicts(since - 1, &[&b], &[], &nothing));
    let mut batch = Batch::new();
    batch.put("x", "3").delete("c");
    assert!(!conflicts(since, &[&b, &e], &[(&a, &c)], &batch));
    assert!(conflicts(since, &[&c], &[], &batch));
    assert!(conflicts(since, &[], &[(&b, &d)], &batch));
}
