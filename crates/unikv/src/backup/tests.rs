use super::*;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::vfs::Vfs;
use crate::vfs::sim::{Fault, Keep, Op, SimRuntime, SimVfs};
use crate::{Db, ErrorKind, Options};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::io::ErrorKind as IoKind;

const REPOSITORY: &str = "/backups";

fn env(disk: &SimVfs) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(7),
    }
}

fn repository(disk: &SimVfs) -> Repository {
    env(disk).repository(REPOSITORY)
}

/// Restores a point and compares it, after a check.
fn restores_to(disk: &SimVfs, number: u64, model: &Model) {
    // On a copy of the disk, which stays as it is.
    let disk = disk.process_kill();
    repository(&disk).restore(number, "/restored").unwrap();
    let report = env(&disk).check("/restored").unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    let disk = disk.power_cut(Keep::Nothing);
    let db = Db::open("/restored", Options::default().env(env(&disk))).unwrap();
    same(&db, model);
}

/// A database with some points, and what it held at each.
struct Story {
    machine: Machine,
    db: Db,
    points: Vec<(u64, Model)>,
    model: Model,
    rng: SmallRng,
}

impl Story {
    fn with_points(points: u64) -> Story {
        let machine = Machine::new(1);
        let (db, _runtime) = machine.open(small());
        let mut story = Story {
            machine,
            db,
            points: Vec::new(),
            model: Model::new(),
            rng: SmallRng::seed_from_u64(1),
        };
        for _ in 0..points {
            story.write();
            let made = repository(&story.machine.disk).back_up(&story.db).unwrap();
            story.points.push((made.point.number, story.model.clone()));
        }
        story
    }

    fn write(&mut self) {
        churn(&self.db, &mut self.model, &mut self.rng, 150);
        let large = vec![self.points.len() as u8; 2000];
        self.db.put("large", &large).unwrap();
        self.model.insert(b"large".to_vec(), large);
    }

    /// The nth call of this kind in the directory fails. True once it has.
    fn fail(&self, dir: &'static str, op: Op, nth: u64) -> Arc<AtomicBool> {
        let (met, mut seen) = (Arc::new(AtomicBool::new(false)), 0);
        let failed = Arc::clone(&met);
        self.machine.disk.set_fault(Box::new(move |call| {
            let is_one = call.op == op && call.path.starts_with(dir);
            seen += u64::from(is_one);
            if is_one && seen == nth {
                failed.store(true, Ordering::Relaxed);
                return Fault::Fail(IoKind::Other);
            }
            Fault::None
        }));
        met
    }

    /// What is there after a power cut is sound, these points among it.
    fn holds(&self, numbers: &[u64]) {
        for keep in (0..12).flat_map(keeps) {
            let disk = self.machine.disk.power_cut(keep);
            let listed = repository(&disk).points().unwrap();
            assert!(listed.damaged.is_empty(), "{:?}", listed.damaged);
            let listed: Vec<u64> = listed.points.iter().map(|point| point.number).collect();
            assert!(numbers.iter().all(|n| listed.contains(n)), "{listed:?}");
            for number in listed {
                let verified = repository(&disk).verify(number).unwrap();
                assert!(verified.is_sound(), "{number}: {:?}", verified.problems);
            }
        }
    }

    /// The n-th call from now on meets the fault. True once it has.
    fn arm(&self, nth: u64, fault: Fault) -> Arc<AtomicBool> {
        let met = Arc::new(AtomicBool::new(false));
        let (seen, at) = (Arc::clone(&met), self.machine.disk.calls() + nth);
        self.machine.disk.set_fault(Box::new(move |call| {
            if call.index != at {
                return Fault::None;
            }
            seen.store(true, Ordering::Relaxed);
            fault
        }));
        met
    }
}

