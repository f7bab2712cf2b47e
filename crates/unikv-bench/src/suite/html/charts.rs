//! Bars and lines as SVG that stands in the page itself.

use crate::failure::Failure;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;

/// One colour for each engine, distinguished by most people with impaired colour vision, too.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x6d, 0x31),
    RGBColor(0x66, 0x66, 0x66),
    RGBColor(0x7b, 0x3f, 0xa0),
    RGBColor(0xa0, 0xb0, 0x00),
];
pub(super) const FONT: (&str, u32) = ("sans-serif", 12);
pub(super) const TITLE: (&str, u32) = ("sans-serif", 15);
pub(super) const HEIGHT: u32 = 250;
pub(super) const LEGEND_HEIGHT: u32 = 24;
/// What is free on the left of a legend.
const LEGEND_MARGIN: i32 = 54;
/// About that of a letter, in pixels.
const LETTER_WIDTH: i32 = 7;

/// The colour of the engine with this place among all.
pub fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// Bars side by side, a group for each label.
pub struct Bars {
    /// What stands above.
    pub title: String,
    /// Of the groups.
    pub labels: Vec<String>,
    /// Of each engine its place among all and a value for each group, if it has one.
    pub series: Vec<(usize, Vec<Option<f64>>)>,
}

/// Lines over one axis.
pub struct Lines {
    /// What stands above.
    pub title: String,
    /// What stands below.
    pub x_title: &'static str,
    /// Of each engine its place among all and its points.
    pub series: Vec<(usize, Vec<(f64, f64)>)>,
}

pub(super) fn failed(error: impl Display) -> Failure {
    Failure::invalid(format!("a chart cannot be drawn: {error}"))
}

/// A number in few letters.
pub(super) fn short(value: f64) -> String {
    let (digits, unit) = match value.abs() {
        v if v >= 1e9 => (format!("{:.1}", value / 1e9), "G"),
        v if v >= 1e6 => (format!("{:.1}", value / 1e6), "M"),
        v if v >= 1e4 => (format!("{:.0}", value / 1e3), "k"),
        v if v >= 1e3 => (format!("{:.1}", value / 1e3), "k"),
        v if v >= 10.0 => (format!("{value:.0}"), ""),
        _ => (format!("{value:.2}"), ""),
    };
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        &digits
    };
    format!("{digits}{unit}")
}

impl Bars {
    /// Leaves out the engines that have no value.
    pub(super) fn drop_empty(&mut self) {
        self.series
            .retain(|(_, values)| values.iter().any(Option::is_some));
    }

    /// The chart as an SVG element.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn svg(&self) -> Result<String, Failure> {
        let mut svg = String::new();
        {
            let size = (self.width(), HEIGHT);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw(&root).map_err(failed)?;
            root.present().map_err(failed)?;
        }
        Ok(svg)
    }

    fn width(&self) -> u32 {
        let groups = self.labels.len().max(1);
        let width = 110 + 34 * (groups * self.series.len().max(1)) as u32 + 20 * groups as u32;
        width.clamp(260, 1_100)
    }

    fn draw<D: DrawingBackend>(
        &self,
        root: &DrawingArea<D, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
        root.fill(&WHITE)?;
        let values = self.series.iter().flat_map(|(_, values)| values).flatten();
        let top = values.fold(0.0_f64, |top, value| top.max(*value));
        let top = if top > 0.0 { top * 1.12 } else { 1.0 };
        let groups = self.labels.len().max(1);
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, TITLE)
            .margin(6)
            .x_label_area_size(22)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..groups as f64, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(5)
            .y_label_formatter(&|value| short(*value))
            .label_style(FONT)
            .light_line_style(WHITE)
            .draw()?;
        let share = 0.86 / self.series.len().max(1) as f64;
        for (nth, (place, values)) in self.series.iter().enumerate() {
            let bar = |(group, value): (usize, &Option<f64>)| {
                let left = group as f64 + 0.07 + nth as f64 * share;
                value.map(|value| {
                    let corners = [(left, 0.0), (left + share * 0.92, value)];
                    Rectangle::new(corners, colour(*place).filled())
                })
            };
            chart.draw_series(values.iter().enumerate().filter_map(bar))?;
        }
        let area = chart.plotting_area();
        let middle = Pos::new(HPos::Center, VPos::Bottom);
        let style = TextStyle::from(FONT.into_font()).pos(middle);
        for (nth, (_, values)) in self.series.iter().enumerate() {
            for (group, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let x = group as f64 + 0.07 + (nth as f64 + 0.46) * share;
                let (x, y) = area.map_coordinate(&(x, *value));
                root.draw_text(&short(*value), &style, (x, y - 2))?;
            }
        }
        let style = TextStyle::from(FONT.into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        for (group, label) in self.labels.iter().enumerate() {
            let (x, y) = area.map_coordinate(&(group as f64 + 0.5, 0.0));
            root.draw_text(label, &style, (x, y + 6))?;
        }
        Ok(())
    }
}

