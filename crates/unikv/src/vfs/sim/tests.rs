use super::*;
use crate::vfs::{DIRECT_EXTRA_BYTES, DirectRead};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn disk() -> SimVfs {
    let disk = SimVfs::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    disk
}

/// A disk with a log whose name and first `durable` bytes are durable, all bytes being `bytes`.
fn disk_with_log(bytes: &[u8], durable: usize) -> (SimVfs, Box<dyn WriteFile>) {
    let disk = disk();
    let mut log = disk.create(&path("log"), WriteMode::Log, 0).unwrap();
    log.append(&bytes[..durable]).unwrap();
    log.sync_handle().sync().unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    log.append(&bytes[durable..]).unwrap();
    (disk, log)
}

fn log_after(disk: &SimVfs, keep: Keep) -> Vec<u8> {
    disk.power_cut(keep).read_file(&path("log")).unwrap()
}

fn put(disk: &SimVfs, name: &str, bytes: &[u8], sync: bool) {
    let mut file = disk.create(&path(name), WriteMode::Log, 0).unwrap();
    file.append(bytes).unwrap();
    if sync {
        file.finish().unwrap();
    }
}

fn names(disk: &SimVfs) -> BTreeSet<String> {
    disk.list(Path::new("/db")).unwrap().into_iter().collect()
}

/// The outcomes of power cuts with many seeds.
fn outcomes<T: Ord>(disk: &SimVfs, outcome: impl Fn(&SimVfs) -> T) -> BTreeSet<T> {
    let keeps =
        (0..100).flat_map(|seed| [Keep::Prefix(seed), Keep::Sectors(seed), Keep::Torn(seed)]);
    keeps.map(|keep| outcome(&disk.power_cut(keep))).collect()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 16 + i) as u8 | 1).collect()
}

#[test]
fn keep_nothing_and_keep_all() {
    let bytes = bytes(3000);
    let (disk, _log) = disk_with_log(&bytes, 1000);
    assert_eq!(disk.read_file(&path("log")).unwrap(), bytes);
    assert_eq!(log_after(&disk, Keep::Nothing), bytes[..1000]);
    assert_eq!(log_after(&disk, Keep::All), bytes);
}

#[test]
fn keep_prefix_leaves_prefixes_of_all_lengths() {
    let bytes = bytes(3000);
    let (disk, _log) = disk_with_log(&bytes, 1000);
    let mut lens = BTreeSet::new();
    for seed in 0..200 {
        let left = log_after(&disk, Keep::Prefix(seed));
        assert!(
            left.len() >= 1000 && bytes.starts_with(&left),
            "seed {seed}"
        );
        assert_eq!(
            left,
            log_after(&disk, Keep::Prefix(seed)),
            "seed {seed} is not repeatable"
        );
        lens.insert(left.len());
    }
    assert!(
        lens.contains(&1000) && lens.contains(&3000) && lens.len() > 50,
        "{lens:?}"
    );
}

#[test]
fn keep_torn_damages_sectors_after_the_durable_end_only() {
    let bytes = bytes(10_000);
    let (disk, _log) = disk_with_log(&bytes, 1000);
    let (mut zeroed, mut garbled, mut intact_behind_damage) = (false, false, false);
    for seed in 0..100 {
        let left = log_after(&disk, Keep::Torn(seed));
        assert_eq!(left, log_after(&disk, Keep::Torn(seed)));
        assert_eq!(
            left[..1000],
            bytes[..1000],
            "seed {seed} touched durable bytes"
        );
        let mut damaged = false;
        let mut start = 1000;
        while start < left.len() {
            let end = (start / 512 * 512 + 512).min(left.len());
            let sector = &left[start..end];
            if sector == &bytes[start..end] {
                intact_behind_damage |= damaged;
            } else {
                damaged = true;
                let zero = sector.iter().all(|&b| b == 0);
                zeroed |= zero;
                garbled |= !zero;
            }
            start = end;
        }
    }
    assert!(zeroed && garbled && intact_behind_damage);
}

#[test]
fn keep_sectors_leaves_each_sector_in_one_of_its_states() {
    // Three writes: into the sector that is durable in part, over several, and into the last again.
    let bytes = bytes(3000);
    let (disk, mut log) = disk_with_log(&bytes[..1300], 1000);
    log.append(&bytes[1300..2600]).unwrap();
    log.append(&bytes[2600..]).unwrap();
    let ends = [1000, 1300, 2600, 3000];
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let left = log_after(&disk, Keep::Sectors(seed));
        assert_eq!(left, log_after(&disk, Keep::Sectors(seed)), "seed {seed}");
        assert_eq!(left[..1000], bytes[..1000], "seed {seed}");
        let mut states = Vec::new();
        for start in (0..left.len()).step_by(512) {
            let end = (start + 512).min(left.len());
            let as_of = |write: &&usize| {
                let filled = (**write).clamp(start, end);
                left[start..filled] == bytes[start..filled]
                    && left[filled..end].iter().all(|&b| b == 0)
            };
            let state = ends.iter().position(|write| as_of(&write));
            states.push(state.unwrap_or_else(|| panic!("seed {seed}: no state of sector {start}")));
        }
        seen.insert((ends.iter().position(|&end| end == left.len()), states));
    }
    // Of the full length, the four sectors that are not durable choose among 3, 2, 2, 2 and 3
    // states, of which some read the same.
    let full = seen.iter().filter(|(len, _)| *len == Some(3)).count();
    assert!(full >= 20, "{full} choices at full length");
    // The size may have grown before any byte.
    assert!(
        seen.contains(&(Some(3), vec![0, 0, 0, 0, 0, 0])),
        "{seen:?}"
    );
    assert!(
        ends.iter()
            .enumerate()
            .all(|(n, _)| seen.iter().any(|(len, _)| *len == Some(n)))
    );
}