#[test]
fn each_point_restores_to_what_the_database_was() {
    let mut story = Story::with_points(4);
    let disk = story.machine.disk.clone();
    story.db.compact().unwrap();
    let again = repository(&disk).back_up(&story.db).unwrap();
    story.points.push((again.point.number, story.model.clone()));
    // Nothing has changed: all data files are there.
    let idle = repository(&disk).back_up(&story.db).unwrap();
    assert_eq!(
        idle.shared_bytes,
        again.copied_bytes + again.shared_bytes - log_bytes(&again)
    );
    assert_eq!(idle.copied_bytes, log_bytes(&idle));
    assert!(idle.shared_bytes > 0);
    let listed = repository(&disk).points().unwrap();
    assert!(listed.damaged.is_empty());
    assert_eq!(listed.points.len(), 6);
    for (number, model) in &story.points {
        let verified = repository(&disk).verify(*number).unwrap();
        assert!(verified.is_sound(), "{:?}", verified.problems);
        assert_eq!(verified.bytes, verified.point.bytes());
        restores_to(&disk, *number, model);
    }
    // A restored database goes on in the same repository.
    repository(&disk).restore(2, "/elsewhere").unwrap();
    let db = Db::open("/elsewhere", Options::default().env(env(&disk))).unwrap();
    db.put("after", "restore").unwrap();
    let made = repository(&disk).back_up(&db).unwrap();
    let mut model = story.points[1].1.clone();
    model.insert(b"after".to_vec(), b"restore".to_vec());
    restores_to(&disk, made.point.number, &model);
}

fn log_bytes(made: &Made) -> u64 {
    let own = made
        .point
        .files
        .iter()
        .filter(|file| file.name.ends_with(".wal"));
    own.map(|file| file.bytes).sum()
}

#[test]
fn pruning_keeps_the_newest_points_and_what_they_need() {
    let story = Story::with_points(5);
    let disk = &story.machine.disk;
    let nothing = repository(disk).prune(9).unwrap();
    assert_eq!((nothing.points.len(), nothing.files), (0, 0));
    let pruned = repository(disk).prune(2).unwrap();
    assert_eq!(
        (&pruned.points[..], &pruned.kept[..]),
        (&[1, 2, 3][..], &[4, 5][..])
    );
    assert!(pruned.files > 0 && pruned.bytes > 0, "{pruned:?}");
    let gone = repository(disk).restore(3, "/restored").unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    for (number, model) in &story.points[3..] {
        restores_to(disk, *number, model);
    }
    let left = disk.list(Path::new("/backups/points")).unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
    let none = repository(disk).prune(0).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
}

/// What each interruption must leave: `kept` whole, and the others whole or gone.
fn examine(disk: &SimVfs, points: &[(u64, Model)], kept: impl Fn(u64) -> bool) {
    let listed = repository(disk).points().unwrap();
    assert!(listed.damaged.is_empty(), "{:?}", listed.damaged);
    let numbers: Vec<u64> = listed.points.iter().map(|point| point.number).collect();
    for (number, model) in points {
        if numbers.contains(number) {
            restores_to(disk, *number, model)
        } else {
            assert!(!kept(*number), "{number} is gone")
        }
    }
}

fn keeps(nth: u64) -> [Keep; 6] {
    let (prefix, sectors) = (Keep::Prefix(nth), Keep::Sectors(nth));
    let (torn, first) = (Keep::Torn(nth), Keep::First(nth % 7));
    [Keep::Nothing, Keep::All, prefix, sectors, torn, first]
}

#[test]
fn a_backup_cut_at_any_call_leaves_the_earlier_points() {
    let calls = AtomicU64::new(0);
    for nth in (0..).step_by(3) {
        let mut story = Story::with_points(2);
        story.write();
        let met = story.arm(nth, Fault::PowerCut);
        let made = repository(&story.machine.disk).back_up(&story.db);
        let met = met.load(Ordering::Relaxed);
        assert_eq!(made.is_err(), met);
        let newest = (3, story.model.clone());
        story.points.push(newest);
        for keep in keeps(nth) {
            let disk = story.machine.disk.power_cut(keep);
            examine(&disk, &story.points, |number| number < 3 || !met);
            // The next one works, and so does pruning.
            let machine = Machine { disk, seed: 2 };
            let (db, _runtime) = machine.open(small());
            let next = repository(&machine.disk).back_up(&db).unwrap();
            let pruned = repository(&machine.disk).prune(1).unwrap();
            assert_eq!(pruned.kept, [next.point.number]);
            let verified = repository(&machine.disk).verify(next.point.number);
            assert!(verified.unwrap().is_sound());
            let points = machine.disk.list(Path::new("/backups/points")).unwrap();
            assert_eq!(points.len(), 1, "{points:?}");
        }
        if !met {
            break;
        }
        calls.fetch_add(1, Ordering::Relaxed);
    }
    assert!(calls.load(Ordering::Relaxed) > 8);
}

