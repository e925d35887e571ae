//! A line through points (least squares), the old ones forgotten.

/// A point counts this much less with each that comes after it: the line is that
/// of the last hundred or so.
const FORGET: f64 = 1.0 / 64.0;
/// Points before the line is believed.
const POINTS_MIN: f64 = 16.0;

/// See the file's page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// Where a line begins, how it rises, and how sure that is.
pub(super) struct Fit {
    pub(super) begin: f64,
    pub(super) slope: f64,
    pub(super) error: f64,
}

impl Line {
    /// Means and sums about them (Welford's method with weights), as sums of
    /// squares would lose the digits that matter.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        let keep = 1.0 - FORGET;
        self.count = self.count * keep + 1.0;
        let (dx, dy) = (x - self.x, y - self.y);
        self.x += dx / self.count;
        self.y += dy / self.count;
        self.xx = self.xx * keep + dx * (x - self.x);
        self.xy = self.xy * keep + dx * (y - self.y);
        self.yy = self.yy * keep + dy * (y - self.y);
    }

    /// The line, once there are enough points, not all of the same `x`.
    pub(super) fn fit(&self) -> Option<Fit> {
        if self.count < POINTS_MIN || self.xx <= 0.0 {
            return None;
        }
        let slope = self.xy / self.xx;
        let left = (self.yy - slope * self.xy).max(0.0) / (self.count - 2.0);
        Some(Fit {
            begin: self.y - slope * self.x,
            slope,
            error: (left / self.xx).sqrt(),
        })
    }
}
