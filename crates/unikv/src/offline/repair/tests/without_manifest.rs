//! What the files alone say, and what they cannot say.

use super::*;

#[test]
fn a_record_file_that_cannot_be_read_puts_in_doubt_what_it_may_have_overwritten() {
    let machine = Machine::new(31);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..60).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    let before = files(&machine, ".rec");
    (20..30).for_each(|i| put(&db, &mut model, i, 2));
    db.close().unwrap();
    let (db, _) = machine.open(small());
    db.flush().unwrap();
    db.close().unwrap();
    let mut flushed = files(&machine, ".rec");
    flushed.retain(|path| !before.contains(path));
    assert_eq!(flushed.len(), 1, "{flushed:?}");
    lose_manifest(&machine);
    let mut bytes = machine.disk.read_file(&flushed[0]).unwrap();
    let sector = bytes.len().min(4096);
    bytes[..sector].fill(0);
    machine.disk.write_file(&flushed[0], &bytes);
    let report = repaired(&machine).unwrap();
    assert!(!report.is_complete(), "{report:#?}");
    assert!(report.in_doubt >= 10, "{report:#?}");
    let of_file = |range: &crate::LostRange| range.file == flushed[0];
    assert!(report.lost_ranges.iter().any(of_file), "{report:#?}");
}
