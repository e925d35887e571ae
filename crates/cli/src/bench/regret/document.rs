//! What came out, as JSON has it.

use iolane_disk::regret::{
    Compared, Contender, Course, Load, Outcome, Reaction, Regret, best_window,
};
use serde::{Serialize, Serializer};

use super::RegretOptions;

/// A contender's run; of several repetitions the medians.
#[derive(Clone, Debug, Serialize)]
pub struct RunDocument {
    #[serde(serialize_with = "name")]
    pub policy: Contender,
    pub foreground_operations: u64,
    pub foreground_p99_ns: u64,
    pub lower_work: f64,
    pub lower_operations: u64,
    pub lower_bytes: u64,
    pub reaction: Option<ReactionDocument>,
    /// Of several repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<SpreadDocument>,
}

/// Least and most of the repetitions.
#[derive(Clone, Debug, Serialize)]
pub struct SpreadDocument {
    pub foreground_p99_ns: [u64; 2],
    pub lower_work: [f64; 2],
}

fn name<S: Serializer>(contender: &Contender, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&contender.name())
}

impl RunDocument {
    /// Of the repetitions of one contender, of which there is one at least.
    pub fn median(outcomes: &[Outcome]) -> Self {
        let of = |figure: fn(&Outcome) -> f64| sorted(outcomes.iter().map(figure));
        let p99_ns = of(|one| one.foreground_p99_ns as f64);
        let work = of(|one| one.lower_work);
        Self {
            policy: outcomes[0].contender,
            foreground_operations: middle(&of(|one| one.foreground_operations as f64)) as u64,
            foreground_p99_ns: middle(&p99_ns) as u64,
            lower_work: middle(&work),
            lower_operations: middle(&of(|one| one.lower_operations as f64)) as u64,
            lower_bytes: middle(&of(|one| one.lower_bytes as f64)) as u64,
            reaction: ReactionDocument::median(
                outcomes.iter().filter_map(|one| one.reaction.as_ref()),
            ),
            spread: (outcomes.len() > 1).then(|| SpreadDocument {
                foreground_p99_ns: ends(&p99_ns).map(|ns| ns as u64),
                lower_work: ends(&work),
            }),
        }
    }

    fn compared(&self) -> Compared {
        Compared {
            contender: self.policy,
            p99_ns: self.foreground_p99_ns as f64,
            work: self.lower_work,
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    let upper = sorted[sorted.len() / 2];
    let lower = sorted[(sorted.len() - 1) / 2];
    (lower + upper) / 2.0
}

fn ends(sorted: &[f64]) -> [f64; 2] {
    [sorted[0], sorted[sorted.len() - 1]]
}

/// After a change of the load; of several repetitions the medians.
#[derive(Clone, Debug, Serialize)]
pub struct ReactionDocument {
    pub p99_ns: u64,
    pub settled_p99_ns: u64,
    pub ratio: f64,
    pub within_ns: u64,
    pub within_operations: u64,
}

impl ReactionDocument {
    /// None of none.
    pub fn median<'a>(reactions: impl Iterator<Item = &'a Reaction>) -> Option<Self> {
        let reactions: Vec<&Reaction> = reactions.collect();
        let of = |figure: fn(&Reaction) -> f64| {
            middle(&sorted(reactions.iter().map(|reaction| figure(reaction))))
        };
        (!reactions.is_empty()).then(|| Self {
            p99_ns: of(|one| one.p99_ns as f64) as u64,
            settled_p99_ns: of(|one| one.settled_p99_ns as f64) as u64,
            ratio: of(Reaction::ratio),
            within_ns: of(|one| one.within_ns as f64) as u64,
            within_operations: of(|one| one.within_operations as f64) as u64,
        })
    }
}

/// What one of them gave away.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(serialize_with = "name")]
    pub policy: Contender,
    pub latency_regret: f64,
    pub throughput_regret: f64,
    pub worse_than_noop: bool,
}

impl Judged {
    /// Under this name.
    fn of(policy: Contender, own: &Compared, others: &[Compared]) -> Self {
        let regret = Regret::between(own, others);
        Self {
            policy,
            latency_regret: regret.latency,
            throughput_regret: regret.throughput,
            worse_than_noop: regret.worse_than_noop,
        }
    }
}

/// The floor on a real disk: the fixed window that is best in the odd repetitions, judged in
/// the even ones, and `lanes` in the same. What that window regrets is chance.
#[derive(Clone, Debug, Serialize)]
pub struct AgainDocument {
    pub hindsight: Judged,
    pub lanes: Judged,
}

