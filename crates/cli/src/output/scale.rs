//! From values to positions on an axis, and where its ticks are.

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Linear,
    /// Powers of two: depths and sizes.
    Log2,
    /// Decades: latencies.
    Log10,
}

/// An axis with its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    pub ticks: Vec<f64>,
}

/// Ticks that fit without their labels touching.
const TICKS_MAX: usize = 9;

impl Scale {
    /// Covers the values. A linear axis starts at 0, so that heights can be
    /// compared. Values that a logarithm does not take are left out.
    pub fn covering(kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let usable =
            values.filter(|value| value.is_finite() && (kind == Kind::Linear || *value > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        match kind {
            Kind::Linear => Self::linear(high),
            Kind::Log2 => Self::log2(low, high),
            Kind::Log10 => Self::log10(low, high),
        }
    }

    fn linear(high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_step(high / 5.0);
        let count = (high / step).ceil();
        // A step has two digits at the most: three times 0.2 is 0.6, and no more.
        let unit = 10f64.powf((1.0 - step.log10().floor()).max(0.0));
        let tick = |number: f64| (number * step * unit).round() / unit;
        Self {
            kind: Kind::Linear,
            low: 0.0,
            high: tick(count),
            ticks: (0..=count as u64)
                .map(|number| tick(number as f64))
                .collect(),
        }
    }

    fn log2(low: f64, high: f64) -> Self {
        let first = low.log2().floor();
        let last = high.log2().ceil().max(first + 1.0);
        let every = ((last - first) / TICKS_MAX as f64).ceil().max(1.0) as usize;
        Self {
            kind: Kind::Log2,
            low: first.exp2(),
            high: last.exp2(),
            ticks: (first as i32..=last as i32)
                .step_by(every)
                .map(|power| f64::from(power).exp2())
                .collect(),
        }
    }

    fn log10(low: f64, high: f64) -> Self {
        let steps = |power: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power));
        let first = low.log10().floor() as i32;
        let last = high.log10().floor() as i32 + 1;
        let fine: Vec<f64> = (first..=last).flat_map(steps).collect();
        // From the last step that is not above the lowest value to the first
        // that is not below the highest.
        let from = fine
            .iter()
            .rposition(|tick| *tick <= low * 1.000_001)
            .unwrap_or(0);
        let to = fine
            .iter()
            .position(|tick| *tick >= high * 0.999_999)
            .unwrap_or(fine.len() - 1)
            .max(from + 1);
        let mut ticks = fine[from..=to.min(fine.len() - 1)].to_vec();
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        if ticks.len() > TICKS_MAX {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6);
        }
        Self {
            kind: Kind::Log10,
            low,
            high,
            ticks,
        }
    }

    /// Where a value lies: 0 at the start of the axis, 1 at its end.
    pub fn position(&self, value: f64) -> f64 {
        let at = |value: f64| match self.kind {
            Kind::Linear => value,
            Kind::Log2 | Kind::Log10 => value.max(f64::MIN_POSITIVE).log2(),
        };
        ((at(value) - at(self.low)) / (at(self.high) - at(self.low))).clamp(0.0, 1.0)
    }
}

/// The next larger of 1, 2, 2.5, 5 and their multiples by ten.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|step| *step >= least * 0.999_999);
    step.unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_start_at_zero_and_end_on_a_tick() {
        let scale = Scale::covering(Kind::Linear, [120.0, 817.0].into_iter());
        assert_eq!(scale.ticks, [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(scale.position(500.0), 0.5);
    }

    #[test]
    fn linear_ticks_are_as_short_as_their_step() {
        for high in [0.0007, 0.03, 0.8, 1.1, 7.0, 9e7] {
            let scale = Scale::covering(Kind::Linear, [high].into_iter());
            let longest = scale.ticks.iter().map(|tick| tick.to_string().len()).max();
            assert!(longest <= Some(9), "{:?}", scale.ticks);
            assert_eq!(scale.ticks.last(), Some(&scale.high));
        }
    }

    #[test]
    fn depth_axes_have_powers_of_two() {
        let scale = Scale::covering(Kind::Log2, [1.0, 256.0].into_iter());
        assert_eq!(
            scale.ticks,
            [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]
        );
        assert_eq!(scale.position(16.0), 0.5);
        let wide = Scale::covering(Kind::Log2, [1.0, 32768.0].into_iter());
        assert!(wide.ticks.len() <= TICKS_MAX, "{:?}", wide.ticks);
    }

    #[test]
    fn latency_axes_enclose_the_values_closely() {
        let scale = Scale::covering(Kind::Log10, [46e3, 5.3e6].into_iter());
        assert_eq!(scale.ticks.first(), Some(&20e3));
        assert_eq!(scale.ticks.last(), Some(&10e6));
        let wide = Scale::covering(Kind::Log10, [100.0, 1e9].into_iter());
        assert_eq!(wide.ticks.len(), 8);
    }

    #[test]
    fn odd_data_still_gives_an_axis() {
        for kind in [Kind::Linear, Kind::Log2, Kind::Log10] {
            for values in [vec![], vec![0.0], vec![5.0], vec![f64::NAN, 3.0]] {
                let scale = Scale::covering(kind, values.iter().copied());
                assert!(scale.ticks.len() >= 2, "{kind:?} {values:?} {scale:?}");
                let positions = scale.ticks.iter().map(|tick| scale.position(*tick));
                assert!(positions.clone().all(f64::is_finite));
                assert!(positions.is_sorted());
            }
        }
    }
}
