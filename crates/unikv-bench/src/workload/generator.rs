//! Which record an operation touches.
//!
//! *Zipfian*: ranks by the rejection-free method of Gray et al. ("Quickly generating
//! billion-record synthetic databases", SIGMOD 1994) over the number of records, with θ = 0.99
//! unless another is named, scattered over the records by an FNV-1a hash of the rank. YCSB's own
//! scrambled generator draws from 10^10 items and folds them onto the records, which flattens the
//! head (its hottest record takes 3.8 % whatever the size); drawing over the records themselves
//! keeps the skew that θ names, and so does most of the literature.
//!
//! *Latest*: the same ranks counted back from the newest record, unscattered.

use rand::Rng;
use std::fmt;
use std::str::FromStr;

/// A distribution over the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Zipf, the hot records scattered.
    Zipfian(Theta),
    /// Every record alike.
    Uniform,
    /// Zipf with YCSB's constant, newest records hottest.
    Latest,
}

impl Distribution {
    /// YCSB's.
    pub const ZIPFIAN: Distribution = Distribution::Zipfian(Theta::YCSB);
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Distribution, String> {
        match name {
            "uniform" => Ok(Distribution::Uniform),
            "latest" => Ok(Distribution::Latest),
            name => match name.strip_prefix("zipfian") {
                Some("") => Ok(Distribution::ZIPFIAN),
                Some(theta) => theta.parse().map(Distribution::Zipfian),
                None => Err(format!(
                    "unknown distribution {name:?}; there are uniform, latest, zipfian, and \
                     zipfian with a constant, such as zipfian0.9"
                )),
            },
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Zipfian(Theta::YCSB) => f.write_str("zipfian"),
            Distribution::Zipfian(theta) => write!(f, "zipfian{}", theta.value()),
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Latest => f.write_str("latest"),
        }
    }
}

/// Zipf's constant, between 0 and 1, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theta(u16);

impl Theta {
    /// That of YCSB, 0.99.
    pub const YCSB: Theta = Theta(990);

    fn value(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

impl FromStr for Theta {
    type Err = String;

    fn from_str(text: &str) -> Result<Theta, String> {
        let theta = text.parse::<f64>().ok();
        let thousandths = theta.map(|theta| (theta * 1_000.0).round());
        match thousandths {
            Some(thousandths) if (1.0..1_000.0).contains(&thousandths) => {
                Ok(Theta(thousandths as u16))
            }
            _ => Err(format!(
                "{text:?} as the constant of Zipf; more than 0 and less than 1"
            )),
        }
    }
}

/// Draws ranks from 0 with probability proportional to 1 / (rank + 1)^θ.
#[derive(Clone, Copy, Debug)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    /// Over at least one item.
    pub fn new(items: u64, theta: Theta) -> Zipfian {
        let items = items.max(1);
        let theta = theta.value();
        let (zeta, zeta_2) = (zeta(items, theta), zeta(2, theta));
        let n = items as f64;
        Zipfian {
            items,
            zeta,
            alpha: 1.0 / (1.0 - theta),
            eta: (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta),
            second: 1.0 + 0.5_f64.powf(theta),
        }
    }

    /// The next rank.
    pub fn next(&self, rng: &mut impl Rng) -> u64 {
        let u: f64 = rng.random();
        let uz = u * self.zeta;
        let rank = if uz < 1.0 {
            0
        } else if uz < self.second {
            1
        } else {
            (self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
        };
        rank.min(self.items - 1)
    }

    /// The probability of a rank below `rank`: of all that [`Zipfian::next`] turns into one.
    pub fn below(&self, rank: u64) -> f64 {
        match rank {
            0 => 0.0,
            rank if rank >= self.items => 1.0,
            1 => 1.0 / self.zeta,
            rank => {
                let power = (rank as f64 / self.items as f64).powf(1.0 / self.alpha);
                1.0 - (1.0 - power) / self.eta
            }
        }
    }
}

/// The sum of 1/i^θ for i from 1 to n: term by term at first, then by Euler and Maclaurin.
fn zeta(n: u64, theta: f64) -> f64 {
    const EXACT: u64 = 10_000;
    let head: f64 = (1..=n.min(EXACT)).map(|i| (i as f64).powf(-theta)).sum();
    if n <= EXACT {
        return head;
    }
    let (a, b) = (EXACT as f64, n as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = theta * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0)) / 12.0;
    head + integral + ends + slopes
}

/// Draws record numbers.
#[derive(Clone, Copy, Debug)]
pub enum Chooser {
    /// Every record alike.
    Uniform,
    /// Over `span` records, of which the last ones may not be inserted yet.
    Zipfian {
        /// Draws the ranks.
        zipf: Zipfian,
        /// The number of records drawn from.
        span: u64,
    },
    /// Ranks counted back from the newest record.
    Latest(Zipfian),
}

impl Chooser {
    /// For a phase that begins with `records` and may insert `inserts` more.
    pub fn new(distribution: Distribution, records: u64, inserts: u64) -> Chooser {
        match distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipfian(theta) => {
                let span = records + inserts;
                Chooser::Zipfian {
                    zipf: Zipfian::new(span, theta),
                    span,
                }
            }
            Distribution::Latest => Chooser::Latest(Zipfian::new(records, Theta::YCSB)),
        }
    }

