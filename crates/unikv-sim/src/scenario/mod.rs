//! Named scenarios: short histories, each aimed at one thing that the engine does.
//!
//! A drawn history meets everything now and then; a scenario meets its one thing at every few
//! calls, and says afterwards whether it did. They are short because each of their calls is a crash
//! point or fails. Where it does no harm to the aim, snapshots and iterators are held across the
//! events.

pub mod bounds;
mod changes;
mod expiry;
mod many;
mod script;
mod scripts;
mod writes;

use crate::history::History;
use crate::moments::Seen;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// What is played.
    pub history: History,
    /// Whether a run did what the name says.
    pub did: fn(&Seen) -> bool,
}

impl Scenario {
    /// The scenario of this name with a seed for what runs when.
    pub fn named(name: &str, seed: u64) -> Scenario {
        let mut scenario = all()
            .into_iter()
            .find(|scenario| scenario.name == name)
            .unwrap_or_else(|| panic!("no scenario is called {name}"));
        scenario.history.seed = seed;
        scenario
    }

    /// Asserts that a run did what the name says.
    pub fn assert_did(&self, seen: &Seen) {
        assert!((self.did)(seen), "no {}: {seen:#?}", self.name);
    }
}

/// A test for each scenario, which calls `explore` with its name, and one that none is left out but
/// those named as such.
#[macro_export]
macro_rules! scenario_tests {
    ($explore:ident, but [$($left_out:literal),*]: $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            $explore(stringify!($name));
        })*

        #[test]
        fn every_scenario_is_explored() {
            let explored = [$(stringify!($name)),*];
            let left_out: &[&str] = &[$($left_out),*];
            let mut all: Vec<_> = $crate::scenario::all().iter().map(|it| it.name).collect();
            all.retain(|name| !left_out.contains(name));
            assert_eq!(explored[..], all[..]);
            assert!(all.len() >= 12);
        }
    };
}

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    scripts::all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moments;

    #[test]
    fn each_scenario_does_what_it_is_called() {
        let mut idle = Vec::new();
        for scenario in all() {
            let recording = moments::record(&scenario.history);
            let (calls, seen) = (recording.moments.len(), recording.seen);
            println!("{}: {calls} calls, {seen:?}", scenario.name);
            if !(scenario.did)(&seen) || !(150..1500).contains(&calls) {
                idle.push(scenario.name);
            }
        }
        assert!(idle.is_empty(), "{idle:?}");
    }
}