#[test]
fn keep_first_leaves_each_prefix_of_the_changes_of_all_files() {
    let disk = disk();
    assert_eq!(disk.pending_changes(), 0);
    let mut a = disk.create(&path("a"), WriteMode::Log, 0).unwrap();
    let mut b = disk.create(&path("b"), WriteMode::Log, 0).unwrap();
    a.append(b"1").unwrap();
    b.append(b"2").unwrap();
    a.append(b"3").unwrap();
    disk.rename(&path("b"), &path("c")).unwrap();
    disk.remove(&path("a")).unwrap();
    assert_eq!(disk.pending_changes(), 7);
    let look = |disk: SimVfs| -> Vec<(String, Vec<u8>)> {
        let files = names(&disk).into_iter();
        let content = |name: String| (name.clone(), disk.read_file(&path(&name)).unwrap());
        files.map(content).collect()
    };
    let file = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    let wanted = [
        vec![],
        vec![file("a", b"")],
        vec![file("a", b""), file("b", b"")],
        vec![file("a", b"1"), file("b", b"")],
        vec![file("a", b"1"), file("b", b"2")],
        vec![file("a", b"13"), file("b", b"2")],
        vec![file("a", b"13"), file("c", b"2")],
        vec![file("c", b"2")],
    ];
    for (n, wanted) in (0..).zip(wanted) {
        assert_eq!(look(disk.power_cut(Keep::First(n))), wanted, "{n} changes");
        // A kill keeps the order.
        let killed = disk.process_kill();
        assert_eq!(
            look(killed.power_cut(Keep::First(n))),
            wanted,
            "{n} changes"
        );
    }
    // What is synced counts no more, and is there before the first change.
    b.sync_handle().sync().unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(disk.pending_changes(), 0);
    a.append(b"of a file without a name").unwrap();
    b.append(b"4").unwrap();
    assert_eq!(disk.pending_changes(), 1);
    let after = |n| look(disk.power_cut(Keep::First(n)));
    assert_eq!(after(0), [file("c", b"2")]);
    assert_eq!(after(1), [file("c", b"24")]);
}

#[test]
fn a_cut_disk_is_independent_and_the_original_can_be_cut_again() {
    let (disk, mut log) = disk_with_log(b"durable+tail", 7);
    let first = disk.power_cut(Keep::All);
    let mut other = first.create(&path("other"), WriteMode::Log, 0).unwrap();
    other.append(b"x").unwrap();
    first.remove(&path("log")).unwrap();
    log.append(b"+more").unwrap();
    assert_eq!(log_after(&disk, Keep::All), b"durable+tail+more");
    assert_eq!(log_after(&disk, Keep::Nothing), b"durable");
    assert_eq!(names(&disk).len(), 1);
    assert_eq!(names(&first), ["other".to_owned()].into());
    // What a cut left is durable on the new disk.
    let second = disk.power_cut(Keep::All);
    assert_eq!(log_after(&second, Keep::Nothing), b"durable+tail+more");
}

#[test]
fn a_created_file_may_lose_its_name_or_its_bytes() {
    let disk = disk();
    put(&disk, "synced", b"bytes", true);
    assert_eq!(
        names(&disk.power_cut(Keep::Nothing)).len(),
        0,
        "the directory was not synced"
    );
    assert_eq!(names(&disk.power_cut(Keep::All)).len(), 1);
    assert_eq!(outcomes(&disk, |cut| names(cut).len()), [0, 1].into());

    put(&disk, "unsynced", b"bytes", false);
    disk.sync_dir(Path::new("/db")).unwrap();
    let cut = disk.power_cut(Keep::Nothing);
    assert_eq!(cut.read_file(&path("synced")).unwrap(), b"bytes");
    assert_eq!(cut.read_file(&path("unsynced")).unwrap(), b"");
}

#[test]
fn a_removed_file_may_come_back() {
    let disk = disk();
    put(&disk, "a", b"bytes", true);
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.remove(&path("a")).unwrap();
    assert_eq!(disk.read_file(&path("a")), None);
    assert_eq!(
        disk.power_cut(Keep::Nothing).read_file(&path("a")).unwrap(),
        b"bytes"
    );
    assert_eq!(disk.power_cut(Keep::All).read_file(&path("a")), None);
    assert_eq!(outcomes(&disk, |cut| names(cut).len()), [0, 1].into());
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(disk.power_cut(Keep::Nothing).read_file(&path("a")), None);
}

