//! What is done when the process has no descriptor left: those who keep files open that they could
//! open again close some, and the call is tried again.
//!
//! Descriptors belong to the process, so any database of it may be the one that closes some.
//!
//! Lock: `KEEPERS`, for a copy of the list; a keeper is asked under none.

use crate::base::sync::unseen::Mutex;
use crate::error::lacks_descriptors;
use crate::vfs::KeepsFilesOpen;
use std::io;
use std::sync::{MutexGuard, PoisonError, Weak};

type Keepers = Vec<Weak<dyn KeepsFilesOpen>>;

/// Outside of any model: models have files of their own.
static KEEPERS: Mutex<Keepers> = Mutex::new(Vec::new());

fn keepers() -> MutexGuard<'static, Keepers> {
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries of a call. Others may take the descriptors that were freed for it.
const TRIES: usize = 16;

/// Has `keeper` asked from now on, for as long as it lives.
pub(super) fn register(keeper: Weak<dyn KeepsFilesOpen>) {
    let mut keepers = keepers();
    if keepers.len() == keepers.capacity() {
        // Not each time: with ten thousand databases that would be their square.
        keepers.retain(|keeper| keeper.strong_count() > 0);
    }
    keepers.push(keeper);
}

/// Makes a call that takes a descriptor.
pub(super) fn take<T>(call: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut tries = 1;
    loop {
        match call() {
            Err(error) if lacks_descriptors(&error) && tries < TRIES && close_some() => tries += 1,
            done => return done,
        }
    }
}

/// Has files closed. False: nobody keeps one open.
fn close_some() -> bool {
    let keepers = keepers().clone();
    let keepers = keepers.iter().filter_map(Weak::upgrade);
    // All of them are asked: each closes a part.
    keepers.filter(|keeper| keeper.close_some()).count() > 0
}
