//! Horizontal bars: their names may be long.

use maud::{Markup, html};

use super::{Axis, WIDTH, colour, label, px, svg};

const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 54.0;
/// For the value written behind the longest bar.
const RIGHT: f64 = 84.0;
/// Names longer than this are the exception; more would leave no bars.
const NAMES_MAX: f64 = 320.0;

/// Named values, each written at the end of its bar.
pub struct BarChart<'a> {
    pub value: Axis<'a>,
    pub bars: Vec<(String, f64)>,
}

impl BarChart<'_> {
    pub fn svg(&self) -> Markup {
        let scale = self.value.scale(self.bars.iter().map(|bar| bar.1));
        let longest = self
            .bars
            .iter()
            .map(|bar| label::width(&bar.0))
            .fold(0.0, f64::max);
        let left = longest.min(NAMES_MAX) + 16.0;
        let end = TOP + ROW * self.bars.len() as f64;
        let x_at = |value: f64| left + scale.position(value) * (WIDTH - left - RIGHT);
        let content = html! {
            @for tick in &scale.ticks {
                @let x = x_at(*tick);
                line class="grid" x1=(px(x)) x2=(px(x)) y1=(px(TOP)) y2=(px(end)) {}
                text class="tick" x=(px(x)) y=(px(end + 16.0)) text-anchor="middle" { (self.value.tick_label(*tick)) }
            }
            @for (index, (name, value)) in self.bars.iter().enumerate() {
                @let y = TOP + ROW * index as f64 + (ROW - BAR) / 2.0;
                @let x = x_at(*value);
                text class="legend" x=(px(left - 8.0)) y=(px(y + 13.0)) text-anchor="end" { (name) }
                rect class=(format!("bar {}", colour(0))) x=(px(left)) y=(px(y)) width=(px((x - left).max(1.0))) height=(px(BAR)) {}
                text class="point" x=(px(x + 6.0)) y=(px(y + 13.0)) { ((self.value.tick)(*value)) }
            }
            line class="axis" x1=(px(left)) x2=(px(left)) y1=(px(TOP)) y2=(px(end)) {}
            text class="label" x=(px(left + (WIDTH - left - RIGHT) / 2.0)) y=(px(end + 40.0)) text-anchor="middle" { (self.value.label) }
        };
        svg(self.value.label, end + BOTTOM, &content)
    }
}