#[test]
fn a_rename_shows_the_old_target_or_the_new_one() {
    let disk = disk();
    put(&disk, "CURRENT", b"old", true);
    disk.sync_dir(Path::new("/db")).unwrap();
    put(&disk, "temp", b"new", true);
    disk.rename(&path("temp"), &path("CURRENT")).unwrap();
    assert_eq!(disk.read_file(&path("CURRENT")).unwrap(), b"new");
    let after = |keep| disk.power_cut(keep).read_file(&path("CURRENT")).unwrap();
    assert_eq!(after(Keep::Nothing), b"old");
    assert_eq!(after(Keep::All), b"new");
    let seen = outcomes(&disk, |cut| {
        (cut.read_file(&path("CURRENT")).unwrap(), names(cut).len())
    });
    let old = |names| (b"old".to_vec(), names);
    assert_eq!(seen, [old(1), old(2), (b"new".to_vec(), 1)].into());
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(
        disk.power_cut(Keep::Nothing)
            .read_file(&path("CURRENT"))
            .unwrap(),
        b"new"
    );
}

#[test]
fn a_file_renamed_before_its_sync_may_be_empty_under_the_new_name() {
    let disk = disk();
    put(&disk, "temp", b"new", false);
    disk.rename(&path("temp"), &path("CURRENT")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(
        disk.power_cut(Keep::Nothing)
            .read_file(&path("CURRENT"))
            .unwrap(),
        b""
    );
}

#[test]
fn a_failed_sync_leaves_its_bytes_in_doubt_for_good() {
    let (disk, mut log) = disk_with_log(b"durable", 7);
    log.append(b"doubt").unwrap();
    disk.set_fault(Box::new(|call| match call.op {
        Op::Sync => Fault::Fail(ErrorKind::Other),
        _ => Fault::None,
    }));
    log.sync_handle().sync().unwrap_err();
    disk.clear_faults();
    assert_eq!(log_after(&disk, Keep::Nothing), b"durable");
    log.append(b"after").unwrap();
    log.sync_handle().sync().unwrap();
    assert_eq!(disk.read_file(&path("log")).unwrap(), b"durabledoubtafter");
    assert_eq!(log_after(&disk, Keep::Nothing), b"durable\0\0\0\0\0after");
    assert_eq!(log_after(&disk, Keep::All), b"durabledoubtafter");
    let seen = outcomes(&disk, |cut| cut.read_file(&path("log")).unwrap());
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_failed_sync_of_a_directory_leaves_its_names_in_doubt_until_they_change_again() {
    let disk = disk();
    let create = |name: &str| drop(disk.create(&path(name), WriteMode::Log, 0).unwrap());
    let all = |disk: &SimVfs| names(disk).into_iter().collect::<Vec<_>>();
    let after = |keep| all(&disk.power_cut(keep));
    create("one");
    create("two");
    disk.set_fault(Box::new(|_| Fault::Fail(ErrorKind::Other)));
    disk.sync_dir(Path::new("/db")).unwrap_err();
    disk.clear_faults();
    create("three");
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(all(&disk).len(), 3);
    assert_eq!(after(Keep::Nothing), ["three"]);
    assert_eq!(after(Keep::All), ["one", "three", "two"]);
    let killed = disk.process_kill();
    assert_eq!(all(&killed.power_cut(Keep::Nothing)), ["three"]);
    disk.rename(&path("two"), &path("four")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(after(Keep::Nothing), ["four", "three"]);
    assert_eq!(after(Keep::All), ["four", "one", "three"]);
    // Of a renaming, either name may change again.
    disk.rename(&path("four"), &path("three")).unwrap();
    disk.set_fault(Box::new(|_| Fault::Fail(ErrorKind::Other)));
    disk.sync_dir(Path::new("/db")).unwrap_err();
    disk.clear_faults();
    create("four");
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.remove(&path("four")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(after(Keep::Nothing), ["three"]);
    assert_eq!(all(&disk.process_kill()), all(&disk));
}

#[test]
fn a_killed_process_loses_only_what_was_in_user_memory() {
    let (disk, _log) = disk_with_log(b"durable+tail", 7);
    let mut bulk = disk.create(&path("bulk"), WriteMode::Bulk, 0).unwrap();
    let content = bytes(BULK_BUFFER_LEN * 2 + 100);
    bulk.append(&content).unwrap();
    assert_eq!(bulk.len(), content.len() as u64);

    let killed = disk.process_kill();
    assert_eq!(killed.read_file(&path("log")).unwrap(), b"durable+tail");
    assert_eq!(
        killed.read_file(&path("bulk")).unwrap(),
        content[..BULK_BUFFER_LEN * 2]
    );
    // The kill made nothing durable.
    assert_eq!(log_after(&killed, Keep::Nothing), b"durable");
    assert_eq!(names(&killed.power_cut(Keep::Nothing)).len(), 1);
    assert_eq!(names(&killed.power_cut(Keep::All)).len(), 2);
    killed.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(
        killed
            .power_cut(Keep::Nothing)
            .read_file(&path("bulk"))
            .unwrap(),
        b""
    );

    bulk.finish().unwrap();
    assert_eq!(
        disk.process_kill().read_file(&path("bulk")).unwrap(),
        content
    );
    assert_eq!(
        killed.read_file(&path("bulk")).unwrap().len(),
        BULK_BUFFER_LEN * 2
    );
}

#[test]
fn a_kill_keeps_two_names_of_one_file_together() {
    let disk = disk();
    put(&disk, "a", b"x", true);
    disk.sync_dir(Path::new("/db")).unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    let killed = disk.process_kill();
    assert!(killed.flip_bit(&path("b"), 1));
    assert_eq!(killed.read_file(&path("b")).unwrap(), b"z");
    assert_eq!(
        killed
            .power_cut(Keep::Nothing)
            .read_file(&path("a"))
            .unwrap(),
        b"z"
    );
    assert_eq!(disk.read_file(&path("b")).unwrap(), b"x");
}

#[test]
fn locks_are_held_once_and_vanish_with_the_machine() {
    let disk = disk();
    let guard = disk.lock(&path("LOCK")).unwrap();
    assert!(matches!(
        disk.lock(&path("LOCK")),
        Err(LockError::Held(Some(_)))
    ));
    for copy in [disk.power_cut(Keep::All), disk.process_kill()] {
        drop(copy.lock(&path("LOCK")).unwrap());
        drop(copy.lock(&path("LOCK")).unwrap());
    }
    drop(guard);
    disk.lock(&path("LOCK")).unwrap();
    assert!(matches!(
        disk.lock(Path::new("/no/LOCK")),
        Err(LockError::Io(_))
    ));
}

/// Does one of each counted operation on a disk that has `/db/old`, stopping at the first error.
fn one_of_each(disk: &SimVfs) -> io::Result<()> {
    disk.create_dir_all(Path::new("/db/sub"))?;
    disk.remove_dir(Path::new("/db/sub"))?;
    let mut log = disk.create(&path("log"), WriteMode::Log, 0)?;
    log.append(b"twelve bytes")?;
    log.sync_handle().sync()?;
    log.finish()?;
    disk.rename(&path("log"), &path("renamed"))?;
    disk.remove(&path("old"))?;
    disk.sync_dir(Path::new("/db"))?;
    match disk.lock(&path("LOCK")) {
        Ok(_) => Ok(()),
        Err(LockError::Io(e)) => Err(e),
        Err(LockError::Held(_)) => Err(ErrorKind::ResourceBusy.into()),
    }
}

fn disk_with_old_file() -> SimVfs {
    let disk = disk();
    disk.write_file(&path("old"), b"old");
    disk
}

#[test]
fn every_changing_call_is_counted_and_shown_to_the_rule() {
    let disk = disk_with_old_file();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, first) = (Arc::clone(&seen), disk.calls());
    disk.set_fault(Box::new(move |call| {
        log.lock().push((call.index - first, call.op, call.bytes));
        Fault::None
    }));
    one_of_each(&disk).unwrap();
    let ops = [
        (Op::CreateDir, 0),
        (Op::RemoveDir, 0),
        (Op::Create, 0),
        (Op::Append, 12),
        (Op::Sync, 0),
        (Op::Finish, 0),
        (Op::Rename, 0),
        (Op::Remove, 0),
        (Op::SyncDir, 0),
        (Op::Lock, 0),
    ];
    let expected: Vec<_> = (0..)
        .zip(ops)
        .map(|(i, (op, bytes))| (i, op, bytes))
        .collect();
    assert_eq!(*seen.lock(), expected);
    assert_eq!(disk.calls() - first, ops.len() as u64);
}

#[test]
fn each_call_can_fail_alone_and_is_then_without_effect() {
    for failing in 0..10 {
        let disk = disk_with_old_file();
        let index = disk.calls() + failing;
        let before = Arc::new(Mutex::new(None));
        let (view, slot) = (disk.clone(), Arc::clone(&before));
        disk.set_fault(Box::new(move |call| {
            if call.index != index {
                return Fault::None;
            }
            // A rule may look at the disk that it is about to fail.
            *slot.lock() = Some((view.file_names(), view.read_file(&path("log"))));
            Fault::Fail(ErrorKind::PermissionDenied)
        }));
        let err = one_of_each(&disk).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::PermissionDenied, "call {failing}");
        let after = (disk.file_names(), disk.read_file(&path("log")));
        assert_eq!(before.lock().take(), Some(after), "call {failing}");
        // It was one failure: the disk still works.
        disk.create(&path("next"), WriteMode::Log, 0)
            .unwrap()
            .append(b"x")
            .unwrap();
    }
}

#[test]
fn after_a_power_cut_every_call_fails() {
    for failing in 0..10 {
        let disk = disk_with_old_file();
        let old = disk.open(&path("old"), Access::Random).unwrap();
        let index = disk.calls() + failing;
        disk.set_fault(Box::new(move |call| {
            if call.index == index {
                Fault::PowerCut
            } else {
                Fault::None
            }
        }));
        one_of_each(&disk).unwrap_err();
        disk.clear_faults();
        assert_eq!(disk.calls(), index + 1);
        one_of_each(&disk).unwrap_err();
        old.read_at(&mut [0; 1], 0).unwrap_err();
        disk.list(Path::new("/db")).unwrap_err();
        disk.open(&path("old"), Access::Random).unwrap_err();
        disk.len(&path("old")).unwrap_err();
        disk.free_space(Path::new("/db")).unwrap_err();
        assert_eq!(
            disk.calls(),
            index + 1,
            "calls without power are not counted"
        );

        let next = disk.power_cut(Keep::Nothing);
        let removal_is_durable = failing > 8;
        assert_eq!(
            next.read_file(&path("old")).is_none(),
            removal_is_durable,
            "{failing}"
        );
        next.create(&path("next"), WriteMode::Log, 0).unwrap();
    }
}

#[test]
fn an_append_can_fail_in_the_middle() {
    let (disk, mut log) = disk_with_log(b"durable", 7);
    disk.set_fault(Box::new(|_| Fault::FailAfter { bytes: 3 }));
    log.append(b"abcdef").unwrap_err();
    disk.clear_faults();
    assert_eq!(disk.read_file(&path("log")).unwrap(), b"durableabc");
    log.append(b"ghi").unwrap_err();
    log.finish().unwrap_err();
    assert_eq!(disk.read_file(&path("log")).unwrap(), b"durableabc");
}

#[test]
fn reads_fail_by_their_own_rule() {
    let disk = disk_with_old_file();
    let calls = disk.calls();
    let file = disk.open(&path("old"), Access::Random).unwrap();
    disk.set_read_fault(Box::new(|read| {
        (read.offset == 1).then_some(ErrorKind::TimedOut)
    }));
    let mut buf = [0; 8];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 3);
    assert_eq!(&buf[..3], b"old");
    assert_eq!(
        file.read_at(&mut buf, 1).unwrap_err().kind(),
        ErrorKind::TimedOut
    );
    assert_eq!(file.read_at(&mut buf, 3).unwrap(), 0);
    assert_eq!(disk.calls(), calls);
}

/// Does one of each operation that only looks, stopping at the first error.
fn look_once(disk: &SimVfs) -> io::Result<()> {
    disk.list(Path::new("/db"))?;
    disk.len(&path("old"))?;
    disk.free_space(Path::new("/db"))?;
    let file = disk.open(&path("old"), Access::Random)?;
    file.len()?;
    file.read_at(&mut [0; 2], 1)?;
    file.read_cached_at(&mut [0; 2], 1)?;
    Ok(())
}

#[test]
fn calls_that_only_look_are_counted_apart_and_can_fail_each_alone() {
    let disk = disk_with_old_file();
    let (calls, first) = (disk.calls(), disk.looks());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    disk.set_look_fault(Box::new(move |call| {
        assert!(!call.op.changes_disk());
        log.lock().push((call.index - first, call.op, call.offset));
        Fault::None
    }));
    look_once(&disk).unwrap();
    let ops = [
        (0, Op::List, 0),
        (1, Op::Len, 0),
        (2, Op::FreeSpace, 0),
        (3, Op::Open, 0),
        (4, Op::Len, 0),
        (5, Op::Read, 1),
        (6, Op::Read, 1),
    ];
    assert_eq!(*seen.lock(), ops);
    for n in 0..ops.len() as u64 {
        let (disk, first) = (disk_with_old_file(), 0);
        disk.set_look_fault(Box::new(move |call| {
            if call.index == first + n {
                Fault::Os(24)
            } else {
                Fault::None
            }
        }));
        assert_eq!(
            look_once(&disk).unwrap_err().raw_os_error(),
            Some(24),
            "{n}"
        );
        assert_eq!(disk.looks(), n + 1);
        look_once(&disk).unwrap();
    }
    assert_eq!(disk.calls(), calls);
}

#[test]
fn rules_decide_about_changes_and_looks_alike() {
    let disk = disk_with_old_file();
    disk.set_rules(vec![
        Rule::new(Fault::Fail(ErrorKind::StorageFull))
            .on(&[Op::Append])
            .nth(2),
        Rule::new(Fault::Os(23)).on(&[Op::Open]).path("*/old"),
    ]);
    let mut log = disk.create(&path("log"), WriteMode::Log, 0).unwrap();
    log.append(b"1").unwrap();
    let full = log.append(b"2").unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let open = |name: &str| disk.open(&path(name), Access::Random).map(drop);
    open("log").unwrap();
    assert_eq!(open("old").unwrap_err().raw_os_error(), Some(23));
    disk.clear_faults();
    open("old").unwrap();
}

#[test]
fn nothing_is_in_memory_on_a_cold_disk_nor_on_its_copies() {
    let disk = disk_with_old_file();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    disk.set_prefetch_rule(Box::new(move |read| {
        log.lock()
            .push((read.path.to_owned(), read.offset, read.bytes));
    }));
    let present = |disk: &SimVfs| {
        let file = disk.open(&path("old"), Access::Random).unwrap();
        file.will_need(1, 2);
        let mut buf = [0; 3];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), 3);
        let mut cached = [0; 3];
        let len = file.read_cached_at(&mut cached, 0).unwrap();
        assert_eq!(&cached[..len.unwrap_or(0)], &buf[..len.unwrap_or(0)]);
        let mut direct = [0; 3 + DIRECT_EXTRA_BYTES];
        let read = DirectRead {
            file: &*file,
            offset: 0,
            len: 3,
            buf: &mut direct,
        };
        let begin = disk.read_direct(&mut [read]).remove(0);
        let begin = begin.unwrap().unwrap();
        assert_eq!(&direct[begin..begin + 3], &buf);
        len
    };
    assert_eq!(present(&disk), Some(3));
    disk.set_cold(true);
    for disk in [&disk, &disk.process_kill(), &disk.power_cut(Keep::All)] {
        assert_eq!(present(disk), None);
    }
    disk.set_cold(false);
    assert_eq!(present(&disk), Some(3));
    // The copies have no rule. What is asked for on the cold disk is prefetched by that.
    let expected = [(1, 2), (1, 2), (0, 3), (1, 2)];
    let expected = expected.map(|(offset, len)| (path("old"), offset, len));
    assert_eq!(*told.lock(), expected);
    disk.clear_faults();
    present(&disk);
    assert_eq!(told.lock().len(), expected.len());
}

