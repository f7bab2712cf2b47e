//! Names the seed and the place when a check fails.
//!
//! Each explorer says where it is with [`scope`]; the runner leaves a trail of the operations it
//! played. A panic hook prints both before anything unwinds, so that the story is printed even when
//! the engine panics, and the innermost facts as the environment variables that replay them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Once;

const TRAIL_LEN: usize = 40;

thread_local! {
    static FACTS: RefCell<Vec<(&'static str, String)>> = const { RefCell::new(Vec::new()) };
    static TRAIL: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<u64> = const { Cell::new(0) };
}

/// A fact that holds until this is dropped.
#[must_use = "the fact is forgotten when the scope is dropped"]
pub struct Scope(());

impl Drop for Scope {
    fn drop(&mut self) {
        FACTS.with_borrow_mut(|facts| drop(facts.pop()));
    }
}

/// States a fact: the name of an environment variable that replays it, and its value.
pub fn scope(name: &'static str, value: impl Display) -> Scope {
    install();
    FACTS.with_borrow_mut(|facts| facts.push((name, value.to_string())));
    Scope(())
}

/// Forgets the trail: a new run begins.
pub fn begin() {
    TRAIL.with_borrow_mut(VecDeque::clear);
}

/// Remembers one step of the run.
pub fn step(what: String) {
    TRAIL.with_borrow_mut(|trail| {
        if trail.len() == TRAIL_LEN {
            trail.pop_front();
        }
        trail.push_back(what);
    });
}

/// Runs `f` without printing when it panics; `true` if it did.
pub fn panics(f: impl FnOnce()) -> bool {
    install();
    let facts = FACTS.with_borrow(Vec::len);
    let before = QUIET.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    QUIET.set(before);
    debug_assert_eq!(facts, FACTS.with_borrow(Vec::len));
    result.is_err()
}

/// Runs one place of an exploration. With `UNIKV_KEEP_GOING` set, a failure there is printed and
/// remembered for [`assert_none_failed`], and the exploration goes on.
pub fn place(f: impl FnOnce()) {
    if std::env::var_os("UNIKV_KEEP_GOING").is_none() {
        return f();
    }
    install();
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err() {
        FAILED.set(FAILED.get() + 1);
    }
}

/// Fails if a [`place`] of this thread failed.
pub fn assert_none_failed() {
    let failed = FAILED.replace(0);
    assert_eq!(failed, 0, "places failed");
}

/// The story so far, as it would be printed now.
pub fn story() -> String {
    let facts = FACTS.with_borrow(|facts| {
        facts
            .iter()
            .map(|(name, value)| format!("{name}={} ", quoted(value)))
            .collect::<String>()
    });
    let trail = TRAIL.with_borrow(|trail| {
        trail
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect::<String>()
    });
    format!("replay with: {facts}{}\nlast steps:\n{trail}", command())
}

/// The command that runs this test alone.
fn command() -> String {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("");
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "unikv-sim".to_owned());
    let program = std::env::current_exe().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the name of the file that holds the tests.
    let target = match stem.rsplit_once('-') {
        Some((name, _)) if name == package.replace('-', "_") => "--lib".to_owned(),
        Some((name, _)) => format!("--test {name}"),
        None => String::new(),
    };
    format!("cargo test -p {package} {target} {test}")
}

/// A value as a shell takes it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if value.chars().all(plain) {
        value.to_owned()
    } else {
        format!("'{value}'")
    }
}

/// Whether failures are not to be printed now.
pub fn is_quiet() -> bool {
    QUIET.get()
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                return;
            }
            // Before the hook that was there: that of a fuzzer ends the process.
            if FACTS.with_borrow(|facts| !facts.is_empty()) {
                eprintln!("{}", story());
            }
            default(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_names_the_open_scopes_and_the_last_steps() {
        begin();
        let _seed = scope("UNIKV_SEED", 7);
        {
            let _at = scope("UNIKV_CRASH_AT", 3);
        }
        step("put".to_owned());
        let printed = story();
        assert!(
            printed.starts_with("replay with: UNIKV_SEED=7 cargo test -p unikv-sim --lib"),
            "{printed}"
        );
        assert!(printed.contains("  put\n"), "{printed}");
        let _keep = scope("UNIKV_KEEP", "Cut(Torn(5))");
        assert!(story().contains(" UNIKV_KEEP='Cut(Torn(5))' cargo"));
        assert!(panics(|| panic!("seen")));
        assert!(!panics(|| ()));
    }
}
