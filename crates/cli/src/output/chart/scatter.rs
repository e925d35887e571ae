//! Named points, and a curve that they are compared with.

use maud::{Markup, html};

use super::label::{Area, place};
use super::{Axis, BOTTOM, Frame, HEIGHT, LEFT, RIGHT, TOP, WIDTH, colour, legend, path, px, svg};

/// A label further from its point than this is joined to it by a line.
const FAR: f64 = 14.0;

/// One named point.
#[derive(Clone, Debug)]
pub struct Point {
    name: String,
    at: (f64, f64),
}

impl Point {
    pub fn new(name: impl Into<String>, at: (f64, f64)) -> Self {
        Self {
            name: name.into(),
            at,
        }
    }
}

pub struct ScatterChart<'a> {
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    /// Points of one group have one colour.
    pub groups: Vec<(String, Vec<Point>)>,
    /// Its points are joined in their order.
    pub curve: Option<(String, Vec<Point>)>,
}

impl ScatterChart<'_> {
    pub fn svg(&self) -> Markup {
        let grouped = || self.groups.iter().flat_map(|(_, points)| points.iter());
        let on_curve = || self.curve.iter().flat_map(|(_, points)| points.iter());
        let all = || grouped().chain(on_curve());
        let frame = Frame {
            x: self.x.scale(all().map(|point| point.at.0)),
            y: self.y.scale(all().map(|point| point.at.1)),
        };
        let mut taken: Vec<Area> = all()
            .map(|point| Area::around(frame.at(point.at), 5.0))
            .collect();
        let mut names: Vec<(String, String)> = self
            .groups
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.clone(), colour(index)))
            .collect();
        names.extend(
            self.curve
                .iter()
                .map(|(name, _)| (name.clone(), "curve".to_owned())),
        );
        let (legend, legend_height) = legend(&names);
        // The named points first: they get the better places.
        let labels: Vec<Markup> = grouped()
            .filter_map(|point| label(&frame, point, "point", &mut taken, true))
            .collect();
        // Those of the curve only where there is room: their neighbours tell.
        let curve_labels: Vec<Markup> = on_curve()
            .filter_map(|point| label(&frame, point, "tick", &mut taken, false))
            .collect();
        let content = html! {
            (legend)
            g transform=(format!("translate(0 {legend_height})")) {
                (frame.axes(&self.x, &self.y))
                @if let Some((_, points)) = &self.curve {
                    path class="line curve" d=(path(points.iter().map(|point| frame.at(point.at)))) {}
                    @for point in points { (dot(&frame, point, "curve", "3")) }
                }
                @for (index, (_, points)) in self.groups.iter().enumerate() {
                    @for point in points { (dot(&frame, point, &colour(index), "6")) }
                }
                @for label in labels.iter().chain(&curve_labels) { (label) }
            }
        };
        let title = format!("{} against {}", self.y.label, self.x.label);
        svg(&title, HEIGHT + legend_height, &content)
    }
}

fn dot(frame: &Frame, point: &Point, class: &str, radius: &str) -> Markup {
    let (x, y) = frame.at(point.at);
    html! {
        circle class=(format!("dot {class}")) cx=(px(x)) cy=(px(y)) r=(radius) { title { (point.name) } }
    }
}

/// Without `always`, nothing where it would cover something.
fn label(
    frame: &Frame,
    point: &Point,
    class: &str,
    taken: &mut Vec<Area>,
    always: bool,
) -> Option<Markup> {
    let bounds = Area {
        x: LEFT,
        y: TOP,
        width: WIDTH - LEFT - RIGHT,
        height: HEIGHT - TOP - BOTTOM,
    };
    let area = place(&point.name, frame.at(point.at), taken, &bounds);
    if !always && taken.iter().any(|other| area.overlap(other) > 0.0) {
        return None;
    }
    taken.push(area);
    let (x, y) = area.baseline();
    // Its own white space counts, so the text stands in the middle of it.
    let x = x + area.width / 2.0;
    let (point_x, point_y) = frame.at(point.at);
    let (near_x, near_y) = area.nearest((point_x, point_y));
    let is_far = (near_x - point_x).hypot(near_y - point_y) > FAR;
    Some(html! {
        @if is_far {
            line class="lead" x1=(px(point_x)) y1=(px(point_y)) x2=(px(near_x)) y2=(px(near_y)) {}
        }
        text class=(class) x=(px(x)) y=(px(y)) text-anchor="middle" { (point.name) }
    })
}