#[test]
fn a_first_backup_cut_at_any_call_is_in_nobodys_way() {
    for nth in 0.. {
        let mut story = Story::with_points(0);
        story.write();
        let met = story.arm(nth, Fault::PowerCut);
        let made = repository(&story.machine.disk).back_up(&story.db);
        if !met.load(Ordering::Relaxed) {
            made.unwrap();
            break;
        }
        for keep in keeps(nth) {
            let disk = story.machine.disk.power_cut(keep);
            let machine = Machine { disk, seed: 2 };
            let (db, _runtime) = machine.open(small());
            repository(&machine.disk).back_up(&db).unwrap();
        }
    }
}

#[test]
fn a_pruning_cut_at_any_call_leaves_what_is_kept_and_nothing_broken() {
    for nth in 0.. {
        let story = Story::with_points(4);
        let met = story.arm(nth, Fault::PowerCut);
        let pruned = repository(&story.machine.disk).prune(2);
        let met = met.load(Ordering::Relaxed);
        assert_eq!(pruned.is_err(), met);
        for keep in keeps(nth) {
            let disk = story.machine.disk.power_cut(keep);
            examine(&disk, &story.points, |number| number > 2);
            repository(&disk).prune(2).unwrap();
            examine(&disk, &story.points, |number| number > 2);
        }
        if !met {
            break;
        }
    }
}

#[test]
fn a_restore_cut_at_any_call_leaves_no_database_or_a_whole_one() {
    let story = Story::with_points(2);
    for nth in 0.. {
        let disk = story.machine.disk.process_kill();
        let machine = Machine { disk, seed: 3 };
        let story = Story {
            machine,
            db: story.db.clone(),
            points: story.points.clone(),
            model: story.model.clone(),
            rng: story.rng.clone(),
        };
        let met = story.arm(nth, Fault::PowerCut);
        let restored = repository(&story.machine.disk).restore(1, "/restored");
        let met = met.load(Ordering::Relaxed);
        assert_eq!(restored.is_err(), met);
        for keep in keeps(nth) {
            let disk = story.machine.disk.power_cut(keep);
            let is_there = disk.list(Path::new("/restored")).is_ok();
            assert!(is_there || met);
            if !is_there {
                repository(&disk).restore(1, "/restored").unwrap();
            }
            let db = Db::open("/restored", Options::default().env(env(&disk))).unwrap();
            same(&db, &story.points[0].1);
        }
        if !met {
            break;
        }
    }
}

#[test]
fn a_failure_of_any_call_is_an_error_and_leaves_the_points() {
    for kind in [IoKind::Other, IoKind::StorageFull] {
        for nth in (0..).step_by(2) {
            let mut story = Story::with_points(1);
            story.write();
            let met = story.arm(nth, Fault::Fail(kind));
            let repository = repository(&story.machine.disk);
            let made = repository.back_up(&story.db);
            let pruned = repository.prune(1);
            let restored = repository.restore(2, "/elsewhere");
            story.machine.disk.clear_faults();
            let errors = [made.err(), pruned.err(), restored.err()];
            for error in errors.into_iter().flatten() {
                assert!(
                    error.file().is_some() || error.kind() == ErrorKind::NotFound,
                    "{error}"
                );
            }
            let met = met.load(Ordering::Relaxed);
            let disk = story.machine.disk.power_cut(Keep::Nothing);
            let newest = (2, story.model.clone());
            story.points.push(newest);
            let listed = repository.points().unwrap();
            let last = listed.points.last().unwrap().number;
            if met {
                examine(&disk, &story.points, |number| number == last && last == 1);
            } else {
                examine(&disk, &story.points, |number| number == 2);
                break;
            }
        }
    }
}