    /// The next record number, below `present`, the number of records inserted so far.
    pub fn next(&self, rng: &mut impl Rng, present: u64) -> u64 {
        match self {
            Chooser::Uniform => rng.random_range(0..present),
            // As in YCSB: the hot records stay the same while the key space grows under them.
            Chooser::Zipfian { zipf, span } => loop {
                let record = fnv1a(zipf.next(rng)) % span;
                if record < present {
                    return record;
                }
            },
            Chooser::Latest(zipf) => present - 1 - zipf.next(rng).min(present - 1),
        }
    }

    /// The share of draws that fall on the `records` likeliest ones, at most, from when there are
    /// `present` on: nobody who does not know the draws can hold `records` of them and hit more.
    pub fn likeliest(&self, present: u64, records: u64) -> f64 {
        match self {
            Chooser::Uniform => (records as f64 / present as f64).min(1.0),
            Chooser::Latest(zipf) => zipf.below(records),
            Chooser::Zipfian { zipf, span } => {
                let mut odds = vec![0.0; *span as usize];
                for rank in 0..zipf.items {
                    let record = fnv1a(rank) % span;
                    odds[record as usize] += zipf.below(rank + 1) - zipf.below(rank);
                }
                // What is not inserted yet is not drawn, and all that is drawn may be among the
                // likeliest.
                let drawn: f64 = odds[..present as usize].iter().sum();
                odds.sort_unstable_by(|one, other| other.total_cmp(one));
                let records = usize::try_from(records).unwrap_or(usize::MAX);
                let likeliest: f64 = odds.iter().take(records).sum();
                (likeliest / drawn).min(1.0)
            }
        }
    }
}

