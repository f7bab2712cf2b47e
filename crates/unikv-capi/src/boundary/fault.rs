//! What went wrong in a call, as C sees it: a message for `errptr`, and its details by thread.
//!
//! The details of the last failed call are a thread's own, like `errno`. They are all that a
//! function without `errptr` has to say.

use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use unikv::{Error, ErrorKind};

/// What a call returns inside the library.
pub(crate) type Outcome<T> = Result<T, Fault>;

/// Declares the kinds of error once: their numbers, the header's text, the engine's kinds.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $variant:ident = $number:literal $name:literal $prefix:literal;)*) => {
        /// The kinds of error, with the numbers that C sees; they never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($(#[doc = $doc])* $variant = $number,)*
        }

        impl Kind {
            /// Name, number and description of each, for the header.
            #[cfg(test)]
            pub(crate) const ALL: &[(&str, i32, &[&str])] = &[
                $(($name, $number, &[$($doc),*]),)*
            ];

            /// What LevelDB's messages of such an error begin with.
            fn prefix(self) -> &'static str {
                match self {
                    $(Kind::$variant => $prefix,)*
                }
            }

            fn of(kind: ErrorKind) -> Kind {
                match kind {
                    $(ErrorKind::$variant => Kind::$variant,)*
                    // A kind that this library does not know yet.
                    _ => Kind::Internal,
                }
            }
        }
    };
}

kinds! {
    /// The call is wrong: fix the call. Nothing changed.
    InvalidArgument = 1 "unikv_invalid_argument" "Invalid argument";
    /// Bytes on disk are not what was written: restore the file, or repair.
    Corruption = 2 "unikv_corruption" "Corruption";
    /// The system refused: fix the cause that the message names. A write may have happened.
    Io = 3 "unikv_io_error" "IO error";
    /// The disk is full: free space or delete keys. Nothing of the call was written.
    DiskFull = 4 "unikv_disk_full" "IO error";
    /// Another process or handle has the database open.
    Locked = 5 "unikv_locked" "IO error";
    /// There is no database.
    NotFound = 6 "unikv_not_found" "NotFound";
    /// Something else, or a newer format.
    Incompatible = 7 "unikv_incompatible" "Invalid argument";
    /// Writing is suspended after a failed write; its outcome is unknown. Reads go on.
    WritesSuspended = 8 "unikv_writes_suspended" "IO error";
    /// The database has been closed.
    Closed = 9 "unikv_closed" "IO error";
    /// A bug of UniKV: report it with the message, close and reopen.
    Internal = 10 "unikv_internal_error" "Internal error";
    /// It does not fit into the memory budget, or malloc failed. Nothing changed.
    OutOfMemory = 11 "unikv_out_of_memory" "Out of memory";
    /// This is a child of the process that opened the database.
    Forked = 12 "unikv_forked" "Not supported";
    /// A write that may not wait would have to. Nothing changed.
    WouldBlock = 13 "unikv_would_block" "Busy";
    /// The keyspace is gone, or never was.
    NoSuchKeyspace = 14 "unikv_no_such_keyspace" "NotFound";
    /// A transaction conflicts with another write: begin it again. Nothing changed.
    Conflict = 15 "unikv_conflict" "Busy";
    /// The changes after a token are not kept any more, or it is of another history of the
    /// database: read everything, and begin with a new token.
    HistoryGone = 16 "unikv_history_gone" "NotFound";
    /// A read has taken longer than its timeout. Nothing changed.
    TimedOut = 17 "unikv_timed_out" "IO error";
}

/// An error with everything that C can ask about it.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) message: CString,
    pub(crate) remedy: CString,
    pub(crate) file: Option<CString>,
    pub(crate) offset: Option<u64>,
}

impl Fault {
    /// An error of the call itself, or of this library.
    #[cold]
    pub(crate) fn new(kind: Kind, what: &str, remedy: &str) -> Fault {
        Fault {
            kind,
            message: c_string(format!("{}: {what} ({remedy})", kind.prefix()).into_bytes()),
            remedy: c_string(remedy.as_bytes().to_vec()),
            file: None,
            offset: None,
        }
    }

    /// The call is wrong.
    #[cold]
    pub(crate) fn misuse(what: &str, remedy: &str) -> Fault {
        Fault::new(Kind::InvalidArgument, what, remedy)
    }

    /// Something has panicked.
    #[cold]
    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Fault {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let what = format!("a panic: {}", text.unwrap_or("without a message"));
        let remedy = "this is a bug of UniKV: report it with this message, then close and reopen \
                      the database";
        Fault::new(Kind::Internal, &what, remedy)
    }
}

impl From<Error> for Fault {
    #[cold]
    fn from(error: Error) -> Fault {
        let kind = Kind::of(error.kind());
        let bytes = |name: &OsStr| c_string(name.as_bytes().to_vec());
        Fault {
            kind,
            message: c_string(format!("{}: {error}", kind.prefix()).into_bytes()),
            remedy: c_string(error.remedy().as_bytes().to_vec()),
            file: error.file().map(|file| bytes(file.as_os_str())),
            offset: error.offset(),
        }
    }
}

/// The bytes up to the first NUL, if there is one.
pub(crate) fn c_string(mut bytes: Vec<u8>) -> CString {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    CString::new(bytes).unwrap_or_default()
}

thread_local! {
    static LAST: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

/// Makes this the last error of the thread; of a thread that is ending it is dropped.
#[cold]
pub(crate) fn remember(fault: Fault) {
    let remembered = LAST.try_with(|last| last.replace(Some(fault)));
    drop(remembered);
}

/// Looks at the last error of the thread.
pub(crate) fn last<T>(look: impl FnOnce(Option<&Fault>) -> T) -> T {
    let mut look = Some(look);
    let seen = LAST.try_with(|last| look.take().map(|look| look(last.borrow().as_ref())));
    match (seen, look) {
        (Ok(Some(seen)), _) => seen,
        (_, Some(look)) => look(None),
        // The first `look` was called, so there is what it returned.
        (_, None) => std::process::abort(),
    }
}

/// Forgets the last error of the thread.
pub(crate) fn forget() {
    let forgotten = LAST.try_with(|last| last.replace(None));
    drop(forgotten);
}
