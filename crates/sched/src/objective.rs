//! What the learned window is to reach.

use std::fmt;
use std::str::FromStr;

/// What [`WindowConfig::Learned`](crate::WindowConfig::Learned) is to reach. The
/// foreground's latency is that of the two upper levels, with their time in the queue, as
/// the root of its mean square: the long ones count more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// One percent less of the foreground's latency is worth so many thousandths of a
    /// percent of the lower levels' throughput where it is the least that was seen; three
    /// times as many where it is ten times as long (1 + ln 10).
    Elasticity(u32),
    /// The most throughput with which the foreground's latency is at most so many
    /// percent of what it is alone, as far as the device can: 200 is twice as long.
    Slowdown(u32),
    /// The most throughput with which the foreground's latency is at most so many
    /// nanoseconds, as far as the device can.
    Latency(u64),
}

impl Default for Objective {
    /// An elasticity of 0.3.
    fn default() -> Objective {
        Objective::Elasticity(300)
    }
}

/// Most of an elasticity: 10.
const ELASTICITY_MAX: f64 = 10.0;
/// Least and most of a slowdown.
const SLOWDOWN: (f64, f64) = (1.0, 1000.0);
/// Least and most of a latency, in nanoseconds.
const LATENCY_NS: (u64, u64) = (1_000, 100_000_000_000);

impl Objective {
    pub(crate) fn is_valid(self) -> bool {
        match self {
            Self::Elasticity(thousandths) => f64::from(thousandths) <= 1e3 * ELASTICITY_MAX,
            Self::Slowdown(percent) => {
                let times = f64::from(percent) / 100.0;
                (SLOWDOWN.0..=SLOWDOWN.1).contains(&times)
            }
            Self::Latency(ns) => (LATENCY_NS.0..=LATENCY_NS.1).contains(&ns),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Elasticity(thousandths) => {
                write!(f, "elasticity={}", f64::from(thousandths) / 1e3)
            }
            Self::Slowdown(percent) => write!(f, "slowdown={}", f64::from(percent) / 100.0),
            Self::Latency(ns) => write!(f, "latency={}us", ns as f64 / 1e3),
        }
    }
}

/// Why a text is no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an objective; give elasticity=0 to 10, slowdown=1 to 1000, or latency=1us to 100s"
)]
pub struct ObjectiveError(String);

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Objective, ObjectiveError> {
        parse(text)
            .filter(|objective| objective.is_valid())
            .ok_or_else(|| ObjectiveError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Objective> {
    let (name, value) = text.split_once('=')?;
    let parts = |each: f64| -> Option<u32> {
        let value: f64 = value.parse().ok()?;
        let parts = (value * each).round();
        (0.0..=f64::from(u32::MAX))
            .contains(&parts)
            .then_some(parts as u32)
    };
    match name {
        "elasticity" => Some(Objective::Elasticity(parts(1e3)?)),
        "slowdown" => Some(Objective::Slowdown(parts(1e2)?)),
        "latency" => {
            // The longer units first: "ms" ends in "s".
            let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
            let (number, each_ns) = units
                .into_iter()
                .find_map(|(unit, ns)| Some((value.strip_suffix(unit)?, ns)))?;
            let ns = number.parse::<f64>().ok()? * each_ns;
            (0.0..=LATENCY_NS.1 as f64)
                .contains(&ns)
                .then_some(Objective::Latency(ns as u64))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_what_is_to_be_reached() {
        for (text, objective) in [
            ("elasticity=0.3", Objective::default()),
            ("elasticity=0", Objective::Elasticity(0)),
            ("slowdown=1.5", Objective::Slowdown(150)),
            ("latency=250us", Objective::Latency(250_000)),
            ("latency=60ms", Objective::Latency(60_000_000)),
            ("latency=1.5s", Objective::Latency(1_500_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(objective));
            assert_eq!(objective.to_string().parse(), Ok(objective));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "latency",
            "latency=5",
            "latency=0ms",
            "latency=101s",
            "latency=-1ms",
            "latency=ms",
            "slowdown=0.9",
            "slowdown=1001",
            "slowdown=NaN",
            "elasticity=-1",
            "elasticity=11",
            "elasticity=inf",
            "speed=2",
        ] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }
}