fn fnv1a(number: u64) -> u64 {
    number
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    const DRAWS: u64 = 200_000;

    #[test]
    fn zeta_by_integral_equals_the_sum() {
        for theta in [0.2, 0.9, 0.99] {
            let sum: f64 = (1..=300_000_u64).map(|i| (i as f64).powf(-theta)).sum();
            assert!((zeta(300_000, theta) / sum - 1.0).abs() < 1e-9, "{theta}");
            assert_eq!(zeta(1, theta), 1.0);
        }
    }

    #[test]
    fn ranks_follow_the_law() {
        for theta in [Theta::YCSB, Theta(900), Theta(500)] {
            let (items, mut rng) = (100_000, SmallRng::seed_from_u64(1));
            let zipf = Zipfian::new(items, theta);
            let mut counts = vec![0_u64; items as usize];
            for _ in 0..DRAWS {
                counts[zipf.next(&mut rng) as usize] += 1;
            }
            for share in [1_usize, 10, 1_000, 20_000] {
                let drawn = counts[..share].iter().sum::<u64>() as f64 / DRAWS as f64;
                let law = zeta(share as u64, theta.value()) / zeta(items, theta.value());
                let (first, theta) = (share, theta.value());
                assert!(
                    (drawn - law).abs() < 0.02,
                    "{theta}, first {first}: {drawn} against {law}"
                );
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for name in ["uniform", "latest", "zipfian", "zipfian0.9", "zipfian0.001"] {
            assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
        }
        assert_eq!("zipfian0.99".parse(), Ok(Distribution::ZIPFIAN));
        for name in [
            "zipf",
            "zipfian1",
            "zipfian0",
            "zipfian-1",
            "zipfiannan",
            "",
        ] {
            assert!(name.parse::<Distribution>().is_err(), "{name}");
        }
    }

    #[test]
    fn records_are_always_present() {
        let mut rng = SmallRng::seed_from_u64(2);
        for distribution in [
            Distribution::Uniform,
            Distribution::ZIPFIAN,
            Distribution::Latest,
        ] {
            for records in [1, 2, 1_000] {
                let chooser = Chooser::new(distribution, records, 500);
                for present in [records, records + 300] {
                    for _ in 0..2_000 {
                        assert!(chooser.next(&mut rng, present) < present);
                    }
                }
            }
        }
    }

    #[test]
    fn ranks_are_drawn_as_often_as_is_said() {
        for items in [1, 2, 3, 50_000] {
            let (mut rng, zipf) = (SmallRng::seed_from_u64(4), Zipfian::new(items, Theta::YCSB));
            for rank in [0, 1, 2, 3, 100, 10_000] {
                let draws = (0..DRAWS).filter(|_| zipf.next(&mut rng) < rank);
                let drawn = draws.count() as f64 / DRAWS as f64;
                let said = zipf.below(rank);
                assert!((drawn - said).abs() < 0.005, "{rank}: {drawn}, {said}");
            }
        }
    }

    #[test]
    fn nobody_hits_more_than_with_the_likeliest() {
        let (records, held) = (2_000, 200);
        for (distribution, inserts) in [
            (Distribution::Uniform, 0),
            (Distribution::ZIPFIAN, 0),
            (Distribution::ZIPFIAN, 500),
            (Distribution::Latest, 0),
        ] {
            let mut rng = SmallRng::seed_from_u64(5);
            let chooser = Chooser::new(distribution, records, inserts);
            let mut draws = vec![0; records as usize];
            for _ in 0..DRAWS {
                draws[chooser.next(&mut rng, records) as usize] += 1;
            }
            draws.sort_unstable_by_key(|&draws| std::cmp::Reverse(draws));
            let hits = draws[..held].iter().sum::<u64>() as f64 / DRAWS as f64;
            let most = chooser.likeliest(records, held as u64);
            // Who knows the draws holds those drawn most often, by chance a little more often.
            assert!(hits - most < 0.02, "{distribution:?}: {hits}, {most}");
            assert!(
                inserts > 0 || most < hits,
                "{distribution:?}: {hits}, {most}"
            );
            assert!(chooser.likeliest(records, records + inserts) > 1.0 - 1e-9);
        }
    }

    #[test]
    fn latest_prefers_the_newest() {
        let mut rng = SmallRng::seed_from_u64(3);
        let chooser = Chooser::new(Distribution::Latest, 1_000, 0);
        let newest = (0..DRAWS)
            .filter(|_| chooser.next(&mut rng, 5_000) >= 4_900)
            .count() as f64;
        let law = zeta(100, 0.99) / zeta(1_000, 0.99);
        assert!((newest / DRAWS as f64 - law).abs() < 0.02);
    }
}
