//! Data files under loom: an obsolete one is reported once, when its last holder has released, and
//! a thread that waits for that is woken; handles are opened and closed beside readers.

use super::*;
use crate::base::sync;
use crate::testing::loom_model::{errs, holds};
use crate::vfs::os::OsRuntime;
use crate::vfs::sim::SimVfs;
use loom::thread;

const CONTENT: [[u8; 4]; 2] = [*b"zero", *b"one!"];

fn store_with_two_files() -> (Arc<FileStore>, [sync::Arc<DataFile>; 2]) {
    let disk = SimVfs::new();
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime: Arc::new(OsRuntime::default()),
    };
    let store = FileStore::new(env, "/db".into(), DatabaseId([1; 16]), 1);
    let files = [0, 1].map(|i| {
        let path = PathBuf::from(format!("/db/{i}"));
        disk.write_file(&path, &CONTENT[i]);
        let number = i as u64;
        let file = store.data_file(path, FileNumber(number), FileUid(number), Access::Random);
        sync::Arc::new(file)
    });
    (store, files)
}

/// A reader and a job release the same two files, which the job has dropped; the worker waits for
/// their paths. It reads the epoch of its event before it looks; or after, which is wrong.
fn last_holder(looks_too_early: bool) {
    let (store, files) = store_with_two_files();
    let reader = thread::spawn({
        let files = files.clone();
        move || drop(files)
    });
    let job = thread::spawn(move || {
        for file in files {
            file.mark_obsolete(4);
            file.mark_obsolete(4);
        }
    });
    let mut told = Vec::new();
    while told.len() < 2 {
        let early = looks_too_early.then(|| store.take_obsolete());
        let epoch = store.work().epoch();
        let taken = early.unwrap_or_else(|| store.take_obsolete());
        if taken.is_empty() {
            store.work().wait_past(epoch, None);
        }
        told.extend(taken);
    }
    reader.join().unwrap();
    job.join().unwrap();
    told.sort();
    assert_eq!(told, [PathBuf::from("/db/0"), PathBuf::from("/db/1")]);
    assert_eq!(store.take_obsolete(), Vec::<PathBuf>::new());
    assert_eq!(store.pinned(), (0, 0));
}

#[test]
fn an_obsolete_file_is_reported_once_by_its_last_holder() {
    holds(|| last_holder(false));
    errs(|| last_holder(true));
}

/// Two threads remove what is obsolete; or one of them without the lock, which is wrong.
fn removal_by_two(takes: bool) {
    let (store, [first, _other]) = store_with_two_files();
    first.mark_obsolete(4);
    let path = first.path().to_owned();
    drop(first);
    let worker = thread::spawn({
        let store = Arc::clone(&store);
        move || {
            if takes {
                store.take_obsolete().iter().for_each(|path| {
                    let _is_gone = store.env().vfs.remove(path);
                })
            } else {
                store.remove_obsolete()
            }
        }
    });
    store.remove_obsolete();
    assert!(store.env().vfs.len(&path).is_err());
    worker.join().unwrap();
}

#[test]
fn a_removal_returns_when_that_of_another_thread_is_done() {
    holds(|| removal_by_two(false));
    errs(|| removal_by_two(true));
}

fn read(file: &DataFile) {
    let mut buf = [0; 4];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(buf, CONTENT[file.number().0 as usize]);
}

/// Two readers of two files of which one may be open.
fn readers_of_too_many_files() {
    let (store, files) = store_with_two_files();
    let other = thread::spawn({
        let files = files.clone();
        move || files.iter().for_each(|file| read(file))
    });
    read(&files[0]);
    other.join().unwrap();
    let open = store.open_files.lock();
    assert_eq!(open.ring.len(), 1);
    let has_handle = |file: &&sync::Arc<DataFile>| file.slot.handle.load().is_some();
    let with_handle: Vec<_> = files.iter().filter(has_handle).collect();
    assert_eq!(with_handle.len(), 1);
    assert_eq!(open.ring[0].as_ptr(), Arc::as_ptr(&with_handle[0].slot));
}

#[test]
fn the_ring_has_the_open_files_and_no_others() {
    holds(readers_of_too_many_files);
}
