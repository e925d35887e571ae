//! Plots as inline SVG.
//!
//! Drawn by hand and not by a plotting library, for two reasons: colours come
//! from style sheet classes, so that one drawing suits white and dark pages,
//! and tick labels and point labels are kept from touching each other.

mod bars;
mod label;
mod scatter;

use hdrhistogram::Histogram;
use maud::{Markup, html};

pub use bars::BarChart;
pub use scatter::{Point, ScatterChart};

use super::scale::{Kind, Scale};
use super::units;

pub(super) const WIDTH: f64 = 800.0;
pub(super) const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
/// Half of a label under the last tick stands in it.
const RIGHT: f64 = 34.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 58.0;

/// Colours in the style sheet; more series than this share them.
const COLOURS: usize = 8;

/// What an axis shows and how its ticks are written.
#[derive(Clone, Copy)]
pub struct Axis<'a> {
    label: &'a str,
    kind: Kind,
    tick: fn(f64) -> String,
}

impl<'a> Axis<'a> {
    pub fn linear(label: &'a str, tick: fn(f64) -> String) -> Self {
        Self {
            label,
            kind: Kind::Linear,
            tick,
        }
    }

    /// For depths and counts.
    pub fn log2(label: &'a str) -> Self {
        Self {
            label,
            kind: Kind::Log2,
            tick: |value| value.to_string(),
        }
    }

    pub fn log10(label: &'a str, tick: fn(f64) -> String) -> Self {
        Self {
            label,
            kind: Kind::Log10,
            tick,
        }
    }

    fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        Scale::covering(self.kind, values)
    }

    /// Round figures without the digits that make columns line up.
    fn tick_label(&self, value: f64) -> String {
        let text = (self.tick)(value);
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if !number.contains('.') {
            return text;
        }
        let number = number.trim_end_matches('0').trim_end_matches('.');
        format!("{number}{unit}")
    }
}

/// The part of the drawing inside the axes.
struct Frame {
    x: Scale,
    y: Scale,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x_at(x), self.y_at(y))
    }

    fn x_at(&self, value: f64) -> f64 {
        LEFT + self.x.position(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.position(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// Grid, ticks and axis labels.
    fn axes(&self, x: &Axis<'_>, y: &Axis<'_>) -> Markup {
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        html! {
            @for tick in &self.y.ticks {
                @let at = self.y_at(*tick);
                line class="grid" x1=(px(LEFT)) x2=(px(WIDTH - RIGHT)) y1=(px(at)) y2=(px(at)) {}
                text class="tick" x=(px(LEFT - 8.0)) y=(px(at + 4.0)) text-anchor="end" { (y.tick_label(*tick)) }
            }
            @for tick in &self.x.ticks {
                @let at = self.x_at(*tick);
                line class="grid" x1=(px(at)) x2=(px(at)) y1=(px(TOP)) y2=(px(HEIGHT - BOTTOM)) {}
                text class="tick" x=(px(at)) y=(px(HEIGHT - BOTTOM + 18.0)) text-anchor="middle" { (x.tick_label(*tick)) }
            }
            line class="axis" x1=(px(LEFT)) x2=(px(WIDTH - RIGHT)) y1=(px(HEIGHT - BOTTOM)) y2=(px(HEIGHT - BOTTOM)) {}
            line class="axis" x1=(px(LEFT)) x2=(px(LEFT)) y1=(px(TOP)) y2=(px(HEIGHT - BOTTOM)) {}
            text class="label" x=(px(LEFT + (WIDTH - LEFT - RIGHT) / 2.0)) y=(px(HEIGHT - 12.0)) text-anchor="middle" { (x.label) }
            text class="label" text-anchor="middle" transform=(format!("translate(16 {}) rotate(-90)", px(middle))) { (y.label) }
        }
    }
}

/// A tenth of a pixel is more than a screen shows.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        path.push_str(&format!("{command}{} {}", px(x), px(y)));
    }
    path
}

fn svg(label: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(label) xmlns="http://www.w3.org/2000/svg" {
            (content)
        }
    }
}

/// Class of what is drawn as a ring, before its colour's.
const RING: &str = "ring ";

/// Names of the series above the plot, in rows if need be.
fn legend(names: &[(String, String)]) -> (Markup, f64) {
    const ROW: f64 = 20.0;
    let mut x = LEFT;
    let mut row = 0.0;
    let placed: Vec<(f64, f64, &String, &String)> = names
        .iter()
        .map(|(name, class)| {
            let width = label::width(name) + 40.0;
            if x + width > WIDTH - RIGHT && x > LEFT {
                x = LEFT;
                row += 1.0;
            }
            let at = (x, row * ROW, name, class);
            x += width;
            at
        })
        .collect();
    let markup = html! {
        @for (x, y, name, class) in placed {
            @if class.starts_with(RING) {
                circle class=(class) cx=(px(x + 9.0)) cy=(px(y + 14.0)) r="6" {}
            } @else {
                line class=(format!("line {class}")) x1=(px(x)) x2=(px(x + 18.0)) y1=(px(y + 14.0)) y2=(px(y + 14.0)) {}
            }
            text class="legend" x=(px(x + 24.0)) y=(px(y + 18.0)) { (name) }
        }
    };
    // The first row stands in the margin that every plot has.
    (markup, row * ROW)
}

fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS)
}

/// One line of a plot.
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    /// Single values, between which nothing is known, beside the series of
    /// this index: they have its colour.
    beside: Option<usize>,
}

impl Series {
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            beside: None,
        }
    }

    /// Rings that no line joins, such as values from elsewhere, to be held
    /// against the series of this index.
    pub fn rings(name: impl Into<String>, beside: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            beside: Some(beside),
            ..Self::new(name, points)
        }
    }

    fn class(&self, index: usize) -> String {
        colour(self.beside.unwrap_or(index))
    }
}

/// Several lines over a common axis.
pub struct LineChart<'a> {
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    pub series: Vec<Series>,
    /// A place on the x axis with a name.
    pub mark_x: Option<(f64, String)>,
}

impl LineChart<'_> {
    pub fn svg(&self) -> Markup {
        let markers = self.series.iter().all(|series| series.points.len() <= 64);
        let all = || self.series.iter().flat_map(|series| series.points.iter());
        let frame = Frame {
            x: self.x.scale(all().map(|point| point.0)),
            y: self.y.scale(all().map(|point| point.1)),
        };
        let names: Vec<(String, String)> = self
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| {
                let class = series.class(index);
                let is_ring = series.beside.is_some();
                let class = if is_ring {
                    format!("{RING}{class}")
                } else {
                    class
                };
                (series.name.clone(), class)
            })
            .collect();
        let (legend, legend_height) = legend(&names);
        let content = html! {
            (legend)
            g transform=(format!("translate(0 {legend_height})")) {
                (frame.axes(&self.x, &self.y))
                @if let Some((at, name)) = &self.mark_x {
                    (mark(&frame, *at, name))
                }
                @for (index, series) in self.series.iter().enumerate() {
                    (line(&frame, series, &series.class(index), markers))
                }
            }
        };
        let title = format!("{} by {}", self.y.label, self.x.label);
        svg(&title, HEIGHT + legend_height, &content)
    }
}

fn mark(frame: &Frame, at: f64, name: &str) -> Markup {
    let x = frame.x_at(at);
    let (text_x, anchor) = if x > WIDTH / 2.0 {
        (x - 6.0, "end")
    } else {
        (x + 6.0, "start")
    };
    html! {
        line class="mark" x1=(px(x)) x2=(px(x)) y1=(px(TOP)) y2=(px(HEIGHT - BOTTOM)) {}
        text class="legend" x=(px(text_x)) y=(px(TOP + 14.0)) text-anchor=(anchor) { (name) }
    }
}

fn line(frame: &Frame, series: &Series, class: &str, markers: bool) -> Markup {
    let points: Vec<(f64, f64)> = series.points.iter().map(|point| frame.at(*point)).collect();
    if series.beside.is_some() {
        return html! {
            @for (x, y) in &points {
                circle class=(format!("{RING}{class}")) cx=(px(*x)) cy=(px(*y)) r="6" {}
            }
        };
    }
    html! {
        path class=(format!("line {class}")) d=(path(points.iter().copied())) {}
        @if markers {
            @for (x, y) in &points {
                circle class=(format!("dot {class}")) cx=(px(*x)) cy=(px(*y)) r="3.5" {}
            }
        }
    }
}

/// Share of requests slower than a time, on logarithmic axes: the tail, which a
/// plain distribution hides in its last pixel, gets as much room as the rest.
///
/// `of` says whose latency it is: requests, transactions.
pub fn latency_cdf(what: &str, of: &str, histograms: &[(String, &Histogram<u64>)]) -> Markup {
    let series = histograms
        .iter()
        .map(|(name, histogram)| Series::new(name.clone(), slower_shares(histogram)))
        .collect();
    LineChart {
        x: Axis::log10(what, units::time),
        y: Axis::log10(&format!("share of slower {of}"), percent),
        series,
        mark_x: None,
    }
    .svg()
}

fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Down to one request in a hundred thousand.
fn slower_shares(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let total = histogram.len() as f64;
    let mut seen = 0;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for value in histogram.iter_recorded() {
        seen += value.count_at_value();
        let slower = (total - seen as f64) / total;
        let at_ns = value.value_iterated_to() as f64;
        // Points closer than a pixel only make the file larger.
        let near = points
            .last()
            .is_some_and(|(last, share)| at_ns < last * 1.02 && slower > share * 0.97);
        if slower >= 1e-5 && !near {
            points.push((at_ns, slower));
        }
    }
    points
}
