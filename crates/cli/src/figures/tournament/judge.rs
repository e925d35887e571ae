//! Who wins: the lowest tail among those who leave the disk's throughput
//! alone.

use super::workload::{SCHEDULERS, Score};

/// Who gives up more of the best throughput than the rest of this cannot win.
pub const THROUGHPUT_SHARE_MIN: f64 = 0.9;
/// Tails that differ by less are equal: the histograms have three digits, and
/// another seed moves them by as much.
const TIE: f64 = 0.05;

/// All schedulers' scores at one disk and work, in the order of
/// [`SCHEDULERS`].
pub struct Contest {
    pub disk: &'static str,
    pub work: &'static str,
    pub scores: Vec<Score>,
}

/// How `lanes` comes off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    Wins,
    /// Within the tie of the winner's tail, with enough throughput.
    Ties,
    /// Too little throughput, for a lower tail than the winner's.
    Trades,
    /// Too little throughput, for no lower tail.
    Wastes,
    /// Enough throughput, but somebody else's tail is lower.
    HigherTail,
}

impl Contest {
    /// The best total throughput, in MB/s.
    pub fn best_rate(&self) -> f64 {
        let rates = self.scores.iter().map(|score| score.mb_per_second);
        rates.fold(0.0, f64::max)
    }

    /// Of the best throughput.
    pub fn share(&self, index: usize) -> f64 {
        self.scores[index].mb_per_second / self.best_rate()
    }

    /// The winner: an index.
    pub fn winner(&self) -> usize {
        let those = (0..self.scores.len()).filter(|&at| self.share(at) >= THROUGHPUT_SHARE_MIN);
        let by_tail = |a: &usize, b: &usize| {
            let tail = |at: usize| self.scores[at].p99_ms;
            tail(*a).total_cmp(&tail(*b))
        };
        // The one with the best throughput is always among them.
        those.min_by(by_tail).unwrap_or(0)
    }

    /// Those than whom nobody is better in both.
    pub fn pareto(&self) -> Vec<usize> {
        let dominated = |at: usize| {
            let one = self.scores[at];
            self.scores.iter().any(|other| {
                other.p99_ms <= one.p99_ms
                    && other.mb_per_second >= one.mb_per_second
                    && (other.p99_ms < one.p99_ms || other.mb_per_second > one.mb_per_second)
            })
        };
        (0..self.scores.len())
            .filter(|&at| !dominated(at))
            .collect()
    }

    /// How the scheduler of this index comes off.
    pub fn standing(&self, index: usize) -> Standing {
        let winner = self.winner();
        if winner == index {
            return Standing::Wins;
        }
        let (own, best) = (self.scores[index].p99_ms, self.scores[winner].p99_ms);
        if self.share(index) < THROUGHPUT_SHARE_MIN {
            return if own < best * (1.0 - TIE) {
                Standing::Trades
            } else {
                Standing::Wastes
            };
        }
        if own <= best * (1.0 + TIE) {
            Standing::Ties
        } else {
            Standing::HigherTail
        }
    }
}

/// Where a scheduler stands in the list.
pub fn index_of(name: &str) -> usize {
    let found = SCHEDULERS.iter().position(|&(_, one)| one == name);
    found.expect("it competes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(scores: &[(f64, f64)]) -> Contest {
        let score = |&(p99_ms, mb_per_second): &(f64, f64)| Score {
            p99_ms,
            mean_ms: p99_ms,
            foreground_per_second: 1.0,
            mb_per_second,
        };
        Contest {
            disk: "disk",
            work: "work",
            scores: scores.iter().map(score).collect(),
        }
    }

    #[test]
    fn a_low_tail_does_not_win_with_an_idle_disk() {
        let contest = contest(&[(1.0, 50.0), (8.0, 95.0), (9.0, 100.0)]);
        assert_eq!(contest.winner(), 1);
        assert_eq!(contest.pareto(), [0, 1, 2]);
        assert_eq!(contest.standing(0), Standing::Trades);
        assert_eq!(contest.standing(1), Standing::Wins);
        assert_eq!(contest.standing(2), Standing::HigherTail);
    }

    #[test]
    fn small_differences_are_none() {
        let contest = contest(&[(1.04, 100.0), (1.0, 100.0), (2.0, 60.0)]);
        assert_eq!(contest.standing(0), Standing::Ties);
        assert_eq!(contest.standing(2), Standing::Wastes);
        assert_eq!(contest.pareto(), [1]);
    }
}
