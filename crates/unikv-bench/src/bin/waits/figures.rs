//! The figures of one round, and their medians over rounds.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;
use unikv_bench::Failure;
use unikv_bench::report::figures::millis;

pub type Outcome<T> = Result<T, Failure>;

/// In which a number is given.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    Seconds,
    /// Of bytes.
    Megabytes,
    MegabytesPerSecond,
    PerSecond,
    Count,
    /// Of two figures of the same kind.
    Times,
}

/// A figure, and the greatest one that is asked for: where more is better, the least.
pub struct Figure {
    what: String,
    value: f64,
    asked: Option<f64>,
    unit: Unit,
    /// What stands in the place of a number, as with a call that is refused.
    text: Option<String>,
}

/// All figures of one round, in the order of their rows.
#[derive(Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// A time, and the longest that is asked for.
    pub fn time(&mut self, what: impl Into<String>, time: Duration, asked: Option<Duration>) {
        let asked = asked.map(|time| time.as_secs_f64());
        self.number(what, time.as_secs_f64(), Unit::Seconds, asked);
    }

    /// A number.
    pub fn number(&mut self, what: impl Into<String>, value: f64, unit: Unit, asked: Option<f64>) {
        self.0.push(Figure {
            what: what.into(),
            value,
            asked,
            unit,
            text: None,
        });
    }

    /// A count, and the greatest that is asked for.
    pub fn count(&mut self, what: impl Into<String>, count: u64, asked: Option<u64>) {
        let asked = asked.map(|count| count as f64);
        self.number(what, count as f64, Unit::Count, asked);
    }

    /// Words in the place of a number.
    pub fn text(&mut self, what: impl Into<String>, text: impl Into<String>) {
        self.number(what, f64::NAN, Unit::Count, None);
        if let Some(last) = self.0.last_mut() {
            last.text = Some(text.into());
        }
    }

    /// Of each row the median over the rounds, which all have the same rows.
    pub fn medians(rounds: &[Figures]) -> Vec<[String; 3]> {
        let first = rounds.first().map_or(&[][..], |round| &round.0[..]);
        let row = |(at, figure): (usize, &Figure)| {
            let all: Vec<&Figure> = rounds.iter().filter_map(|round| round.0.get(at)).collect();
            let asked = median(all.iter().filter_map(|figure| figure.asked).collect());
            let asked = asked.map(|asked| figure.unit.shown(asked));
            let values = all.iter().map(|figure| figure.value);
            let words = all.iter().find_map(|figure| figure.text.clone());
            let value = median(values.collect()).map(|value| figure.unit.shown(value));
            let value = words.or(value).unwrap_or_default();
            [figure.what.clone(), value, asked.unwrap_or_default()]
        };
        first.iter().enumerate().map(row).collect()
    }
}

impl Unit {
    fn shown(self, value: f64) -> String {
        Shown(self, value).to_string()
    }
}

struct Shown(Unit, f64);

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Shown(unit, value) = *self;
        match unit {
            Unit::Seconds if value >= 10.0 => write!(f, "{value:.1} s"),
            Unit::Seconds if value < 1e-3 => write!(f, "{:.1} µs", value * 1e6),
            Unit::Seconds => f.write_str(&millis(Duration::from_secs_f64(value.max(0.0)))),
            Unit::Megabytes => write!(f, "{:.1} MB", value / 1e6),
            Unit::MegabytesPerSecond => write!(f, "{:.0} MB/s", value / 1e6),
            Unit::PerSecond if value >= 1e4 => write!(f, "{:.0} k/s", value / 1e3),
            Unit::PerSecond => write!(f, "{value:.0} /s"),
            Unit::Count => write!(f, "{value:.0}"),
            Unit::Times => write!(f, "{value:.2}"),
        }
    }
}

/// The middle one; the greater of two.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