impl AgainDocument {
    /// Of each contender's repetitions, `lanes` first; none of a single one.
    pub fn of(outcomes: &[Vec<Outcome>]) -> Option<Self> {
        let half = |first: usize| -> Option<Vec<Compared>> {
            let median = |all: &Vec<Outcome>| {
                let half: Vec<Outcome> = all.iter().skip(first).step_by(2).cloned().collect();
                (!half.is_empty()).then(|| RunDocument::median(&half).compared())
            };
            outcomes.iter().map(median).collect()
        };
        let (odd, even) = (half(0)?, half(1)?);
        let (lanes, others) = even.split_first()?;
        let window = best_window(&odd[1..]);
        let chosen = Contender::Window(window);
        let own = others.iter().find(|one| one.contender == chosen)?;
        Some(Self {
            hindsight: Judged::of(Contender::Hindsight(window), own, others),
            lanes: Judged::of(lanes.contender, lanes, others),
        })
    }
}

/// One load on one disk.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    pub model: String,
    pub load_seed: u64,
    pub description: String,
    pub warm_up_ns: u64,
    pub duration_ns: u64,
    pub latency_regret: f64,
    #[serde(serialize_with = "name")]
    pub latency_best: Contender,
    pub throughput_regret: f64,
    #[serde(serialize_with = "name")]
    pub throughput_best: Contender,
    /// Only beyond the curve.
    pub lower_work_of_window_1: Option<f64>,
    pub worse_than_noop: bool,
    /// Under `lanes`.
    pub reaction: Option<ReactionDocument>,
    pub measured_again: Option<AgainDocument>,
    pub runs: Vec<RunDocument>,
}

impl LoadResult {
    /// `runs`: that of `lanes` first.
    pub fn new(
        model: &str,
        load: &Load,
        course: &Course,
        runs: Vec<RunDocument>,
        measured_again: Option<AgainDocument>,
    ) -> Self {
        let others: Vec<Compared> = runs[1..].iter().map(RunDocument::compared).collect();
        let regret = Regret::between(&runs[0].compared(), &others);
        Self {
            model: model.to_owned(),
            load_seed: load.seed,
            description: load.description(course),
            warm_up_ns: course.warm_up_ns,
            duration_ns: course.duration_ns,
            latency_regret: regret.latency,
            latency_best: regret.latency_best,
            throughput_regret: regret.throughput,
            throughput_best: regret.throughput_best,
            lower_work_of_window_1: regret.of_window_1,
            worse_than_noop: regret.worse_than_noop,
            reaction: runs[0].reaction.clone(),
            measured_again,
            runs,
        }
    }

    /// How bad it is: the greater the worse.
    pub fn badness(&self) -> f64 {
        let beyond = self.lower_work_of_window_1.map_or(0.0, |share| 1.0 / share);
        self.latency_regret.max(self.throughput_regret).max(beyond)
    }
}

/// Of many loads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Distribution {
    pub median: f64,
    pub p95: f64,
    pub worst: f64,
}

impl Distribution {
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values = sorted(values);
        let at = |percent: usize| {
            let place = (values.len() * percent).div_ceil(100).max(1) - 1;
            values.get(place).copied()
        };
        Some(Self {
            median: at(50)?,
            p95: at(95)?,
            worst: at(100)?,
        })
    }
}

/// What [`Judged`] ones come to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct JudgedSummary {
    pub latency_regret: Distribution,
    pub throughput_regret: Distribution,
    pub worse_than_noop: usize,
}

impl JudgedSummary {
    fn of<'a>(all: impl Iterator<Item = &'a Judged> + Clone) -> Option<Self> {
        Some(Self {
            latency_regret: Distribution::of(all.clone().map(|one| one.latency_regret))?,
            throughput_regret: Distribution::of(all.clone().map(|one| one.throughput_regret))?,
            worse_than_noop: all.filter(|one| one.worse_than_noop).count(),
        })
    }
}

/// What all [`AgainDocument`]s come to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AgainSummary {
    pub hindsight: JudgedSummary,
    pub lanes: JudgedSummary,
}

/// What all loads come to.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How many loads.
    pub loads: usize,
    pub latency_regret: Distribution,
    pub throughput_regret: Distribution,
    /// Loads on which `lanes` is beyond the curve.
    pub beyond_the_curve: usize,
    /// Of those; none without any.
    pub lower_work_of_window_1_min: Option<f64>,
    pub worse_than_noop: usize,
    /// Foreground p99 in the second after a change, in settled ones; none
    /// without loads that change.
    pub reaction_ratio: Option<Distribution>,
    pub reaction_within_ns: Option<Distribution>,
    pub reaction_within_operations: Option<Distribution>,
    /// None without repetitions on a real disk.
    pub measured_again: Option<AgainSummary>,
}

