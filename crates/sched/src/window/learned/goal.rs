//! Which of two epochs is better.

use super::epoch::Seen;
use crate::objective::Objective;

/// Above a latency that was asked for, one percent of it is worth so many percent of the
/// lower levels' work: more than any step of the window gains.
const STRICT: f64 = 4.0;
/// The least latency is forgotten by so much with each epoch, as a logarithm: a device that
/// has become slower is known in some thousand.
const FORGETS: f64 = 0.001;
/// Weight of one request in the average of what the foreground has alone.
const ALONE_PART: f64 = 1.0 / 64.0;

/// See the file's page. Latencies are logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    objective: Wanted,
    /// The least latency that the foreground was seen to have.
    least: Option<f64>,
    /// Moving average of the squares of its latencies while nothing else is there.
    alone: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    /// One percent less of latency is worth so many percent of work where it is the least
    /// that was seen, twice as many where it is e times as long, three times e squared.
    Elasticity(f64),
    /// Below the latency there is nothing to gain but work.
    Latency(f64),
    /// So much more than the least is as good as that.
    Slowdown(f64),
}

impl From<Objective> for Goal {
    fn from(objective: Objective) -> Goal {
        Goal::new(match objective {
            Objective::Elasticity(thousandths) => Wanted::Elasticity(f64::from(thousandths) / 1e3),
            Objective::Latency(ns) => Wanted::Latency((ns as f64).ln()),
            Objective::Slowdown(percent) => Wanted::Slowdown((f64::from(percent) / 100.0).ln()),
        })
    }
}

impl Goal {
    fn new(objective: Wanted) -> Goal {
        Goal {
            objective,
            least: None,
            alone: None,
        }
    }

    /// While there is no foreground: one percent less of what the lower levels' transfers take
    /// is worth so many percent of their work.
    pub(super) fn without_foreground(elasticity: f64) -> Goal {
        Goal::new(Wanted::Elasticity(elasticity))
    }

    /// Notes what the foreground's latency was, beside the lower levels or alone.
    pub(super) fn saw(&mut self, latency: f64) {
        let least = self.least.map(|least| least + FORGETS);
        self.least = Some(least.unwrap_or(latency).min(latency));
    }

    /// Notes what one request of the foreground took with nothing of the lower levels
    /// beside it.
    pub(super) fn saw_alone(&mut self, latency_ns: f64) {
        let square = latency_ns * latency_ns;
        let mean = self.alone.unwrap_or(square);
        let mean = mean + (square - mean) * ALONE_PART;
        self.alone = Some(mean);
        self.saw(mean.max(1.0).ln() / 2.0);
    }

    /// What is gained from one to the other, as the logarithm of work.
    pub(super) fn gain(self, from: &Seen, to: &Seen) -> f64 {
        let work = work_gained(from, to);
        match (from.urgent, to.urgent) {
            (Some(from), Some(to)) => work - self.loss(from, to),
            // Nobody waited for anything: what the first would find.
            _ => match (self.objective, from.lower, to.lower) {
                (Wanted::Elasticity(elasticity), Some(from), Some(to)) => {
                    work - elasticity * (to - from)
                }
                _ => work,
            },
        }
    }

    /// What a longer latency costs, in work.
    pub(super) fn loss(self, from: f64, to: f64) -> f64 {
        self.cost(to) - self.cost(from)
    }

    fn cost(self, latency: f64) -> f64 {
        let beyond = |latency: f64| (latency - self.least.unwrap_or(latency)).max(0.0);
        match self.objective {
            Wanted::Elasticity(elasticity) => {
                elasticity * (latency + beyond(latency).powi(2) / 2.0)
            }
            Wanted::Latency(target) => STRICT * (latency - target).max(0.0),
            Wanted::Slowdown(more) => STRICT * beyond(latency - more),
        }
    }
}

/// Work counts as more (or less) only if it is so both per time in which the lower levels had
/// something outstanding and per time in all; the smaller difference counts. Where their own
/// demand is the limit, a faster setting raises only the first. Where demand comes in bursts,
/// chance moves only the second.
fn work_gained(from: &Seen, to: &Seen) -> f64 {
    let busy = to.work - from.work;
    let in_all = to.work_in_all - from.work_in_all;
    match busy.signum() == in_all.signum() {
        true => busy.signum() * busy.abs().min(in_all.abs()),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_gained_where_there_is_some_and_in_all() {
        let seen = |work, work_in_all| Seen {
            work,
            work_in_all,
            ..Seen::default()
        };
        let gained = |busy, in_all| work_gained(&seen(1.0, 2.0), &seen(1.0 + busy, 2.0 + in_all));
        assert_eq!(gained(0.5, 0.25), 0.25);
        assert_eq!(gained(-0.25, -0.5), -0.25);
        assert_eq!(gained(0.5, -0.25), 0.0);
        assert_eq!(gained(-0.5, 0.25), 0.0);
    }

    #[test]
    fn below_a_target_only_work_counts_and_above_it_latency() {
        let goal = Goal::from(Objective::Latency(1_000_000));
        let ln_ms = |ms: f64| (ms * 1e6).ln();
        assert_eq!(goal.loss(ln_ms(0.1), ln_ms(0.9)), 0.0);
        assert!(goal.loss(ln_ms(0.9), ln_ms(2.0)) > 4.0 * 0.69);
        assert!(goal.loss(ln_ms(4.0), ln_ms(2.0)) < -4.0 * 0.69);
    }

    #[test]
    fn the_longer_it_takes_the_more_a_percent_is_worth() {
        let mut goal = Goal::from(Objective::default());
        let step = |goal: Goal, times: f64| goal.loss(times.ln(), times.ln() + 0.01) / 0.01;
        assert!((step(goal, 100.0) - 0.3).abs() < 1e-9);
        goal.saw(0.0);
        assert!((step(goal, 1.0) - 0.3).abs() < 0.01);
        assert!((step(goal, 10.0) - 0.3 * (1.0 + 10f64.ln())).abs() < 0.01);
    }

    #[test]
    fn what_a_foreground_has_alone_is_the_least_and_forgotten() {
        let mut goal = Goal::from(Objective::Slowdown(200));
        goal.saw(1.0);
        let loss = |goal: Goal| goal.loss(1.0, 2.0);
        let strict = loss(goal);
        assert!((strict - STRICT * (1.0 - 2f64.ln())).abs() < 1e-9);
        for _ in 0..2000 {
            goal.saw(3.0);
        }
        assert_eq!(loss(goal), 0.0);
    }
}
