//! How long the arm takes over a distance.

use crate::ParameterError;

/// Fraction bits of the long seeks' slope.
const SLOPE_BITS: u32 = 16;

/// Halvings of the search for the knee: enough for every digit of an `f64`.
const BISECTIONS: u32 = 60;

/// Seek time by distance: `a + b * sqrt(d)` while the arm accelerates and
/// brakes, `c + e * d` once it coasts (Ruemmler and Wilkes, "An introduction
/// to disk drive modeling", IEEE Computer 27(3), 1994).
///
/// Both pieces meet with equal value and equal slope. That, and the three
/// times that every data sheet states (to the next track, over the full
/// stroke, and on average over all pairs of cylinders) determine all five
/// unknowns: nothing is left to be fitted.
pub(super) struct SeekCurve {
    /// Nanoseconds for the distances below the knee; the first is 0.
    short_ns: Vec<u64>,
    long_base_ns: u64,
    long_slope: u64,
}

impl SeekCurve {
    /// The curve through the data sheet's times, for a stroke of `cylinders`.
    pub(super) fn new(
        track_ms: f64,
        average_ms: f64,
        full_ms: f64,
        cylinders: u32,
    ) -> Result<SeekCurve, ParameterError> {
        let stroke = f64::from(cylinders.max(3) - 1);
        let shape = |knee_root: f64| Shape::new(track_ms, full_ms, stroke, knee_root);
        let (mut low, mut high) = (1.0 / stroke.sqrt(), 1.0);
        let (least, most) = (shape(low).mean_ms(), shape(high).mean_ms());
        if !(least..=most).contains(&average_ms) {
            return Err(ParameterError::new(
                "seek_average_ms",
                average_ms,
                format!(
                    "must lie in {least:.2}..{most:.2} for a seek of {track_ms} ms to the next \
                     track and of {full_ms} ms over the full stroke"
                ),
            ));
        }
        // A knee farther out means more of the curve is bent upwards: the
        // mean grows with it.
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if shape(middle).mean_ms() < average_ms {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(shape(low).tabulate())
    }

    /// Nanoseconds from leaving one cylinder to having settled on another,
    /// `distance` cylinders away.
    #[inline]
    pub(super) fn ns(&self, distance: u32) -> u64 {
        match self.short_ns.get(distance as usize) {
            Some(ns) => *ns,
            None => self.long_base_ns + ((u64::from(distance) * self.long_slope) >> SLOPE_BITS),
        }
    }
}

/// One candidate curve, in milliseconds over fractions of the stroke.
struct Shape {
    stroke: f64,
    /// Square root of the knee's distance.
    knee_root: f64,
    base: f64,
    /// Factor of the square root.
    bend: f64,
}

impl Shape {
    fn new(track_ms: f64, full_ms: f64, stroke: f64, knee_root: f64) -> Shape {
        let reach = (knee_root + 1.0 / knee_root) / 2.0;
        let first = 1.0 / stroke.sqrt();
        let bend = (full_ms - track_ms) / (reach - first);
        Shape {
            stroke,
            knee_root,
            base: track_ms - bend * first,
            bend,
        }
    }

    /// Over the knee: what the line starts from, and its slope.
    fn line(&self) -> (f64, f64) {
        (
            self.bend * self.knee_root / 2.0,
            self.bend / (2.0 * self.knee_root),
        )
    }

    /// Mean over all pairs of cylinders: a distance `x` of the stroke occurs
    /// with density `2 * (1 - x)`.
    fn mean_ms(&self) -> f64 {
        let knee = self.knee_root * self.knee_root;
        let bent = 2.0
            * self.bend
            * (2.0 / 3.0 * knee * self.knee_root - 2.0 / 5.0 * knee * knee * self.knee_root);
        let (start, slope) = self.line();
        let straight = start * (1.0 - knee) * (1.0 - knee)
            + 2.0 * slope * ((0.5 - 1.0 / 3.0) - (knee * knee / 2.0 - knee * knee * knee / 3.0));
        self.base + bent + straight
    }

    fn tabulate(&self) -> SeekCurve {
        let knee_distance = self.knee_root * self.knee_root * self.stroke;
        let short_ns = (0..=knee_distance as u32)
            .map(|distance| {
                let root = (f64::from(distance) / self.stroke).sqrt();
                match distance {
                    0 => 0,
                    _ => ms_to_ns(self.base + self.bend * root),
                }
            })
            .collect();
        let (start, slope) = self.line();
        let scale = f64::from(1u32 << SLOPE_BITS);
        SeekCurve {
            short_ns,
            long_base_ns: ms_to_ns(self.base + start),
            long_slope: (slope * 1e6 / self.stroke * scale).round() as u64,
        }
    }
}

/// A data sheet's milliseconds in nanoseconds.
pub(super) fn ms_to_ns(ms: f64) -> u64 {
    (ms * 1e6).round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYLINDERS: u32 = 15_042;

    fn curve() -> SeekCurve {
        SeekCurve::new(0.6, 4.9, 10.5, CYLINDERS).unwrap()
    }

    #[test]
    fn the_data_sheets_three_times_come_back() {
        let curve = curve();
        assert_eq!(curve.ns(0), 0);
        assert!(curve.ns(1).abs_diff(600_000) < 1_000);
        assert!(curve.ns(CYLINDERS - 1).abs_diff(10_500_000) < 10_000);
        // IBM's specifications define the average by this weighted sum.
        let mut sum = 0.0;
        let mut weights = 0.0;
        for distance in 1..CYLINDERS {
            let weight = f64::from(CYLINDERS - distance);
            sum += weight * curve.ns(distance) as f64;
            weights += weight;
        }
        let mean_ms = sum / weights / 1e6;
        assert!((mean_ms - 4.9).abs() < 0.01, "mean seek {mean_ms} ms");
    }

    #[test]
    fn a_longer_way_never_takes_less_time_and_has_no_step() {
        let curve = curve();
        for distance in 2..CYLINDERS {
            let (before, after) = (curve.ns(distance - 1), curve.ns(distance));
            assert!(after >= before, "at {distance}: {before} ns, then {after}");
            assert!(after - before < 60_000, "a step at {distance}");
        }
    }

    #[test]
    fn an_average_that_no_curve_has_is_refused() {
        let Err(error) = SeekCurve::new(0.6, 9.0, 10.5, CYLINDERS) else {
            panic!("an average near the full stroke was taken");
        };
        assert_eq!(error.parameter, "seek_average_ms");
    }
}