impl Summary {
    /// None without loads.
    pub fn of<'a>(loads: impl Iterator<Item = &'a LoadResult> + Clone) -> Option<Self> {
        let beyond = loads.clone().filter_map(|one| one.lower_work_of_window_1);
        let again = |of: fn(&AgainDocument) -> &Judged| {
            let all = loads.clone().filter_map(|one| one.measured_again.as_ref());
            JudgedSummary::of(all.map(of))
        };
        let reaction = |of: fn(&ReactionDocument) -> f64| {
            let all = loads.clone().filter_map(|one| one.reaction.as_ref());
            Distribution::of(all.map(of))
        };
        Some(Self {
            loads: loads.clone().count(),
            latency_regret: Distribution::of(loads.clone().map(|one| one.latency_regret))?,
            throughput_regret: Distribution::of(loads.clone().map(|one| one.throughput_regret))?,
            beyond_the_curve: beyond.clone().count(),
            lower_work_of_window_1_min: beyond.reduce(f64::min),
            worse_than_noop: loads.clone().filter(|one| one.worse_than_noop).count(),
            reaction_ratio: reaction(|one| one.ratio),
            reaction_within_ns: reaction(|one| one.within_ns as f64),
            reaction_within_operations: reaction(|one| one.within_operations as f64),
            measured_again: again(|one| &one.hindsight)
                .zip(again(|one| &one.lanes))
                .map(|(hindsight, lanes)| AgainSummary { hindsight, lanes }),
        })
    }
}

/// All loads of one disk.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSummary {
    pub model: String,
    #[serde(flatten)]
    pub summary: Summary,
}

#[derive(Clone, Debug, Serialize)]
pub struct RegretOutcome {
    pub summary: Summary,
    pub models: Vec<ModelSummary>,
    pub loads: Vec<LoadResult>,
    #[serde(skip)]
    pub verbose: bool,
    /// Of a command that runs a load again, what comes before the load.
    #[serde(skip)]
    pub target: Option<String>,
}

impl RegretOutcome {
    /// None without loads.
    pub fn of(loads: Vec<LoadResult>, options: &RegretOptions) -> Option<Self> {
        let mut names: Vec<&str> = loads.iter().map(|one| one.model.as_str()).collect();
        names.dedup();
        let models = names
            .iter()
            .filter_map(|&name| {
                Some(ModelSummary {
                    model: name.to_owned(),
                    summary: Summary::of(loads.iter().filter(|one| one.model == name))?,
                })
            })
            .collect();
        Some(Self {
            summary: Summary::of(loads.iter())?,
            models,
            loads,
            verbose: options.verbose,
            target: options.target.clone(),
        })
    }

    /// The worst loads, the worst first.
    pub fn worst(&self, count: usize) -> Vec<&LoadResult> {
        let mut worst: Vec<&LoadResult> = self.loads.iter().collect();
        worst.sort_by(|one, other| other.badness().total_cmp(&one.badness()));
        worst.truncate(count);
        worst
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What contenders did in each repetition: p99 in microseconds, and work.
    fn repetitions(of: &[(Contender, [(u64, f64); 4])]) -> Vec<Vec<Outcome>> {
        let outcome = |contender, (p99_us, lower_work)| Outcome {
            contender,
            foreground_operations: 1000,
            foreground_p99_ns: p99_us * 1000,
            lower_work,
            lower_operations: 1000,
            lower_bytes: 0,
            reaction: None,
        };
        let all = of.iter().map(|&(contender, of)| {
            let of = of.iter().map(|&figures| outcome(contender, figures));
            of.collect()
        });
        all.collect()
    }

    /// Window 4 is the best by chance in the first and the third repetition.
    pub fn fake() -> Vec<Vec<Outcome>> {
        repetitions(&[
            (
                Contender::Lanes,
                [(900, 0.1), (300, 0.6), (900, 0.1), (300, 0.6)],
            ),
            (Contender::Noop, [(800, 0.9); 4]),
            (Contender::Window(1), [(200, 0.7); 4]),
            (
                Contender::Window(4),
                [(100, 0.9), (500, 0.5), (100, 0.9), (500, 0.5)],
            ),
        ])
    }

    #[test]
    fn what_was_best_in_the_odd_repetitions_is_judged_in_the_even_ones() {
        let again = AgainDocument::of(&fake()).unwrap();
        assert_eq!(again.hindsight.policy, Contender::Hindsight(4));
        assert_eq!(again.hindsight.latency_regret, 2.5);
        assert_eq!(again.hindsight.throughput_regret, 1.4);
        assert!(!again.hindsight.worse_than_noop);
        // Of the same repetitions alone: in all four it has 600 us and 0.35.
        assert_eq!(again.lanes.policy, Contender::Lanes);
        assert_eq!(again.lanes.latency_regret, 1.5);
        assert!((again.lanes.throughput_regret - 0.7 / 0.6).abs() < 1e-9);
    }

    #[test]
    fn one_repetition_says_nothing_of_chance() {
        let mut once = fake();
        once.iter_mut().for_each(|all| all.truncate(1));
        assert!(AgainDocument::of(&once).is_none());
    }
}