#[test]
fn what_a_failed_sync_of_a_directory_may_have_lost_is_done_again() {
    for nth in 0.. {
        let mut story = Story::with_points(0);
        story.write();
        let met = story.fail(REPOSITORY, Op::SyncDir, nth + 1);
        let backups = repository(&story.machine.disk);
        // Each of them that fails is tried again, as a program of its own does every hour.
        let back_up = |story: &Story| {
            let attempt = || backups.back_up(&story.db).map(|made| made.point.number);
            attempt().or_else(|_| attempt()).unwrap()
        };
        let durable = |story: &Story, numbers: &[u64]| {
            story.holds(numbers);
            let disk = story.machine.disk.power_cut(Keep::Nothing);
            restores_to(&disk, *numbers.last().unwrap(), &story.model);
        };
        let first = back_up(&story);
        durable(&story, &[first]);
        let prune = || backups.prune(1).or_else(|_| backups.prune(1)).unwrap().kept;
        if backups.back_up(&story.db).is_err() {
            // What is kept is not what the failed one may have left.
            durable(&story, &prune());
        }
        story.write();
        let second = back_up(&story);
        durable(&story, &[second]);
        assert_eq!(prune(), [second]);
        durable(&story, &[second]);
        story.machine.disk.clear_faults();
        if !met.load(Ordering::Relaxed) {
            assert!(nth > 6, "{nth}");
            break;
        }
    }
}

#[test]
fn names_of_an_attempt_that_did_not_end_are_given_again_before_a_sync_counts() {
    let mut story = Story::with_points(0);
    story.write();
    let backups = repository(&story.machine.disk);
    for (op, nth) in [(Op::Create, 3), (Op::SyncDir, 1)] {
        story.fail("/backups/data", op, nth);
        backups.back_up(&story.db).unwrap_err();
    }
    story.machine.disk.clear_faults();
    let made = backups.back_up(&story.db).unwrap();
    story.holds(&[made.point.number]);
}

#[test]
fn a_removal_that_did_not_end_is_done_again_before_a_sync_counts() {
    let story = Story::with_points(4);
    let backups = repository(&story.machine.disk);
    for (op, nth) in [(Op::Rename, 2), (Op::SyncDir, 1)] {
        story.fail("/backups/points", op, nth);
        backups.prune(1).unwrap_err();
    }
    story.machine.disk.clear_faults();
    assert_eq!(backups.prune(1).unwrap().kept, [4]);
    story.holds(&[4]);
}

