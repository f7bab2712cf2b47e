//! Every way in which the file layer (`vfs/os` of the engine) touches the files of a database, with
//! its reason. What the command does beyond it fails the check: either something goes round the
//! file layer, or this list must learn of it.

/// What a file of a database directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The directory itself.
    Directory,
    /// `CURRENT`.
    Current,
    /// `CURRENT.tmp`.
    Temp,
    /// `CACHE-HINTS`, and the next one until it is renamed.
    Hints,
    /// `VISIBLE`, and the next one until it is renamed.
    Visible,
    /// `STATS`, and the next one until it is renamed.
    Figures,
    /// `LOCK`.
    Lock,
    /// `BALLAST`.
    Ballast,
    /// A manifest.
    Manifest,
    /// A segment of the write-ahead log.
    Wal,
    /// A record file or a key table.
    Data,
    /// What a repair sorts in files, which it removes again.
    Sort,
    /// `REPAIRING`, as long as a repair is under way.
    Mark,
    /// None of ours.
    Other,
}

impl Kind {
    /// Of a file in the database directory `dir`.
    pub fn of(path: &str, dir: &str) -> Kind {
        let name = path
            .strip_prefix(dir)
            .unwrap_or(path)
            .trim_start_matches('/');
        match name {
            "" => Kind::Directory,
            "CURRENT" => Kind::Current,
            "CURRENT.tmp" => Kind::Temp,
            "CACHE-HINTS" | "CACHE-HINTS.tmp" => Kind::Hints,
            "VISIBLE" | "VISIBLE.tmp" => Kind::Visible,
            "STATS" | "STATS.tmp" => Kind::Figures,
            "LOCK" => Kind::Lock,
            "BALLAST" => Kind::Ballast,
            // The directory that the database's is in.
            ".." => Kind::Directory,
            "REPAIRING" => Kind::Mark,
            _ if name.starts_with("MANIFEST-") => Kind::Manifest,
            _ if name.ends_with(".wal") => Kind::Wal,
            _ if name.ends_with(".rec") || name.ends_with(".key") => Kind::Data,
            _ if name.ends_with(".sort") => Kind::Sort,
            _ => Kind::Other,
        }
    }
}

use Kind::{
    Ballast, Current, Data, Directory, Figures, Hints, Lock, Manifest, Mark, Sort, Temp, Visible,
    Wal,
};

/// One way to touch files: the call, the kinds of files, the flags (all of them, without
/// `O_CLOEXEC`), and why.
pub type Known = (&'static str, &'static [Kind], &'static str, &'static str);

const WRITTEN: &[Kind] = &[Temp, Hints, Figures, Manifest, Wal, Data];