#[test]
fn a_full_disk_takes_what_fits_and_then_fails() {
    let disk = disk_with_old_file();
    disk.set_free_space(Some(10));
    let mut log = disk.create(&path("log"), WriteMode::Log, 0).unwrap();
    log.append(b"1234567").unwrap();
    assert_eq!(disk.free_space(Path::new("/db")).unwrap(), 3);
    assert_eq!(
        log.append(b"89abcdef").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(disk.read_file(&path("log")).unwrap(), b"123456789a");
    disk.remove(&path("old")).unwrap();
    assert_eq!(disk.free_space(Path::new("/db")).unwrap(), 3);
    put(&disk, "next", b"xyz", true);
    disk.set_free_space(None);
    put(&disk, "last", &[0; 1000], true);
}

#[test]
fn inspection_and_damage() {
    let disk = SimVfs::new();
    disk.write_file(Path::new("/a/b/file"), b"\0\0");
    assert!(disk.flip_bit(Path::new("/a/b/file"), 9));
    assert!(!disk.flip_bit(Path::new("/a/b/file"), 16));
    assert!(!disk.flip_bit(Path::new("/a/b/none"), 0));
    let cut = disk.power_cut(Keep::Nothing);
    assert_eq!(cut.read_file(Path::new("/a/b/file")).unwrap(), [0, 2]);
    disk.write_file(Path::new("/a/b/file"), b"replaced");
    assert_eq!(disk.read_file(Path::new("/a/b/file")).unwrap(), b"replaced");
    assert_eq!(disk.file_names(), [PathBuf::from("/a/b/file")]);
}

#[test]
fn names_obey_the_rules_of_a_file_system() {
    let disk = disk_with_old_file();
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    let create = |path: &Path| disk.create(path, WriteMode::Log, 0).map(drop);
    assert_eq!(kind(create(&path("old"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(create(Path::new("/no/file"))), ErrorKind::NotFound);
    assert_eq!(
        kind(disk.create_dir_all(&path("old/sub"))),
        ErrorKind::NotADirectory
    );
    assert_eq!(kind(disk.remove(&path("none"))), ErrorKind::NotFound);
    assert_eq!(
        kind(disk.rename(&path("none"), &path("x"))),
        ErrorKind::NotFound
    );
    assert_eq!(kind(disk.sync_dir(Path::new("/no"))), ErrorKind::NotFound);
    assert_eq!(
        kind(disk.list(Path::new("/no")).map(drop)),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(disk.remove_dir(Path::new("/db"))),
        ErrorKind::DirectoryNotEmpty
    );
    let other_dir = disk.rename(&path("old"), Path::new("/other"));
    assert_eq!(kind(other_dir), ErrorKind::Unsupported);

    disk.create_dir_all(&path("sub/deep")).unwrap();
    assert_eq!(names(&disk), ["old".to_owned(), "sub".to_owned()].into());
    disk.rename(&path("old"), &path("old")).unwrap();
    assert_eq!(disk.read_file(&path("old")).unwrap(), b"old");
    // A relative path starts at its own root.
    disk.create_dir_all(Path::new("relative")).unwrap();
    create(Path::new("relative/file")).unwrap();
    assert_eq!(disk.list(Path::new("relative")).unwrap(), ["file"]);
}

#[test]
fn a_removed_directory_may_come_back_until_its_parent_is_synced() {
    let disk = disk();
    disk.create_dir_all(&path("sub")).unwrap();
    assert!(
        names(&disk.power_cut(Keep::Nothing)).contains("sub"),
        "creation is durable"
    );
    disk.remove_dir(&path("sub")).unwrap();
    assert!(names(&disk).is_empty());
    assert!(names(&disk.process_kill()).is_empty());
    assert!(names(&disk.power_cut(Keep::All)).is_empty());
    assert_eq!(outcomes(&disk, |cut| names(cut).len()), [0, 1].into());
    disk.sync_dir(Path::new("/db")).unwrap();
    assert!(names(&disk.power_cut(Keep::Nothing)).is_empty());
}

/// A log of three sectors, all durable, that is written over: its new bytes, with two writes that
/// are not durable after one that is, of which the second takes the place of a part of the first.
fn disk_with_log_written_over() -> (SimVfs, Vec<u8>, [Vec<u8>; 3], Box<dyn WriteFile>) {
    let old = bytes(1536);
    let (disk, _log) = disk_with_log(&old, 1536);
    let mut log = disk.overwrite(&path("log")).unwrap();
    let mut states = Vec::new();
    log.append(&[0xa0; 100]).unwrap();
    log.sync_handle().sync().unwrap();
    states.push(disk.read_file(&path("log")).unwrap());
    log.append(&[0xb0; 1000]).unwrap();
    states.push(disk.read_file(&path("log")).unwrap());
    log.rewind(200).unwrap();
    log.append(&[0xc0; 1500]).unwrap();
    states.push(disk.read_file(&path("log")).unwrap());
    (disk, old, states.try_into().unwrap(), log)
}

#[test]
fn a_log_is_written_over_from_the_front() {
    let (_disk, old, [first, second, third], log) = disk_with_log_written_over();
    assert_eq!(first, [&[0xa0; 100][..], &old[100..]].concat());
    let over = [&[0xa0; 100][..], &[0xb0; 1000]].concat();
    assert_eq!(second, [&over[..], &old[1100..]].concat());
    assert_eq!(third, [&over[..900], &[0xc0; 1500]].concat());
    assert_eq!(log.len(), 2400);
}

#[test]
fn a_power_cut_leaves_what_was_written_over_in_any_of_its_states() {
    let (disk, _, states, _log) = disk_with_log_written_over();
    let [durable, second, third] = &states;
    assert_eq!(&log_after(&disk, Keep::Nothing), durable);
    assert_eq!(&log_after(&disk, Keep::All), third);
    assert_eq!(disk.pending_changes(), 2);
    for (n, state) in states.iter().enumerate() {
        assert_eq!(&log_after(&disk, Keep::First(n as u64)), state);
    }
    assert_eq!(disk.process_kill().pending_changes(), 2);
    assert_eq!(&log_after(&disk.process_kill(), Keep::Nothing), durable);

    let (mut seen, mut lens) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..500 {
        let left = log_after(&disk, Keep::Sectors(seed));
        assert_eq!(left, log_after(&disk, Keep::Sectors(seed)), "seed {seed}");
        assert_eq!(
            left[..100],
            third[..100],
            "seed {seed} touched durable bytes"
        );
        let mut of_sectors = Vec::new();
        for start in (0..left.len()).step_by(512) {
            let end = (start + 512).min(left.len());
            // Behind its old end a file holds zeros where its size outlived its bytes.
            let is = |state: &Vec<u8>| {
                let kept = state.get(start..end.min(state.len())).unwrap_or_default();
                left[start..end].starts_with(kept)
                    && left[start + kept.len()..end].iter().all(|&byte| byte == 0)
            };
            let state = states.iter().position(is);
            of_sectors.push(state.unwrap_or_else(|| panic!("seed {seed}: sector {start}")));
        }
        seen.insert(of_sectors);
        lens.insert(left.len());
    }
    assert!(seen.len() > 10, "{seen:?}");
    assert_eq!(lens, BTreeSet::from([1536, 2400]));

    for seed in 0..200 {
        let left = log_after(&disk, Keep::Prefix(seed));
        let is_part = |new: &Vec<u8>, old: &Vec<u8>| {
            let same = left.iter().zip(new).take_while(|(a, b)| a == b).count();
            left[same..] == *old.get(same..).unwrap_or_default()
        };
        assert!(
            is_part(second, durable) || is_part(third, second),
            "seed {seed}"
        );
        assert_eq!(log_after(&disk, Keep::Torn(seed))[..100], third[..100]);
    }
}

#[test]
fn a_failed_sync_of_what_was_written_over_leaves_it_in_doubt() {
    let (disk, _, [durable, _, third], mut log) = disk_with_log_written_over();
    disk.set_fault(Box::new(|call| match call.op {
        Op::Sync => Fault::Fail(ErrorKind::Other),
        _ => Fault::None,
    }));
    log.sync_handle().sync().unwrap_err();
    disk.clear_faults();
    log.append(&[0xd0; 10]).unwrap();
    log.sync_handle().sync().unwrap();
    let outcomes = outcomes(&disk, |disk| disk.read_file(&path("log")).unwrap());
    assert!(outcomes.len() > 1);
    for left in outcomes {
        assert_eq!((left.len(), &left[2400..]), (2410, &[0xd0; 10][..]));
        assert_eq!(left[..100], third[..100]);
        for sector in [100..512, 512..900] {
            let (new, old) = (&third[sector.clone()], &durable[sector.clone()]);
            assert!(left[sector.clone()] == *new || left[sector] == *old);
        }
    }
}

#[test]
fn a_call_of_another_thread_waits_for_the_rule_that_runs() {
    use crate::testing::{MOST_WAIT, limit};
    use std::sync::mpsc;
    use std::time::Duration;
    let disk = disk_with_old_file();
    let (entered, is_entered) = mpsc::channel();
    let (ended, has_ended) = mpsc::channel();
    disk.set_fault(Box::new(move |call| {
        if call.path != path("first") {
            return Fault::Fail(ErrorKind::PermissionDenied);
        }
        entered.send(()).unwrap();
        // The other call must not end before this one. That it does not cannot be waited for: a
        // disk that lets it pass is found out here nearly always, and one that does not never
        // fails.
        let ended_early = has_ended.recv_timeout(Duration::from_millis(200)).is_ok();
        assert!(!ended_early, "the call of the other thread passed the rule");
        Fault::None
    }));
    let _limit = limit("calls of two threads");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| disk.create(&path("first"), WriteMode::Log, 0).map(drop));
        is_entered.recv_timeout(MOST_WAIT).expect("the rule runs");
        let second = scope.spawn(|| {
            let created = disk.create(&path("second"), WriteMode::Log, 0).map(drop);
            let _the_rule_may_have_ended = ended.send(());
            created
        });
        first.join().unwrap().unwrap();
        let refused = second.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    });
}

#[test]
fn a_rule_that_panics_is_removed() {
    let disk = disk_with_old_file();
    disk.set_fault(Box::new(|_| panic!("a rule with a bug")));
    let create = |name| disk.create(&path(name), WriteMode::Log, 0).map(drop);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| create("first")));
    assert!(caught.is_err());
    create("second").unwrap();
}

