//! Samples of all engines, as a table and as a document.

use crate::engines::Kind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One measured value.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was measured: the same words in each repetition.
    pub case: String,
    /// Unit of the value.
    pub unit: &'static str,
    /// How much.
    pub value: f64,
}

impl Sample {
    pub fn new(case: impl Into<String>, unit: &'static str, value: f64) -> Sample {
        Sample {
            case: case.into(),
            unit,
            value,
        }
    }
}

/// Median, least and greatest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Of an even number, the mean of the two in the middle.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl Spread {
    /// # Panics
    /// Without a value.
    fn of(values: &[f64]) -> Spread {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let half = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[half - 1], values[half])
        } else {
            values[half]
        };
        Spread {
            median,
            min: values[0],
            max: values[values.len() - 1],
        }
    }
}

#[derive(Serialize)]
struct EngineDocument {
    engine: Kind,
    /// By repetition.
    samples: Vec<f64>,
    value: Spread,
    /// Engine over iolane, in each repetition.
    ratio_to_iolane: Option<Spread>,
}

#[derive(Serialize)]
struct CaseDocument {
    case: String,
    unit: &'static str,
    engines: Vec<EngineDocument>,
}

#[derive(Serialize)]
struct Skipped {
    engine: Kind,
    reason: String,
}

/// All results of one sub-command.
#[derive(Serialize)]
pub struct Document {
    format: &'static str,
    command: String,
    experiment: &'static str,
    repetitions: u32,
    /// Or did an error or a signal end it before?
    complete: bool,
    environment: BTreeMap<&'static str, String>,
    cases: Vec<CaseDocument>,
    skipped: Vec<Skipped>,
}

/// Samples as they come.
pub struct Results {
    experiment: &'static str,
    repetitions: u32,
    /// Cases in the order in which they came first.
    cases: Vec<(String, &'static str)>,
    /// By case, engine and repetition.
    samples: BTreeMap<(usize, Kind, u32), f64>,
    skipped: BTreeMap<Kind, String>,
}

impl Results {
    pub fn new(experiment: &'static str, repetitions: u32) -> Results {
        Results {
            experiment,
            repetitions,
            cases: Vec::new(),
            samples: BTreeMap::new(),
            skipped: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, engine: Kind, repetition: u32, sample: Sample) {
        let case = (sample.case, sample.unit);
        let place = self.cases.iter().position(|known| *known == case);
        let place = place.unwrap_or_else(|| {
            self.cases.push(case);
            self.cases.len() - 1
        });
        self.samples
            .insert((place, engine, repetition), sample.value);
    }

    /// Leaves an engine out from here on. What it has reached stays.
    pub fn skip(&mut self, engine: Kind, reason: String) {
        self.skipped.insert(engine, reason);
    }

    pub fn is_skipped(&self, engine: Kind) -> bool {
        self.skipped.contains_key(&engine)
    }

    /// Was nothing measured yet?
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    pub fn document(&self, complete: bool) -> Document {
        let cases = self.cases.iter().enumerate();
        Document {
            format: "iolane-peers/1",
            command: std::env::args().collect::<Vec<_>>().join(" "),
            experiment: self.experiment,
            repetitions: self.repetitions,
            complete,
            environment: environment(),
            cases: cases
                .map(|(place, (case, unit))| CaseDocument {
                    case: case.clone(),
                    unit,
                    engines: self.engines_of(place),
                })
                .collect(),
            skipped: self
                .skipped
                .iter()
                .map(|(&engine, reason)| Skipped {
                    engine,
                    reason: reason.clone(),
                })
                .collect(),
        }
    }

    fn engines_of(&self, case: usize) -> Vec<EngineDocument> {
        let of = |engine: Kind, repetition: u32| self.samples.get(&(case, engine, repetition));
        let mut engines = Vec::new();
        for engine in Kind::ALL {
            let repetitions = 0..self.repetitions;
            let samples: Vec<f64> = repetitions
                .clone()
                .filter_map(|repetition| of(engine, repetition).copied())
                .collect();
            if samples.is_empty() {
                continue;
            }
            let ratios: Vec<f64> = repetitions
                .filter_map(|repetition| {
                    let own = of(engine, repetition)?;
                    let ours = of(Kind::Iolane, repetition)?;
                    (*ours > 0.0).then(|| own / ours)
                })
                .collect();
            engines.push(EngineDocument {
                engine,
                value: Spread::of(&samples),
                ratio_to_iolane: (!ratios.is_empty()).then(|| Spread::of(&ratios)),
                samples,
            });
        }
        engines
    }
}

impl Document {
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// A table per case.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {} [{}]", self.experiment, case.case, case.unit);
            let _ = writeln!(
                text,
                "  {:<8} {:>10} {:>10} {:>10}   {:>9} {:>8} {:>8}",
                "engine", "median", "min", "max", "of iolane", "min", "max"
            );
            for engine in &case.engines {
                let Spread { median, min, max } = engine.value;
                let _ = write!(
                    text,
                    "  {:<8} {:>10} {:>10} {:>10}",
                    engine.engine.name(),
                    number(median),
                    number(min),
                    number(max)
                );
                if let Some(ratio) = engine.ratio_to_iolane
                    && engine.engine != Kind::Iolane
                {
                    let _ = write!(
                        text,
                        "   {:>9.3} {:>8.3} {:>8.3}",
                        ratio.median, ratio.min, ratio.max
                    );
                }
                text.push('\n');
            }
        }
        for skipped in &self.skipped {
            let _ = writeln!(
                text,
                "left out: {}: {}",
                skipped.engine.name(),
                skipped.reason
            );
        }
        let _ = writeln!(
            text,
            "{} repetitions in turn{}; {} engines left out",
            self.repetitions,
            if self.complete {
                ""
            } else {
                ", not all of them"
            },
            self.skipped.len()
        );
        text
    }
}

/// Four digits, as far as that makes sense.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 1000.0 || value == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

fn environment() -> BTreeMap<&'static str, String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": ")?.1.into())
        .map_or_else(String::new, str::to_owned);
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    BTreeMap::from([
        (
            "kernel",
            read("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
        ("processor", processor),
        ("cpus", cpus.to_string()),
        ("load_average", read("/proc/loadavg").trim().to_owned()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_in_each_repetition() {
        let mut results = Results::new("commit", 3);
        for (repetition, (ours, theirs)) in [(100.0, 50.0), (200.0, 300.0), (400.0, 100.0)]
            .into_iter()
            .enumerate()
        {
            let repetition = repetition as u32;
            results.add(
                Kind::Iolane,
                repetition,
                Sample::new("1 thread", "/s", ours),
            );
            results.add(
                Kind::Lmdb,
                repetition,
                Sample::new("1 thread", "/s", theirs),
            );
        }
        results.skip(Kind::Innodb, "there is none".to_owned());
        let document = results.document(true);
        let lmdb = &document.cases[0].engines[1];
        let expected = |median, min, max| Spread { median, min, max };
        assert_eq!(lmdb.value, expected(100.0, 50.0, 300.0));
        assert_eq!(lmdb.ratio_to_iolane, Some(expected(0.5, 0.25, 1.5)));
        let text = document.text();
        assert!(text.contains("left out: innodb: there is none"), "{text}");
        assert!(document.json().unwrap().contains("\"ratio_to_iolane\""));
    }

    #[test]
    fn the_median_of_two_is_between_them() {
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
    }
}