/// The chart as an SVG document that names the engines below, by their places in `engines`.
///
/// # Errors
/// It cannot be drawn.
pub fn with_legend(bars: &Bars, engines: &[String]) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let named: Vec<usize> = bars.series.iter().map(|(place, _)| *place).collect();
        let width = bars.width().max(legend_width(&named, engines));
        let size = (width, HEIGHT + LEGEND_HEIGHT);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let (chart, legend) = root.split_vertically(HEIGHT);
        bars.draw(&chart).map_err(failed)?;
        draw_legend(&legend, &named, engines).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Names the engines with these `places` in `engines`, each after its colour.
pub(super) fn draw_legend<D: DrawingBackend>(
    root: &DrawingArea<D, Shift>,
    places: &[usize],
    engines: &[String],
) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
    root.fill(&WHITE)?;
    let style = TextStyle::from(FONT.into_font()).pos(Pos::new(HPos::Left, VPos::Center));
    let mut left = LEGEND_MARGIN;
    let middle = LEGEND_HEIGHT as i32 / 2;
    for place in places {
        let Some(name) = engines.get(*place) else {
            continue;
        };
        let corners = [(left, middle - 5), (left + 10, middle + 5)];
        root.draw(&Rectangle::new(corners, colour(*place).filled()))?;
        root.draw_text(name, &style, (left + 15, middle))?;
        left += name_width(name);
    }
    Ok(())
}

/// What [`draw_legend`] takes from left to right.
pub(super) fn legend_width(places: &[usize], engines: &[String]) -> u32 {
    let names = places.iter().filter_map(|place| engines.get(*place));
    let width = LEGEND_MARGIN + names.map(|name| name_width(name)).sum::<i32>();
    width.unsigned_abs()
}

/// A name in a legend with its colour, and the space that follows.
fn name_width(name: &str) -> i32 {
    35 + LETTER_WIDTH * name.len() as i32
}