#[test]
fn a_file_with_two_names_is_one_file_until_the_last_of_them_is_removed() {
    let disk = disk();
    let mut log = disk.create(&path("log"), WriteMode::Log, 0).unwrap();
    log.append(b"first").unwrap();
    disk.create_dir_all(Path::new("/other")).unwrap();
    let other = Path::new("/other/log");
    disk.link(&path("log"), other).unwrap();
    let again = disk.link(&path("log"), other).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    log.append(b" second").unwrap();
    assert_eq!(disk.read_file(other).unwrap(), b"first second");
    assert!(disk.overwrite(&path("log")).is_err(), "it has two names");
    disk.sync_dir(Path::new("/other")).unwrap();
    log.sync_handle().sync().unwrap();
    // Its first name was never durable, its second is, and so are its bytes.
    let cut = disk.power_cut(Keep::Nothing);
    assert_eq!(cut.read_file(other).unwrap(), b"first second");
    assert_eq!(cut.read_file(&path("log")), None);
    disk.remove(&path("log")).unwrap();
    assert_eq!(disk.read_file(other).unwrap(), b"first second");
    assert!(disk.overwrite(other).is_ok());
}

#[test]
fn a_renamed_directory_has_either_name_until_its_parent_is_synced() {
    let disk = disk();
    disk.write_file(Path::new("/db/sub/file"), b"bytes");
    disk.rename(&path("sub"), &path("named")).unwrap();
    let has = |disk: &SimVfs, name: &str| disk.read_file(&path(name).join("file")).is_some();
    assert!(has(&disk, "named") && !has(&disk, "sub"));
    let before = disk.power_cut(Keep::Nothing);
    assert!(has(&before, "sub") && !has(&before, "named"));
    let both = outcomes(&disk, |cut| (has(cut, "sub"), has(cut, "named")));
    assert_eq!(both, [(true, false), (false, true)].into());
    disk.sync_dir(Path::new("/db")).unwrap();
    assert!(has(&disk.power_cut(Keep::Nothing), "named"));
    // A sync that has failed leaves it open for good.
    disk.rename(&path("named"), &path("again")).unwrap();
    disk.set_fault(Box::new(|_| Fault::Fail(ErrorKind::Other)));
    disk.sync_dir(Path::new("/db")).unwrap_err();
    disk.clear_faults();
    disk.sync_dir(Path::new("/db")).unwrap();
    assert!(has(&disk.power_cut(Keep::Nothing), "named"));
}

#[test]
fn a_page_is_held_by_its_machine_alone() {
    let vfs = SimVfs::new();
    vfs.create_dir_all(Path::new("/db")).unwrap();
    let path = Path::new("/db/page");
    let page = vfs.create_page(path, b"header").unwrap().unwrap();
    let other = vfs.open_page(path).unwrap();
    page.store(3, 9);
    assert_eq!((other.load(3), other.is_held().unwrap()), (9, true));
    assert_eq!(&other.header()[..6], b"header");
    for disk in [vfs.process_kill(), vfs.power_cut(Keep::All)] {
        let copy = disk.open_page(path).unwrap();
        assert!(!copy.is_held().unwrap());
    }
    drop(page);
    assert!(!other.is_held().unwrap());
}
