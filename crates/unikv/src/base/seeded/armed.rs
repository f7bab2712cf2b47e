//! Which mistake the process makes, as its environment says. No locks.

use super::Seeded;
use crate::base::sync::OnceLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};

static PASSED: AtomicU64 = AtomicU64::new(0);

/// Whether the engine is to make this mistake.
pub(crate) fn is_armed(bug: Seeded) -> bool {
    static ARMED: OnceLock<Option<Seeded>> = OnceLock::new();
    let is_it = *ARMED.get_or_init(named) == Some(bug);
    if is_it {
        PASSED.fetch_add(1, Ordering::Relaxed);
    }
    is_it
}

/// The bug that the environment names. A name that is none would test nothing.
#[expect(clippy::panic, reason = "only the tests of the tests set the variable")]
fn named() -> Option<Seeded> {
    let name = std::env::var("UNIKV_SEEDED_BUG").ok()?;
    let found = Seeded::ALL.iter().find(|bug| format!("{bug:?}") == name);
    Some(*found.unwrap_or_else(|| panic!("no bug is called {name}")))
}

impl Seeded {
    /// How often the place of the armed bug was passed.
    pub fn passed() -> u64 {
        PASSED.load(Ordering::Relaxed)
    }
}
