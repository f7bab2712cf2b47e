//! What an error about stored bytes must say.

use unikv::{Error, ErrorKind};

/// Asserts that `error` is one that bytes on a disk explain: damage, with file and offset, or a
/// format that is not known, with the file.
pub fn damage(error: &Error) {
    match error.kind() {
        ErrorKind::Corruption => {
            assert!(error.file().is_some(), "no file: {error:?}");
            assert!(error.offset().is_some(), "no offset: {error:?}");
        }
        ErrorKind::Incompatible => assert!(error.file().is_some(), "no file: {error:?}"),
        _ => panic!("bytes on a disk do not explain this: {error:?}"),
    }
    assert!(!error.to_string().is_empty());
}

/// As [`damage`] for a result; the value if there is one.
pub fn checked<T>(result: unikv::Result<T>) -> Option<T> {
    result.inspect_err(damage).ok()
}

/// As [`checked`] for calls of an open database, which may also say that an earlier error stands in
/// their way, or that the options that are stored cannot be used.
pub fn checked_call<T>(result: unikv::Result<T>) -> Option<T> {
    let in_the_way = [
        ErrorKind::WritesSuspended,
        ErrorKind::InvalidArgument,
        ErrorKind::DiskFull,
    ];
    match result {
        Err(error) if in_the_way.contains(&error.kind()) => None,
        other => checked(other),
    }
}
