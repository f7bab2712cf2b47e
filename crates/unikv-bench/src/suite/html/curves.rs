//! Rates over what an experiment varies: sizes and shares that its runs name, threads that its
//! phases name. A panel for each kind of phase.

use super::charts::{
    Bars, FONT, HEIGHT, LEGEND_HEIGHT, TITLE, colour, draw_legend, failed, legend_width, short,
};
use super::section::Section;
use crate::failure::Failure;
use crate::suite::results::PhaseView;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Fewer points make no curve.
const LEAST_POINTS: usize = 3;
const PANEL_WIDTH: u32 = 300;
/// Panels side by side.
const MOST_IN_A_ROW: usize = 3;

/// A panel for each kind of phase: its labels are what is varied, from the least to the greatest.
pub fn of(section: &Section<'_>) -> Vec<Bars> {
    let over_runs = section.bars().into_iter().map(by_size);
    let mut panels: Vec<Bars> = over_runs.chain(over_threads(section)).collect();
    panels.retain(|panel| panel.labels.len() >= LEAST_POINTS);
    panels.iter_mut().for_each(Bars::drop_empty);
    panels
}

/// The groups whose labels name a size, by size; none if two name the same.
fn by_size(chart: Bars) -> Bars {
    let sizes = chart.labels.iter().map(|label| size(label));
    let mut places: Vec<(f64, usize)> = sizes
        .enumerate()
        .filter_map(|(place, size)| Some((size?, place)))
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    if places.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        places.clear();
    }
    let pick = |values: &[Option<f64>]| places.iter().map(|(_, place)| values[*place]).collect();
    let labels = places.iter().map(|(_, place)| &chart.labels[*place]);
    let series = chart.series.iter();
    Bars {
        labels: labels.map(|label| of_size(label)).collect(),
        series: series
            .map(|(engine, values)| (*engine, pick(values)))
            .collect(),
        title: chart.title,
    }
}

/// What phases make that differ in the number of their threads alone.
fn over_threads(section: &Section<'_>) -> Vec<Bars> {
    let mut panels: Vec<Bars> = Vec::new();
    for (label, rates) in section.values(PhaseView::rate_of_work) {
        let Some((name, threads)) = label.split_once('*') else {
            continue;
        };
        let title = format!("{name}, operations/s by threads");
        let known = panels.iter().position(|panel| panel.title == title);
        let place = known.unwrap_or_else(|| {
            panels.push(Bars {
                title,
                labels: Vec::new(),
                series: (0..rates.len()).map(|n| (n, Vec::new())).collect(),
            });
            panels.len() - 1
        });
        let panel = &mut panels[place];
        panel.labels.push(threads.to_owned());
        for ((_, values), rate) in panel.series.iter_mut().zip(rates) {
            values.push(rate);
        }
    }
    panels
}

/// The words of a label that name its size: the number and its unit.
fn words(label: &str) -> Option<(f64, &str, Option<&str>)> {
    let mut words = label.split(' ');
    let (number, word) = words.find_map(|word| Some((word.parse().ok()?, word)))?;
    Some((number, word, words.next()))
}

/// The size that a label names, in units of one.
fn size(label: &str) -> Option<f64> {
    let (number, _, unit) = words(label)?;
    let unit = match unit {
        Some("KiB") => f64::from(1 << 10),
        Some("MiB") => f64::from(1 << 20),
        Some("GB") => 1e9,
        _ => 1.0,
    };
    Some(number * unit)
}

/// That size alone.
fn of_size(label: &str) -> String {
    match words(label) {
        Some((_, number, Some(unit))) => format!("{number} {unit}"),
        _ => label.to_owned(),
    }
}

/// The panels as an SVG document that names the engines below, by their places in `engines`.
///
/// # Errors
/// It cannot be drawn.
pub fn svg(panels: &[Bars], engines: &[String]) -> Result<String, Failure> {
    let all = panels.iter().flat_map(|panel| &panel.series);
    let mut named: Vec<usize> = all.map(|(place, _)| *place).collect();
    named.sort_unstable();
    named.dedup();
    let columns = panels.len().min(MOST_IN_A_ROW);
    let rows = panels.len().div_ceil(columns.max(1));
    let width = PANEL_WIDTH * columns as u32;
    let size = (
        width.max(legend_width(&named, engines)),
        HEIGHT * rows as u32 + LEGEND_HEIGHT,
    );
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (charts, legend) = root.split_vertically(HEIGHT * rows as u32);
        for (panel, area) in panels.iter().zip(charts.split_evenly((rows, columns))) {
            draw(panel, &area).map_err(failed)?;
        }
        draw_legend(&legend, &named, engines).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

fn draw<D: DrawingBackend>(
    panel: &Bars,
    root: &DrawingArea<D, Shift>,
) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
    let values = panel.series.iter().flat_map(|(_, values)| values).flatten();
    let top = values.fold(0.0_f64, |top, value| top.max(*value));
    let top = if top > 0.0 { top * 1.1 } else { 1.0 };
    let last = panel.labels.len().saturating_sub(1) as f64;
    let mut chart = ChartBuilder::on(root)
        .caption(&panel.title, TITLE)
        .margin(6)
        .margin_right(26)
        .x_label_area_size(22)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..last, 0.0..top)?;
    let label = |place: &f64| {
        let label = panel.labels.get(place.round() as usize);
        label.cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .x_labels(panel.labels.len())
        .y_labels(5)
        .x_label_formatter(&label)
        .y_label_formatter(&|value| short(*value))
        .label_style(FONT)
        .light_line_style(WHITE)
        .draw()?;
    for (engine, values) in &panel.series {
        let style = colour(*engine).stroke_width(2);
        let points = values.iter().enumerate();
        let points = points.filter_map(|(place, value)| Some((place as f64, (*value)?)));
        chart.draw_series(LineSeries::new(points, style).point_size(3))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_from_labels() {
        for (label, wanted, shown) in [
            ("256 B", Some(256.0), "256 B"),
            ("4 KiB", Some(4096.0), "4 KiB"),
            ("16 GB at full scale", Some(16e9), "16 GB"),
            ("reserve 30 %", Some(30.0), "30 %"),
            ("as it is", None, "as it is"),
            ("1:2 of 1 KiB", Some(1024.0), "1 KiB"),
        ] {
            assert_eq!(size(label), wanted, "{label}");
            assert_eq!(of_size(label), shown);
        }
    }

    #[test]
    fn only_sizes_that_differ_make_a_curve() {
        let chart = |labels: &[&str]| Bars {
            title: String::new(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            series: vec![(0, (0..labels.len()).map(|n| Some(n as f64)).collect())],
        };
        let sorted = by_size(chart(&["as it is", "4 KiB", "256 B", "1 KiB"]));
        assert_eq!(sorted.labels, ["256 B", "1 KiB", "4 KiB"]);
        assert_eq!(sorted.series, [(0, vec![Some(2.0), Some(3.0), Some(1.0)])]);
        assert!(
            by_size(chart(&["1:2 of 1 KiB", "1:1 of 1 KiB"]))
                .labels
                .is_empty()
        );
    }
}
