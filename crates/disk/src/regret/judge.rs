//! What `lanes` gave away.

use super::contender::Contender;
use super::run::Outcome;

/// Lower-level work that counts as the same.
const SAME_WORK: f64 = 0.95;
/// Foreground latency that counts as the same.
const SAME_LATENCY: f64 = 1.05;

/// Larger ones are not told apart: the other did next to nothing.
const RATIO_MAX: f64 = 1000.0;

/// What is compared of an [`Outcome`]: figures of one run, or medians of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Who decided.
    pub contender: Contender,
    /// The foreground's 99th percentile.
    pub p99_ns: f64,
    /// What the lower levels did.
    pub work: f64,
}

impl From<&Outcome> for Compared {
    fn from(outcome: &Outcome) -> Compared {
        Compared {
            contender: outcome.contender,
            p99_ns: outcome.foreground_p99_ns as f64,
            work: outcome.lower_work,
        }
    }
}

/// What a scheduler gave away against those that it was compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regret {
    /// Its foreground's 99th percentile over the least of all that carry at
    /// least 95 % of its lower-level work, itself among them: at least 1.
    pub latency: f64,
    /// Who has the least; the scheduler itself where nobody is better.
    pub latency_best: Contender,
    /// The most lower-level work of all whose 99th percentile is at most 1.05
    /// of its own, itself among them, over its own: at least 1.
    pub throughput: f64,
    /// Who has the most.
    pub throughput_best: Contender,
    /// Its lower-level work over that of window 1, where nobody else has as low
    /// a latency: it is beyond the curve there, and could have bought that with
    /// any amount of work.
    pub of_window_1: Option<f64>,
    /// Whether it is worse than `noop` by more than 5 % both in the
    /// foreground's latency and in lower-level work.
    pub worse_than_noop: bool,
}

impl Regret {
    /// Of two runs' outcomes.
    pub fn of(own: &Outcome, others: &[Outcome]) -> Regret {
        let others: Vec<Compared> = others.iter().map(Compared::from).collect();
        Regret::between(&own.into(), &others)
    }

    /// Of figures.
    pub fn between(own: &Compared, others: &[Compared]) -> Regret {
        let mut fastest = own;
        let mut busiest = own;
        let mut beyond = true;
        for other in others {
            if other.work >= SAME_WORK * own.work && other.p99_ns < fastest.p99_ns {
                fastest = other;
            }
            if other.p99_ns <= SAME_LATENCY * own.p99_ns {
                beyond = false;
                if other.work > busiest.work {
                    busiest = other;
                }
            }
        }
        let of = |contender| others.iter().find(|other| other.contender == contender);
        let window_1 = of(Contender::Window(1)).filter(|_| beyond);
        Regret {
            latency: ratio(own.p99_ns, fastest.p99_ns),
            latency_best: fastest.contender,
            throughput: ratio(busiest.work, own.work),
            throughput_best: busiest.contender,
            of_window_1: window_1.map(|window| ratio(own.work, window.work)),
            worse_than_noop: of(Contender::Noop).is_some_and(|noop| {
                own.p99_ns > SAME_LATENCY * noop.p99_ns && own.work < SAME_WORK * noop.work
            }),
        }
    }
}

/// Of these, the fixed window that regrets least: the product of both regrets. 1 without any.
pub fn best_window(compared: &[Compared]) -> u32 {
    let regret = |one: &Compared| {
        let regret = Regret::between(one, compared);
        regret.latency * regret.throughput
    };
    let windows = compared.iter().filter_map(|one| match one.contender {
        Contender::Window(window) => Some((window, regret(one))),
        _ => None,
    });
    let best = windows.min_by(|one, other| one.1.total_cmp(&other.1));
    best.map_or(1, |(window, _)| window)
}

/// Nothing of nothing is all of it.
fn ratio(one: f64, other: f64) -> f64 {
    if one == other {
        1.0
    } else {
        (one / other).min(RATIO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(contender: Contender, p99_ns: f64, work: f64) -> Compared {
        Compared {
            contender,
            p99_ns,
            work,
        }
    }

    fn curve() -> Vec<Compared> {
        vec![
            point(Contender::Noop, 100.0, 1.0),
            point(Contender::Window(1), 10.0, 0.3),
            point(Contender::Window(4), 20.0, 0.8),
            point(Contender::Window(16), 50.0, 0.96),
        ]
    }

    fn regret(p99_ns: f64, work: f64) -> Regret {
        Regret::between(&point(Contender::Lanes, p99_ns, work), &curve())
    }

    #[test]
    fn on_the_curve_there_is_nothing_to_regret() {
        let regret = regret(20.0, 0.8);
        assert_eq!((regret.latency, regret.throughput), (1.0, 1.0));
        assert_eq!(regret.of_window_1, None);
        assert_eq!(regret.latency_best, Contender::Lanes);
    }

    #[test]
    fn a_slower_foreground_at_the_same_work_is_regretted() {
        let regret = regret(40.0, 0.84);
        assert_eq!((regret.latency, regret.throughput), (2.0, 1.0));
        assert_eq!(regret.latency_best, Contender::Window(4));
        assert_eq!(regret.throughput_best, Contender::Lanes);
    }

    #[test]
    fn less_work_at_the_same_latency_is_regretted() {
        let regret = regret(19.2, 0.4);
        assert_eq!((regret.latency, regret.throughput), (1.0, 2.0));
        assert_eq!(regret.throughput_best, Contender::Window(4));
        // 20.0 is more than 5 % above it.
        assert_eq!(self::regret(19.0, 0.4).throughput, 1.0);
    }

    #[test]
    fn a_latency_that_nobody_has_is_paid_with_work() {
        let regret = regret(9.0, 0.15);
        assert_eq!((regret.latency, regret.throughput), (1.0, 1.0));
        assert_eq!(regret.of_window_1, Some(0.5));
    }

    #[test]
    fn work_that_nobody_does_is_no_regret() {
        let regret = regret(200.0, 2.0);
        assert_eq!((regret.latency, regret.throughput), (1.0, 1.0));
        assert_eq!(regret.of_window_1, None);
    }

    #[test]
    fn the_best_window_is_one_that_gives_nothing_away() {
        // Window 1 and 4 are on the curve: of equals the narrower.
        assert_eq!(best_window(&curve()), 1);
        let mut worse = curve();
        worse.push(point(Contender::Window(2), 10.0, 0.96));
        assert_eq!(best_window(&worse), 2);
        assert_eq!(best_window(&[]), 1);
    }

    #[test]
    fn worse_than_noop_is_worse_in_both() {
        assert!(regret(106.0, 0.94).worse_than_noop);
        assert!(!regret(106.0, 0.96).worse_than_noop);
        assert!(!regret(104.0, 0.94).worse_than_noop);
    }

    #[test]
    fn nothing_done_is_no_number_without_bounds() {
        assert_eq!(regret(20.0, 0.0).throughput, RATIO_MAX);
    }
}