#[test]
fn damage_is_found_and_never_restored() {
    let story = Story::with_points(2);
    let disk = &story.machine.disk;
    let point = repository(disk).points().unwrap().points.remove(0);
    let mut found = 0;
    for file in &point.files {
        let layout = repository(disk);
        let place = layout
            .layout()
            .place(Path::new("/backups/points/000001"), file);
        for bit in [3, file.bytes * 4, file.bytes * 8 - 1] {
            let disk = disk.process_kill();
            assert!(disk.flip_bit(&place, bit), "{place:?}");
            let verified = repository(&disk).verify(1).unwrap();
            assert_eq!(verified.problems.len(), 1, "{place:?}");
            assert_eq!(verified.problems[0].kind(), ErrorKind::Corruption);
            assert_eq!(verified.problems[0].file(), Some(&*place));
            let error = repository(&disk).restore(1, "/restored").unwrap_err();
            assert_eq!(
                (error.kind(), error.file()),
                (ErrorKind::Corruption, Some(&*place))
            );
            assert!(disk.list(Path::new("/restored")).is_err());
            found += 1;
        }
        let disk = disk.process_kill();
        disk.remove(&place).unwrap();
        assert_eq!(repository(&disk).verify(1).unwrap().problems.len(), 1);
        disk.write_file(&place, b"short");
        assert_eq!(repository(&disk).verify(1).unwrap().problems.len(), 1);
    }
    assert!(found > 12, "{found}");
    // A point that cannot be read keeps what others need from being removed.
    assert!(disk.flip_bit(Path::new("/backups/points/000001/POINT"), 77));
    let listed = repository(disk).points().unwrap();
    assert_eq!((listed.points.len(), listed.damaged.len()), (1, 1));
    let error = repository(disk).prune(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    restores_to(disk, 2, &story.points[1].1);
}

#[test]
fn a_damaged_database_gives_no_point() {
    let story = Story::with_points(1);
    story.db.compact().unwrap();
    let disk = &story.machine.disk;
    let files = story.db.checkpoint("/checkpoint").unwrap().files;
    let table = files.iter().find(|file| file.name.ends_with(".key"));
    let path = Path::new("/db").join(&table.unwrap().name);
    assert!(disk.flip_bit(&path, 1000));
    let error = repository(disk).back_up(&story.db).unwrap_err();
    assert_eq!(
        (error.kind(), error.file()),
        (ErrorKind::Corruption, Some(&*path))
    );
    assert_eq!(repository(disk).points().unwrap().points.len(), 1);
    restores_to(disk, 1, &story.points[0].1);
}

/// The medium changes a byte of what is written to it, as long as `is_on`.
#[test]
fn a_copy_that_does_not_read_as_it_was_written_is_no_copy() {
    let story = Story::with_points(1);
    story.db.compact().unwrap();
    let disk = story.machine.disk.clone();
    let inner = disk.clone();
    disk.set_look_fault(Box::new(move |call| {
        let name = call.path.to_string_lossy().into_owned();
        if call.op == crate::vfs::sim::Op::Read && name.ends_with(".tmp") {
            inner.flip_bit(call.path, 800);
        }
        Fault::None
    }));
    let error = repository(&disk).back_up(&story.db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    disk.clear_faults();
    assert_eq!(repository(&disk).points().unwrap().points.len(), 1);
    repository(&disk).back_up(&story.db).unwrap();
    restores_to(&disk, 2, &story.model);
}

#[test]
fn what_is_no_repository_of_this_database_is_refused() {
    let story = Story::with_points(1);
    let disk = &story.machine.disk;
    let kind = |result: crate::Result<Made>| result.unwrap_err().kind();
    let inside = env(disk).repository("/db/backups");
    assert_eq!(kind(inside.back_up(&story.db)), ErrorKind::InvalidArgument);
    disk.write_file(Path::new("/other/notes.txt"), b"mine");
    let foreign = env(disk).repository("/other");
    let error = foreign.back_up(&story.db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.remedy().contains("a new directory"), "{error}");
    // Whoever reads has the wrong path: a new directory is of no use.
    for error in [
        foreign.points().unwrap_err(),
        foreign.prune(1).unwrap_err(),
        foreign.verify(1).unwrap_err(),
        foreign.restore(1, "/restored").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.remedy().contains("check the path"), "{error}");
    }
    let absent = env(disk).repository("/absent");
    assert_eq!(absent.points().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(absent.prune(1).unwrap_err().kind(), ErrorKind::NotFound);
    let another = Db::open("/another", small().env(env(disk))).unwrap();
    assert_eq!(
        kind(repository(disk).back_up(&another)),
        ErrorKind::InvalidArgument
    );
    let taken = repository(disk).restore(1, "/db").unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidArgument);
    let _held = disk.lock(Path::new("/backups/LOCK")).unwrap();
    assert_eq!(kind(repository(disk).back_up(&story.db)), ErrorKind::Locked);
    assert_eq!(
        repository(disk).prune(1).unwrap_err().kind(),
        ErrorKind::Locked
    );
    // Reading needs no lock.
    restores_to(disk, 1, &story.model);
}