/// The list.
pub const KNOWN: &[Known] = &[
    ("mkdir", &[Directory], "", "create_dir_all"),
    ("rmdir", &[Directory], "", "remove_dir, by destroy"),
    ("openat", &[Directory], "O_RDONLY", "sync_dir of a parent"),
    (
        "openat",
        &[Directory],
        "O_RDONLY|O_DIRECTORY",
        "in_directory: held from before the lock is taken; and list",
    ),
    ("getdents64", &[Directory], "", "list"),
    ("fsync", &[Directory], "", "sync_dir"),
    ("fcntl", &[Directory], "F_GETFL", "list"),
    ("fstatfs", &[Directory], "", "free_space"),
    (
        "openat",
        &[Lock],
        "O_RDWR|O_CREAT",
        "lock: created once, removed by destroy",
    ),
    ("flock", &[Lock], "LOCK_EX|LOCK_NB", "lock"),
    ("fstat", &[Lock], "", "lock: has it its name yet"),
    (
        "newfstatat",
        &[Hints, Visible],
        "",
        "stats: what the files take",
    ),
    ("newfstatat", &[Lock], "", "lock: has it its name yet"),
    ("flock", &[Lock], "LOCK_UN", "lock, given back"),
    (
        "openat",
        &[Visible],
        "O_RDWR|O_CREAT|O_EXCL",
        "create_page: what secondaries see of a writer",
    ),
    ("flock", &[Visible], "LOCK_EX|LOCK_NB", "create_page: held"),
    ("flock", &[Visible], "LOCK_UN", "a page given up"),
    (
        "fcntl",
        &[Visible],
        "F_DUPFD_CLOEXEC",
        "create_page: held apart from the mapping",
    ),
    ("fstatfs", &[Visible], "", "create_page: may it be shared"),
    ("pwrite64", &[Visible], "", "create_page: its blocks"),
    (
        "mmap",
        &[Visible],
        "PROT_READ|PROT_WRITE|MAP_SHARED",
        "create_page: the words",
    ),
    ("renameat", &[Visible], "", "rename: a page takes its name"),
    (
        "openat",
        &[Visible],
        "O_RDONLY",
        "a page of an earlier opening, looked at by a sweep",
    ),
    ("pread64", &[Visible], "", "the same"),
    ("fadvise64", &[Visible], "POSIX_FADV_SEQUENTIAL", "the same"),
    (
        "flock",
        &[Visible],
        "LOCK_SH|LOCK_NB",
        "a secondary asks whether the writer lives, of whose page it has a name",
    ),
    ("mmap", &[Visible], "PROT_READ|MAP_SHARED", "a secondary"),
    (
        "statx",
        &[Visible],
        "AT_STATX_SYNC_AS_STAT|AT_EMPTY_PATH|STATX_ALL|STATX_MNT_ID",
        "a secondary: is it long enough to be mapped",
    ),
    ("close", &[Visible], "", "the end of any of these"),
    (
        "ftruncate",
        &[Lock],
        "",
        "lock: the holder's process id is written again",
    ),
    ("pwrite64", &[Lock], "", "lock: the holder's process id"),
    ("pread64", &[Lock], "", "lock: who holds it"),
    (
        "openat",
        &[Current, Hints, Manifest, Wal, Data],
        "O_RDONLY",
        "open for reading",
    ),
    (
        "fadvise64",
        &[Current, Hints, Manifest, Wal, Data],
        "POSIX_FADV_SEQUENTIAL",
        "open for reading front to back",
    ),
    (
        "fadvise64",
        &[Data],
        "POSIX_FADV_RANDOM",
        "open for reading at random",
    ),
    ("fadvise64", &[Data], "POSIX_FADV_WILLNEED", "will_need"),
    (
        "pread64",
        &[Current, Hints, Manifest, Wal, Data],
        "",
        "read_at",
    ),
    ("preadv2", &[Data], "RWF_NOWAIT", "read_cached_at"),
    (
        "openat",
        &[Data],
        "O_RDONLY|O_DIRECT",
        "read_direct: later by `io_uring_enter`, which names no file",
    ),
    (
        "openat",
        WRITTEN,
        "O_RDWR|O_CREAT|O_EXCL",
        "create: never over an existing file",
    ),
    (
        "fallocate",
        &[Data],
        "FALLOC_FL_KEEP_SIZE",
        "create: room ahead, without a change of the length",
    ),
    (
        "pwrite64",
        &[Temp, Figures, Manifest, Wal],
        "",
        "append to a log",
    ),
    (
        "openat",
        &[Wal],
        "O_RDWR",
        "overwrite: a segment that is not needed any more",
    ),
    (
        "pwrite64",
        &[Hints, Data],
        "",
        "append to a bulk file, in whole buffers",
    ),
    (
        "fcntl",
        &[Hints, Data],
        "F_GETFL",
        "direct writes of a bulk file",
    ),
    (
        "fcntl",
        &[Hints, Data],
        "F_SETFL",
        "direct writes of a bulk file",
    ),
    (
        "ftruncate",
        &[Data],
        "",
        "finish: what was preallocated and is not needed",
    ),
    (
        "sync_file_range",
        &[Hints, Data],
        "SYNC_FILE_RANGE_WRITE",
        "finish: begins to write out what is left",
    ),
    ("fdatasync", WRITTEN, "", "sync and finish"),
    ("openat", &[Ballast], "O_WRONLY|O_CREAT|O_EXCL", "reserve"),
    ("fallocate", &[Ballast], "", "reserve"),
    ("fdatasync", &[Ballast], "", "reserve"),
    (
        "renameat",
        &[Temp, Current],
        "",
        "rename: CURRENT.tmp becomes CURRENT",
    ),
    (
        "renameat",
        &[Hints],
        "",
        "rename: the same of CACHE-HINTS, which nothing relies on",
    ),
    (
        "renameat",
        &[Figures],
        "",
        "rename: the same of STATS, which is for other processes",
    ),
    (
        "renameat",
        &[Wal],
        "",
        "rename: a segment written over takes its own name",
    ),
    (
        "unlinkat",
        &[Temp, Hints, Figures, Ballast, Manifest, Wal, Data, Visible],
        "",
        "remove",
    ),
    (
        "openat",
        &[Sort, Mark],
        "O_RDWR|O_CREAT|O_EXCL",
        "a repair's files: created like others",
    ),
    ("pwrite64", &[Sort, Mark], "", "a repair's files: append"),
    (
        "fdatasync",
        &[Mark],
        "",
        "a repair's mark alone outlives a crash",
    ),
    (
        "openat",
        &[Sort],
        "O_RDONLY",
        "a repair reads what it sorted",
    ),
    (
        "fadvise64",
        &[Sort],
        "POSIX_FADV_SEQUENTIAL",
        "front to back",
    ),
    ("pread64", &[Sort], "", "read_at"),
    ("unlinkat", &[Sort, Mark], "", "a repair's end"),
    ("close", &[Sort, Mark], "", "the end of any of these"),
    (
        "statx",
        &[Directory, Current, Hints, Manifest, Wal, Data],
        "*",
        "of an open file, and whether a directory is there",
    ),
    (
        "newfstatat",
        &[Current, Manifest, Wal, Data, Ballast],
        "*",
        "len, and whether a name is free",
    ),
    (
        "close",
        &[
            Directory, Current, Temp, Hints, Figures, Lock, Ballast, Manifest, Wal, Data,
        ],
        "",
        "the end of any of these",
    ),
];

/// The row for a call with `flags` on a file of this kind.
pub fn row(call: &str, kind: Kind, flags: &[&str]) -> Option<&'static Known> {
    let mut flags: Vec<&str> = flags.to_vec();
    flags.retain(|flag| *flag != "O_CLOEXEC" && *flag != "O_LARGEFILE");
    // The status flags that `F_SETFL` sets are the file's own, with or without `O_DIRECT`.
    if call == "fcntl" {
        flags.truncate(1);
    }
    let flags = flags.join("|");
    KNOWN.iter().find(|(name, kinds, with, _)| {
        *name == call && kinds.contains(&kind) && (*with == "*" || *with == flags)
    })
}

/// Files outside the database that the process may touch, by the beginning of their paths: what its
/// loader, the standard library and the load itself need.
pub const OUTSIDE: &[(&str, &str)] = &[
    ("/etc/ld.so", "the loader"),
    ("/lib", "the loader"),
    ("/usr/lib", "the loader"),
    (
        "/proc/",
        "the standard library: the stack's bounds; the allocator: overcommitment",
    ),
    (
        "/sys/fs/cgroup",
        "the standard library: how many threads the process may have",
    ),
    (
        "/sys/devices/system/cpu",
        "the allocator and the standard library: the processors",
    ),
    ("/dev/null", "the streams of the test"),
];
