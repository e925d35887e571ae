//! Why `lanes` does not win: the same contest with windows fixed by hand, and
//! with a foreground that comes no faster than the winner's.

use super::judge::{Contest, Standing, THROUGHPUT_SHARE_MIN};
use super::workload::{self, DISKS, Pace, SCHEDULERS, Scheduler, Score, WORKS, Work};
use crate::error::Failure;
use crate::figures::report::{Cell, Data};
use crate::figures::rig::Rig;

/// How the table is read.
pub const WHY: &str = "Where lanes does not win, two more simulations of the same contest say why. The smallest window, fixed by hand, that reaches 90 % of the best throughput: if its tail is below the winner's, the learned window stops too early for this measure, as more of it costs the foreground more than that is worth; if there is none, or its tail is no lower, no window wins. And lanes with a foreground that comes as often as the winner let it: what throughput it then has, of the winner's, is what the foreground's own additional operations do not cost.";

const WINDOWS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// A further simulation of a contest.
#[derive(Clone, Copy)]
struct Job {
    contest: usize,
    scheduler: Scheduler,
    pace: Pace,
}

/// A row for each contest that the scheduler `lanes`, an index, neither wins
/// nor ties.
///
/// # Errors
/// An interruption.
pub fn simulate(rig: &Rig<'_>, contests: &[Contest], lanes: usize) -> Result<Data, Failure> {
    let lost: Vec<usize> = (0..contests.len())
        .filter(|&at| {
            let standing = contests[at].standing(lanes);
            !matches!(standing, Standing::Wins | Standing::Ties)
        })
        .collect();
    let jobs: Vec<Job> = lost
        .iter()
        .flat_map(|&at| jobs(contests, at, lanes))
        .collect();
    let scores = rig.all(&jobs, |job| {
        let (disk, work) = (job.contest / WORKS.len(), job.contest % WORKS.len());
        let (disk, work) = (&DISKS[disk], WORKS[work].0);
        workload::simulate(rig, disk, work, job.scheduler, job.pace)
    })?;
    let mut data = Data::new(
        "Where lanes does not win, and why",
        &[
            ("disk", ""),
            ("work", ""),
            ("p99 lanes", "ms"),
            ("winner", "ms"),
            ("MB/s lanes", "%"),
            ("90 % from window", ""),
            ("its p99", "ms"),
            ("its MB/s", "%"),
            ("fg/s of winner", ""),
            ("lanes then: MB/s, of winner's", "%"),
            ("p99", "ms"),
        ],
    );
    for (&at, scores) in lost.iter().zip(scores.chunks(WINDOWS.len() + 1)) {
        data.row(row(&contests[at], at, lanes, scores));
    }
    Ok(data)
}

fn jobs(contests: &[Contest], at: usize, lanes: usize) -> Vec<Job> {
    let winner = contests[at].scores[contests[at].winner()];
    let mut jobs: Vec<Job> = WINDOWS
        .iter()
        .map(|&window| Job {
            contest: at,
            scheduler: Scheduler::Window(window),
            pace: Pace::AsFastAsServed,
        })
        .collect();
    jobs.push(Job {
        contest: at,
        scheduler: SCHEDULERS[lanes].0,
        pace: Pace::PerSecond(winner.foreground_per_second),
    });
    jobs
}

/// `scores` of [`jobs`].
fn row(contest: &Contest, at: usize, lanes: usize, scores: &[Score]) -> [Cell; 11] {
    let (own, winner) = (contest.scores[lanes], contest.scores[contest.winner()]);
    let best = contest.best_rate();
    let enough = scores[..WINDOWS.len()]
        .iter()
        .zip(WINDOWS)
        .find(|(score, _)| score.mb_per_second >= best * THROUGHPUT_SHARE_MIN);
    let paced = scores[WINDOWS.len()];
    // A paced transaction's time is mostly its own.
    let is_query = WORKS[at % WORKS.len()].0 != Work::Commits;
    [
        contest.disk.into(),
        contest.work.into(),
        own.p99_ms.into(),
        winner.p99_ms.into(),
        (contest.share(lanes) * 100.0).into(),
        enough.map(|(_, window)| f64::from(window)).into(),
        enough.map(|(score, _)| score.p99_ms).into(),
        enough
            .map(|(score, _)| score.mb_per_second / best * 100.0)
            .into(),
        winner.foreground_per_second.into(),
        (paced.mb_per_second / winner.mb_per_second * 100.0).into(),
        is_query.then_some(paced.p99_ms).into(),
    ]
}
