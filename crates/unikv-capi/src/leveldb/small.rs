//! What LevelDB's interface has and little is behind here: filter policies, caches, environments,
//! versions; and `free`.

use crate::boundary::args::{Alone, CreateFilter, Destructor, Ending, MayMatch, Name, New, end};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Kind, Outcome};
use crate::boundary::handles::object;
use crate::boundary::memory;
use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A filter policy, of which only the end is of interest.
pub struct FilterPolicy {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

#[expect(unsafe_code, reason = "the state is the program's")]
// SAFETY: the state is only passed to the destructor, by the thread that destroys the policy.
unsafe impl Send for FilterPolicy {}
#[expect(unsafe_code, reason = "the state is the program's")]
// SAFETY: nothing can be done with a shared one.
unsafe impl Sync for FilterPolicy {}

impl Drop for FilterPolicy {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor.call(self.state);
        }
    }
}

/// A cache, which here is a number of bytes.
pub struct Cache {
    pub(crate) capacity: u64,
}

/// An environment. There is one.
pub struct Env;

/// A logger, which nobody can make.
pub struct Logger;

object!(FilterPolicy, "unikv_filterpolicy_t", b"ukv:filt");
object!(Cache, "unikv_cache_t", b"ukv:cach");
object!(Env, "unikv_env_t", b"ukv:env\0");
object!(Logger, "unikv_logger_t", b"ukv:logr");

/// A directory for tests, which is made if it is not there.
fn test_directory() -> Outcome<PathBuf> {
    let dir = match std::env::var_os("TEST_TMPDIR") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("unikvtest-{user}"))
        }
    };
    std::fs::create_dir_all(&dir).map_err(|error| {
        let what = format!("{}: cannot create the directory: {error}", dir.display());
        Fault::new(Kind::Io, &what, "set TEST_TMPDIR to a directory")
    })?;
    Ok(dir)
}

capi! { functions:
    /// A filter policy. It is never asked: UniKV finds keys through hash indexes. The destructor is
    /// called with the state when it is destroyed.
    fn unikv_filterpolicy_create(
        state: *mut c_void, destructor: Option<Destructor>,
        create_filter: Option<CreateFilter>, key_may_match: Option<MayMatch>, name: Option<Name>
    ) -> New<FilterPolicy> {
        let _ = (create_filter, key_may_match, name);
        New::of(FilterPolicy { state, destructor })
    }

    /// Ends a filter policy.
    fn unikv_filterpolicy_destroy(policy: Ending<FilterPolicy>) {
        end(policy);
    }

    /// A filter policy, which is never asked either.
    fn unikv_filterpolicy_create_bloom(bits_per_key: c_int) -> New<FilterPolicy> {
        let _ = bits_per_key;
        New::of(FilterPolicy { state: std::ptr::null_mut(), destructor: None })
    }

    /// A cache: a number of bytes for `unikv_options_set_cache`. Databases do not share it.
    fn unikv_cache_create_lru(capacity: usize) -> New<Cache> {
        New::of(Cache { capacity: capacity as u64 })
    }

    /// Ends a cache; databases that were opened with it stay as they are.
    fn unikv_cache_destroy(cache: Ending<Cache>) {
        end(cache);
    }

    /// The environment: the operating system.
    fn unikv_create_default_env() -> New<Env> {
        New::of(Env)
    }

    /// Ends the environment.
    fn unikv_env_destroy(env: Ending<Env>) {
        end(env);
    }

    /// The path of a directory for tests, which is there when this returns: `$TEST_TMPDIR`, or one
    /// with the number of the user. To be freed with `unikv_free`; NULL on failure.
    fn unikv_env_get_test_directory(env: Alone<Env>) -> *mut c_char {
        let _ = &env;
        memory::malloc_copy(test_directory()?.as_os_str().as_bytes())?
    }

    /// Frees what a function of this library has returned and is to be freed, which `free` does,
    /// too.
    fn unikv_free(ptr: *mut c_void) {
        memory::free(ptr);
    }

    /// The first number of the version of LevelDB whose interface this is: 1.
    fn unikv_major_version() -> c_int {
        1
    }

    /// The second number: 23.
    fn unikv_minor_version() -> c_int {
        23
    }
}
