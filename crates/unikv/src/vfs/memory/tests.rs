use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn create(files: &MemoryVfs, path: &str, mode: WriteMode) -> Box<dyn WriteFile> {
    files.create(Path::new(path), mode, 0).unwrap()
}

fn read(files: &MemoryVfs, path: &str) -> Vec<u8> {
    let path = Path::new(path);
    let file = files.open(path, Access::Random).unwrap();
    let mut bytes = vec![1; file.len().unwrap() as usize + 3];
    let got = file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(got as u64, files.len(path).unwrap());
    bytes.truncate(got);
    bytes
}

#[test]
fn files_hold_what_was_written_at_any_length_and_offset() {
    let files = MemoryVfs::default();
    let mut rng = SmallRng::seed_from_u64(1);
    for nth in 0..40 {
        let mode = [WriteMode::Bulk, WriteMode::Log][nth % 2];
        let path = format!("/file{nth}");
        let (mut file, mut model) = (create(&files, &path, mode), Vec::new());
        for _ in 0..rng.random_range(1..40) {
            let mut bytes = vec![0_u8; rng.random_range(0..20_000)];
            rng.fill(&mut bytes[..]);
            match mode {
                WriteMode::Log if rng.random_bool(0.3) && !model.is_empty() => {
                    let back = rng.random_range(0..=model.len().min(500));
                    file.rewind(back as u64).unwrap();
                    // What is not written over stays.
                    let at = model.len() - back;
                    let over = bytes.len().min(back);
                    model[at..at + over].copy_from_slice(&bytes[..over]);
                    model.extend_from_slice(&bytes[over..]);
                    file.append(&bytes).unwrap();
                    let left = model.len() as u64 - file.len();
                    file.append(&model[model.len() - left as usize..]).unwrap();
                }
                WriteMode::Bulk if rng.random_bool(0.3) && model.len() > bytes.len() => {
                    let at = rng.random_range(0..=model.len() - bytes.len());
                    model[at..at + bytes.len()].copy_from_slice(&bytes);
                    file.replace(at as u64, &bytes).unwrap();
                }
                _ => {
                    model.extend_from_slice(&bytes);
                    file.append(&bytes).unwrap();
                }
            }
            assert_eq!(file.len(), model.len() as u64);
        }
        assert!(file.replace(model.len() as u64, b"x").is_err());
        file.sync_handle().sync().unwrap();
        file.finish().unwrap();
        assert!(read(&files, &path) == model);
        let open = files.open(Path::new(&path), Access::Random).unwrap();
        for _ in 0..50 {
            let at = rng.random_range(0..model.len() + 10);
            let mut buf = vec![7; rng.random_range(0..100_000)];
            let got = open.read_at(&mut buf, at as u64).unwrap();
            let there = &model[at.min(model.len())..];
            assert!(buf[..got] == there[..there.len().min(buf.len())]);
        }
    }
}

#[test]
fn what_is_removed_stays_while_it_is_open_and_is_counted_until_then() {
    let files = MemoryVfs::default();
    let path = Path::new("/dir/file");
    assert!(files.create(path, WriteMode::Bulk, 0).is_err());
    files.create_dir_all(Path::new("/dir")).unwrap();
    let mut file = create(&files, "/dir/file", WriteMode::Bulk);
    file.append(&vec![3; 300_000]).unwrap();
    file.finish().unwrap();
    let taken = files.bytes();
    assert!((300_000..320_000).contains(&taken), "{taken}");
    let open = files.open(path, Access::Random).unwrap();
    assert!(files.create(path, WriteMode::Bulk, 0).is_err());
    files.link(path, Path::new("/dir/other")).unwrap();
    assert_eq!(files.bytes(), taken);
    files.remove(path).unwrap();
    assert!(files.open(path, Access::Random).is_err());
    files.remove(Path::new("/dir/other")).unwrap();
    assert_eq!(files.bytes(), taken);
    let mut byte = [0];
    assert_eq!(open.read_at(&mut byte, 299_999).unwrap(), 1);
    assert_eq!(byte, [3]);
    drop(open);
    assert_eq!(files.bytes(), 0);
    // Space that is kept back takes none.
    files.reserve(path, 1 << 40).unwrap();
    assert_eq!((files.len(path).unwrap(), files.bytes()), (1 << 40, 0));
    let open = files.open(path, Access::Random).unwrap();
    assert_eq!(open.read_at(&mut byte, 1 << 39).unwrap(), 1);
    assert_eq!(byte, [0]);
}

#[test]
fn directories_and_names_are_those_of_a_file_system() {
    let files = MemoryVfs::default();
    let at = Path::new;
    files.create_dir_all(at("/a/b")).unwrap();
    files.create_dir_all(at("/a/b")).unwrap();
    for name in ["/a/b/one", "/a/b/two", "relative"] {
        let mut file = create(&files, name, WriteMode::Log);
        file.append(name.as_bytes()).unwrap();
    }
    assert_eq!(files.list(at("/a")).unwrap(), ["b"]);
    assert_eq!(files.list(at("/a/b")).unwrap(), ["one", "two"]);
    assert_eq!(files.list(at("")).unwrap(), ["relative"]);
    assert_eq!(
        files.list(at("/none")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let kind = files.list(at("/a/b/one")).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::NotADirectory);
    assert!(files.create_dir_all(at("/a/b/one/more")).is_err());
    files.rename(at("/a/b/one"), at("/a/b/two")).unwrap();
    assert_eq!(read(&files, "/a/b/two"), b"/a/b/one");
    assert!(files.rename(at("/a/b/one"), at("/a/b/three")).is_err());
    files.rename(at("/a"), at("/c")).unwrap();
    assert!(files.list(at("/a")).is_err());
    assert_eq!(read(&files, "/c/b/two"), b"/a/b/one");
    assert!(files.remove_dir(at("/c/b")).is_err());
    files.remove(at("/c/b/two")).unwrap();
    files.remove_dir(at("/c/b")).unwrap();
    files.create_dir_all(at("/d")).unwrap();
    assert!(files.rename(at("/d"), at("/c")).is_err());

    let lock = files.lock(at("/c/LOCK")).unwrap();
    let held = files.lock(at("/c/LOCK"));
    assert!(matches!(held, Err(LockError::Held(Some(pid))) if pid == std::process::id()));
    drop(lock);
    files.lock(at("/c/LOCK")).unwrap();
}