impl Lines {
    /// Over seconds, both axes from zero; `None` if there is nothing to draw.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn over_time(&self) -> Result<Option<String>, Failure> {
        let points = self.series.iter().flat_map(|(_, points)| points);
        let (right, top) = points.fold((0.0_f64, 0.0_f64), |(right, top), (x, y)| {
            (right.max(*x), top.max(*y))
        });
        // One point is no line.
        let is_line = self.series.iter().any(|(_, points)| points.len() > 1);
        if right <= 0.0 || top <= 0.0 || !is_line {
            return Ok(None);
        }
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (520, HEIGHT)).into_drawing_area();
            self.draw_time(&root, right, top * 1.05).map_err(failed)?;
            root.present().map_err(failed)?;
        }
        Ok(Some(svg))
    }

    fn draw_time<D: DrawingBackend>(
        &self,
        root: &DrawingArea<D, Shift>,
        right: f64,
        top: f64,
    ) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, TITLE)
            .margin(6)
            .margin_right(26)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .y_labels(5)
            .x_labels(6)
            .x_desc(self.x_title)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .label_style(FONT)
            .light_line_style(WHITE)
            .draw()?;
        for (place, points) in &self.series {
            let style = colour(*place).stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        }
        Ok(())
    }

    /// Of latencies: percentiles from left to right, each nine as wide as the one before, and
    /// microseconds upwards, each ten times as high; `None` if there is nothing to draw.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn of_latencies(&self) -> Result<Option<String>, Failure> {
        let values = self
            .series
            .iter()
            .flat_map(|(_, points)| points)
            .map(|p| p.1);
        let (bottom, top) = values.fold((f64::MAX, 0.0_f64), |(bottom, top), value| {
            (bottom.min(value), top.max(value))
        });
        if top <= 0.0 {
            return Ok(None);
        }
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (420, HEIGHT)).into_drawing_area();
            self.draw_latencies(&root, bottom.max(0.01) * 0.8, top * 1.3)
                .map_err(failed)?;
            root.present().map_err(failed)?;
        }
        Ok(Some(svg))
    }

    fn draw_latencies<D: DrawingBackend>(
        &self,
        root: &DrawingArea<D, Shift>,
        bottom: f64,
        top: f64,
    ) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, TITLE)
            .margin(6)
            .margin_right(26)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..NINES, (bottom..top).log_scale())?;
        chart
            .configure_mesh()
            .x_labels(6)
            .y_labels(6)
            .x_desc(self.x_title)
            .x_label_formatter(&|nines| percentile(*nines))
            .y_label_formatter(&|value| short(*value))
            .label_style(FONT)
            .light_line_style(WHITE)
            .draw()?;
        for (place, points) in &self.series {
            let style = colour(*place).stroke_width(2);
            let points = points.iter().map(|(percent, us)| (nines(*percent), *us));
            chart.draw_series(LineSeries::new(points, style))?;
        }
        Ok(())
    }
}

/// The last percentile drawn is 99.999.
const NINES: f64 = 5.0;

/// How many nines a percentile has.
fn nines(percent: f64) -> f64 {
    (-(1.0 - percent / 100.0).log10()).clamp(0.0, NINES)
}

/// The percentile with this many nines.
fn percentile(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10_f64.powf(-nines));
    let digits = (nines.round() as usize).saturating_sub(2);
    format!("{percent:.digits$}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_bar_for_each_value() {
        let bars = Bars {
            title: "a < b".to_owned(),
            labels: vec!["one".to_owned(), "two".to_owned()],
            series: vec![
                (0, vec![Some(1.0), None]),
                (1, vec![Some(2_500.0), Some(3e6)]),
            ],
        };
        let svg = bars.svg().unwrap();
        let of = |place| {
            let RGBColor(r, g, b) = colour(place);
            let fill = format!("fill=\"#{r:02X}{g:02X}{b:02X}\"");
            svg.matches(&fill).count()
        };
        assert_eq!((of(0), of(1)), (1, 2), "{svg}");
        for text in ["a &lt; b", "one", "2.5k", "3M"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn lines_are_drawn_if_there_are_any() {
        let mut lines = Lines {
            title: String::new(),
            x_title: "seconds",
            series: vec![(0, Vec::new())],
        };
        assert_eq!(lines.over_time().unwrap(), None);
        assert_eq!(lines.of_latencies().unwrap(), None);
        lines.series[0].1 = vec![(0.0, 1.0), (50.0, 2.0), (99.9, 800.0), (100.0, 1e4)];
        assert!(lines.over_time().unwrap().unwrap().contains("<polyline"));
        assert!(lines.of_latencies().unwrap().unwrap().contains("99.9"));
    }

    #[test]
    fn percentiles_and_their_nines() {
        assert_eq!(nines(0.0), 0.0);
        assert!((nines(99.9) - 3.0).abs() < 1e-9);
        assert_eq!(nines(100.0), NINES);
        assert_eq!(percentile(1.0), "90");
        assert_eq!(percentile(3.0), "99.9");
    }
}
