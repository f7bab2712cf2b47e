//! Faults by rule: which calls, from the how manieth on, how many of them, how likely.
//!
//! A [`Rule`] counts the calls that it could be about. The first rule of a set that strikes
//! decides.

use super::faults::{Call, Fault, Op};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Lets some calls fail. Without conditions: every call.
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    ops: Vec<Op>,
    pattern: String,
    /// Matching calls that are let pass, and those that are then struck.
    passed: u64,
    struck: u64,
    chance: f64,
    rng: SmallRng,
}

impl Rule {
    /// Lets every call fail like this.
    pub fn new(fault: Fault) -> Rule {
        Rule {
            fault,
            ops: Vec::new(),
            pattern: "*".to_owned(),
            passed: 0,
            struck: u64::MAX,
            chance: 1.0,
            rng: SmallRng::seed_from_u64(0),
        }
    }

    /// Only calls of these kinds.
    #[must_use]
    pub fn on(mut self, ops: &[Op]) -> Rule {
        self.ops = ops.to_vec();
        self
    }

    /// Only calls on paths that match: `*` stands for any characters, also none, and the pattern
    /// for the whole path, as in `*.wal`.
    #[must_use]
    pub fn path(mut self, pattern: &str) -> Rule {
        pattern.clone_into(&mut self.pattern);
        self
    }

    /// Only from the `n`-th matching call on, counted from 1.
    #[must_use]
    pub fn from(mut self, n: u64) -> Rule {
        self.passed = n.saturating_sub(1);
        self
    }

    /// At most this many calls.
    #[must_use]
    pub fn times(mut self, n: u64) -> Rule {
        self.struck = n;
        self
    }

    /// Only the `n`-th matching call, counted from 1.
    #[must_use]
    pub fn nth(self, n: u64) -> Rule {
        self.from(n).times(1)
    }

    /// Each matching call with this probability, drawn from `seed`.
    #[must_use]
    pub fn chance(mut self, probability: f64, seed: u64) -> Rule {
        self.chance = probability.clamp(0.0, 1.0);
        self.rng = SmallRng::seed_from_u64(seed);
        self
    }

    fn strikes(&mut self, call: &Call<'_>) -> bool {
        let is_one = self.ops.is_empty() || self.ops.contains(&call.op);
        if !is_one || !matches(&self.pattern, &call.path.to_string_lossy()) {
            return false;
        }
        if self.passed > 0 {
            self.passed -= 1;
            return false;
        }
        if self.struck == 0 || !self.rng.random_bool(self.chance) {
            return false;
        }
        self.struck -= 1;
        true
    }
}

/// What the rules make of a call.
pub(super) fn decide(rules: &mut [Rule], call: &Call<'_>) -> Fault {
    let first = rules
        .iter_mut()
        .find_map(|r| r.strikes(call).then_some(r.fault));
    first.unwrap_or(Fault::None)
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            rest.is_empty() || starts.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::path::Path;

    fn call<'a>(op: Op, path: &'a str) -> Call<'a> {
        Call {
            index: 0,
            op,
            path: Path::new(path),
            offset: 0,
            bytes: 0,
        }
    }

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("*.wal", "/db/000001.wal", true),
            ("*.wal", "/db/000001.wal.tmp", false),
            ("/db/*1*.rec", "/db/000012.rec", true),
            ("/db/*1*.rec", "/db/000022.rec", false),
            ("/db", "/db", true),
            ("/db", "/db/x", false),
            ("*a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn a_rule_strikes_by_number_kind_and_path() {
        let fault = Fault::Fail(ErrorKind::TimedOut);
        let rule = Rule::new(fault).on(&[Op::Sync, Op::Open]).path("*.wal");
        let mut rules = [rule.from(2).times(2)];
        let mut struck = Vec::new();
        for (n, op) in [Op::Sync, Op::Append, Op::Open, Op::Sync, Op::Sync]
            .into_iter()
            .enumerate()
        {
            assert_eq!(decide(&mut rules, &call(op, "/db/x.rec")), Fault::None);
            if decide(&mut rules, &call(op, "/db/x.wal")) == fault {
                struck.push(n);
            }
        }
        assert_eq!(struck, [2, 3]);
    }

    #[test]
    fn a_chance_is_drawn_from_its_seed() {
        let strikes = |seed| {
            let mut rules = [Rule::new(Fault::Os(24)).chance(0.3, seed)];
            (0..1000)
                .map(|_| decide(&mut rules, &call(Op::Read, "/db/x")) != Fault::None)
                .collect::<Vec<_>>()
        };
        let struck = strikes(1).into_iter().filter(|&s| s).count();
        assert!((200..400).contains(&struck), "{struck}");
        assert_eq!(strikes(1), strikes(1));
        assert_ne!(strikes(1), strikes(2));
    }
}
