//! Settings that take turns.

use crate::records::{Figures, Outcome};

/// A name, and what measures once under it.
pub type Setting<'a> = (&'a str, Box<dyn FnMut() -> Outcome<f64> + 'a>);

/// Measures each setting once a round, the first one before each of the others, and gives the
/// median of the first and the median of each other's ratio to the measurement just before it.
pub fn compare(rounds: usize, unit: &str, settings: &mut [Setting<'_>]) -> Outcome<Figures> {
    let Some(((base_name, base), others)) = settings.split_first_mut() else {
        return Ok(Figures::new());
    };
    let mut bases = Vec::new();
    let mut ratios = vec![Vec::new(); others.len()];
    for _ in 0..rounds {
        for ((_, other), ratios) in others.iter_mut().zip(&mut ratios) {
            let before = base()?;
            bases.push(before);
            ratios.push(other()? / before);
        }
    }
    let mut figures = vec![(
        (*base_name).to_owned(),
        format!("{:.0} {unit}", median(&mut bases)),
    )];
    for ((name, _), mut ratios) in others.iter().zip(ratios) {
        let middle = median(&mut ratios);
        let (least, most) = (ratios.first(), ratios.last());
        let spread = format!(
            "× {middle:.3} ({:.3} to {:.3})",
            least.copied().unwrap_or(f64::NAN),
            most.copied().unwrap_or(f64::NAN)
        );
        figures.push(((*name).to_owned(), spread));
    }
    Ok(figures)
}

/// The middle one; sorts them.
fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
