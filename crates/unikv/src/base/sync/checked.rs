//! Loom's and shuttle's types under the names, and with the methods, that the engine knows.
//!
//! Both checkers run all threads of a model in one thread of the system, one at a time. So a lock
//! that they do not see must not be held where they may switch; the stand-ins hold none there.

#[cfg(unikv_model = "loom")]
use loom as checker;
#[cfg(unikv_model = "shuttle")]
use shuttle as checker;

use super::Weakness;
use super::held::held;
pub(crate) use checker::sync::{Arc, RwLockReadGuard, atomic};
use checker::sync::{RwLockWriteGuard, atomic::AtomicUsize};
use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, Weak};

/// A mutex that does not poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    mutex: checker::sync::Mutex<T>,
    steps: Steps,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex {
            mutex: checker::sync::Mutex::new(value),
            steps: Steps::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard(guard)
    }

    fn guard<'a>(&'a self, guard: checker::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            guard: Some(guard),
            steps: &self.steps,
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.steps.take();
        held(self.mutex.try_lock()).map(|guard| self.guard(guard))
    }
}

/// To loom, unlocking is no step of its own: nobody would ever find a mutex locked under which
/// there is no other step. So one is taken before each, and before each look whether it is locked.
/// It orders nothing.
#[derive(Debug, Default)]
struct Steps {
    #[cfg(unikv_model = "loom")]
    taken: AtomicUsize,
}

impl Steps {
    fn take(&self) {
        #[cfg(unikv_model = "loom")]
        if !std::thread::panicking() {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Holds a mutex; a wait takes what is in it for a while.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    guard: Option<checker::sync::MutexGuard<'a, T>>,
    steps: &'a Steps,
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.steps.take();
    }
}

const HELD: &str = "a guard is empty only within a wait";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect(HELD)
    }
}

/// A lock for many readers or one writer.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(checker::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(checker::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        held(self.0.try_read())
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(checker::sync::Condvar);

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar(checker::sync::Condvar::new())
    }
}

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let held = guard.guard.take().expect(HELD);
        let again = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
        guard.guard = Some(again);
        guard
    }

    /// Waits without end: no model's clock moves by itself.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _timeout: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        self.wait(guard)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A cell that is set once.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    init: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock {
            init: Mutex::new(()),
            value: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let _lock = self.init.lock();
        self.value.set(value)
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let _lock = self.init.lock();
        let value = match self.value.get() {
            Some(_) => None,
            None => Some(init()),
        };
        self.value
            .get_or_init(|| value.expect("nobody else sets it under the lock"))
    }
}

/// A shared pointer that is swapped as a whole. Each use is one step of the checker, and orders.
pub(crate) struct Swap<T> {
    uses: AtomicUsize,
    /// Held only where no other thread of the model can run.
    value: std::sync::Mutex<T>,
}

pub(crate) type ArcSwap<T> = Swap<std::sync::Arc<T>>;
pub(crate) type ArcSwapOption<T> = Swap<Option<std::sync::Arc<T>>>;
pub(crate) type ArcSwapWeak<T> = Swap<Weak<T>>;

impl<T: Clone> Swap<T> {
    pub(crate) fn new(value: T) -> Swap<T> {
        Swap {
            uses: AtomicUsize::new(0),
            value: std::sync::Mutex::new(value),
        }
    }

    pub(crate) fn load_full(&self) -> T {
        self.uses.fetch_add(1, Ordering::AcqRel);
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.clone()
    }

    pub(crate) fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    pub(crate) fn store(&self, value: T) {
        self.uses.fetch_add(1, Ordering::AcqRel);
        let mut held = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *held, value);
        drop(held);
        drop(before);
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> ArcSwap<T> {
        Swap::new(std::sync::Arc::new(value))
    }
}

impl<T> ArcSwapOption<T> {
    pub(crate) fn empty() -> ArcSwapOption<T> {
        Swap::new(None)
    }
}

impl<T> fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swap").finish_non_exhaustive()
    }
}

/// What was loaded.
pub(crate) struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Stands beside bytes that are shared by raw pointers: made when they are written.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    #[cfg(unikv_model = "loom")]
    cell: loom::cell::UnsafeCell<()>,
}

impl Witness {
    /// The bytes are being written, by a thread that alone knows of them.
    pub(crate) fn new() -> Witness {
        Witness::default()
    }

    /// The bytes are read: an error unless their writing comes before.
    pub(crate) fn read(&self) {
        #[cfg(unikv_model = "loom")]
        self.cell.with(|_| ());
    }
}

thread_local! {
    /// Of the model that runs in this thread of the system.
    static WEAKNESS: Cell<Option<Weakness>> = const { Cell::new(None) };
}

/// Whether the running model is to be wrong at this place.
pub(crate) fn is_weak(place: Weakness) -> bool {
    WEAKNESS.get() == Some(place)
}

/// Runs `model` made wrong at `place`. The caller sees to it that it fails.
pub(crate) fn weakly(place: Weakness, model: impl FnOnce()) {
    WEAKNESS.set(Some(place));
    model();
    WEAKNESS.set(None);
}
