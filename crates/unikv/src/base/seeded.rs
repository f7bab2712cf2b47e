//! Seeded bugs: mistakes that one build of the engine can be asked to make, so that the tests are
//! tested (`docs/testing.md`, "Tests of the tests").
//!
//! Each is one condition, `seeded!(…)`, or one choice, `slip!(…)`, at the place where an engineer
//! could make the mistake. In every normal build [`is_armed`] is the constant `false`. Built with
//! `--cfg unikv_seeded_bugs` the engine makes the one that `UNIKV_SEEDED_BUG` names, for the whole
//! process. `crates/unikv-sim/tests/seeded_bugs.rs` lists the tests that have to catch each of
//! them. Mistakes that only threads show are made by the models ([`super::sync::Weakness`]).
//! Only what an explorer must find is worth such a place: it is not plain that the search reaches
//! it. What a plain assertion catches needs no bug.
//!
//! No locks.

/// Declares the bugs and the list of all of them.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A mistake that the engine makes when it is armed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Seeded {
            $($(#[$doc])* $name,)*
        }

        #[cfg(unikv_seeded_bugs)]
        impl Seeded {
            /// Every bug.
            pub const ALL: &[Seeded] = &[$(Seeded::$name,)*];
        }
    };
}

mod list;
pub use list::Seeded;

/// `seeded!(Bug)`: whether the engine is to make this mistake.
macro_rules! seeded {
    ($bug:ident) => {
        $crate::base::seeded::is_armed($crate::base::seeded::Seeded::$bug)
    };
}
pub(crate) use seeded;

/// `slip!(Bug, wrong, right)`: what the engine takes, of which only that is evaluated.
macro_rules! slip {
    ($bug:ident, $wrong:expr, $right:expr) => {
        if $crate::base::seeded::seeded!($bug) {
            $wrong
        } else {
            $right
        }
    };
}
pub(crate) use slip;

/// Whether the engine is to make this mistake.
#[cfg(not(unikv_seeded_bugs))]
#[inline(always)]
pub(crate) const fn is_armed(_: Seeded) -> bool {
    false
}

/// A normal build decides all of it while compiling.
#[cfg(not(unikv_seeded_bugs))]
const _: () = assert!(!is_armed(Seeded::AckBeforeSync));

#[cfg(unikv_seeded_bugs)]
pub(crate) use armed::is_armed;

#[cfg(unikv_seeded_bugs)]
mod armed;
