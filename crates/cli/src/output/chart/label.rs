//! Text beside points, kept from covering other text and points.

/// Height of a label's letters, in units of the drawing.
const HEIGHT: f64 = 14.0;

/// Advance of a letter: proportional fonts differ, so on the large side, as wide
/// as bold ones.
const LETTER: f64 = 8.2;

/// Estimated, as no font is at hand.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Upper left corner, and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    pub fn around(point: (f64, f64), radius: f64) -> Self {
        Self {
            x: point.0 - radius,
            y: point.1 - radius,
            width: 2.0 * radius,
            height: 2.0 * radius,
        }
    }

    pub fn overlap(&self, other: &Self) -> f64 {
        let along = |a: f64, a_length: f64, b: f64, b_length: f64| {
            ((a + a_length).min(b + b_length) - a.max(b)).max(0.0)
        };
        along(self.x, self.width, other.x, other.width)
            * along(self.y, self.height, other.y, other.height)
    }

    fn outside(&self, bounds: &Self) -> bool {
        self.x < bounds.x
            || self.y < bounds.y
            || self.x + self.width > bounds.x + bounds.width
            || self.y + self.height > bounds.y + bounds.height
    }

    /// Its point next to another one.
    pub fn nearest(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            x.clamp(self.x, self.x + self.width),
            y.clamp(self.y, self.y + self.height),
        )
    }

    /// Where the text's baseline starts.
    pub fn baseline(&self) -> (f64, f64) {
        (self.x, self.y + self.height - 3.0)
    }
}

/// The place around a point that covers least of what is there already.
pub fn place(text: &str, point: (f64, f64), taken: &[Area], bounds: &Area) -> Area {
    let (width, gap) = (width(text), 8.0);
    let (x, y) = point;
    let beside = [
        (x + gap, y - HEIGHT / 2.0),
        (x - gap - width, y - HEIGHT / 2.0),
        (x - width / 2.0, y - gap - HEIGHT),
        (x - width / 2.0, y + gap),
        (x + gap, y - gap - HEIGHT),
        (x + gap, y + gap),
        (x - gap - width, y - gap - HEIGHT),
        (x - gap - width, y + gap),
        (x - width / 2.0, y - gap - 2.2 * HEIGHT),
        (x - width / 2.0, y + gap + 1.2 * HEIGHT),
        (x + 2.0 * gap, y - gap - 2.2 * HEIGHT),
        (x + 2.0 * gap, y + gap + 1.2 * HEIGHT),
        (x - 2.0 * gap - width, y - gap - 2.2 * HEIGHT),
        (x - 2.0 * gap - width, y + gap + 1.2 * HEIGHT),
    ];
    let candidates = beside.map(|(x, y)| Area {
        x,
        y,
        width,
        height: HEIGHT,
    });
    let cost = |area: &Area| {
        let covered: f64 = taken.iter().map(|other| area.overlap(other)).sum();
        covered + if area.outside(bounds) { 1e6 } else { 0.0 }
    };
    let mut best = candidates[0];
    for candidate in &candidates[1..] {
        if cost(candidate) < cost(&best) {
            best = *candidate;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Area = Area {
        x: 0.0,
        y: 0.0,
        width: 800.0,
        height: 300.0,
    };

    #[test]
    fn labels_of_near_points_do_not_overlap() {
        let points = [
            (200.0, 150.0),
            (204.0, 156.0),
            (190.0, 160.0),
            (210.0, 140.0),
        ];
        let mut taken: Vec<Area> = points
            .iter()
            .map(|point| Area::around(*point, 4.0))
            .collect();
        let mut labels: Vec<Area> = Vec::new();
        for point in points {
            let area = place("mq-deadline", point, &taken, &BOUNDS);
            assert!(
                labels.iter().all(|other| area.overlap(other) == 0.0),
                "{labels:?} {area:?}"
            );
            taken.push(area);
            labels.push(area);
        }
    }

    #[test]
    fn labels_stay_inside() {
        for point in [(2.0, 2.0), (798.0, 298.0), (798.0, 2.0)] {
            assert!(
                !place("lanes", point, &[], &BOUNDS).outside(&BOUNDS),
                "{point:?}"
            );
        }
    }
}
