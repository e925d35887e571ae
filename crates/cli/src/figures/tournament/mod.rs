//! `lanes` against the paper's scheduler and the historical ones, on all
//! modelled disks: who wins where.

mod judge;
mod why;
mod workload;

use super::report::{Cell, Data, Figure};
use super::rig::Rig;
use crate::error::Failure;
use crate::output::chart::{Axis, Point, ScatterChart};
use crate::output::units;
use judge::{Contest, Standing, index_of};
use workload::{DISKS, Pace, SCHEDULERS, WORKS};

/// The tournament.
///
/// # Errors
/// An interruption.
pub fn simulate(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let jobs: Vec<(usize, usize, usize)> = (0..DISKS.len())
        .flat_map(|disk| (0..WORKS.len()).map(move |work| (disk, work)))
        .flat_map(|(disk, work)| (0..SCHEDULERS.len()).map(move |one| (disk, work, one)))
        .collect();
    let scores = rig.all(&jobs, |&(disk, work, one)| {
        let scheduler = SCHEDULERS[one].0;
        workload::simulate(
            rig,
            &DISKS[disk],
            WORKS[work].0,
            scheduler,
            Pace::AsFastAsServed,
        )
    })?;
    let contests: Vec<Contest> = scores
        .chunks(SCHEDULERS.len())
        .zip(jobs.chunks(SCHEDULERS.len()))
        .map(|(scores, jobs)| Contest {
            disk: DISKS[jobs[0].0].name,
            work: WORKS[jobs[0].1].1,
            scores: scores.to_vec(),
        })
        .collect();
    let lanes = index_of("lanes");
    let count = |standing| {
        let those = contests.iter();
        those.filter(|one| one.standing(lanes) == standing).count()
    };
    let mut notes = vec![format!(
        "Of {} contests lanes wins {} and ties {}.",
        contests.len(),
        count(Standing::Wins),
        count(Standing::Ties)
    )];
    notes.push(why::WHY.to_owned());
    notes.extend(
        contests
            .iter()
            .filter_map(|contest| explain(contest, lanes)),
    );
    let why = why::simulate(rig, &contests, lanes)?;
    let mut tables = vec![summary(&contests, lanes), why, fronts(&contests)];
    tables.extend(WORKS.iter().map(|&(_, work)| details(&contests, work)));
    Ok(Figure {
        source: "No document's: the project's own comparison.",
        method: vec![
            "Foreground: one thread that reads 16 KiB at random, one read after the other; or four threads that commit together, each commit with a flush. Background of the lowest level: 128 random reads or 32 random writes of 16 KiB outstanding, a scan of 256 KiB reads with 16 outstanding, or 64 pages read and written in equal parts. Linux's schedulers see what Linux would: threads, directions, who waits; CFQ also the levels as I/O priorities.".to_owned(),
            "The winner has the lowest 99th percentile of the foreground among those who reach 90 % of the best total throughput. The Pareto set are those that no other beats in both. Every scheduler has its defaults; lanes learns its window during the warm-up.".to_owned(),
        ],
        tables,
        notes,
        plots: plots(&contests),
        ..Figure::default()
    })
}

fn names(indices: &[usize]) -> String {
    let names: Vec<&str> = indices.iter().map(|&at| SCHEDULERS[at].1).collect();
    names.join(", ")
}

/// Who wins where.
fn summary(contests: &[Contest], lanes: usize) -> Data {
    let noop = index_of("noop");
    let mut data = Data::new(
        "The winner of each contest: the foreground's 99th percentile and operations per second, and shares of the best total throughput",
        &[
            ("disk", ""),
            ("work", ""),
            ("winner", ""),
            ("lanes", ""),
            ("on Pareto front", ""),
            ("p99 lanes", "ms"),
            ("noop", "ms"),
            ("winner", "ms"),
            ("fg/s lanes", ""),
            ("noop", ""),
            ("MB/s lanes", "%"),
            ("noop", "%"),
            ("winner", "%"),
        ],
    );
    for contest in contests {
        let winner = contest.winner();
        let p99 = |index: usize| Cell::from(contest.scores[index].p99_ms);
        let rate = |index: usize| Cell::from(contest.scores[index].foreground_per_second);
        let share = |index: usize| Cell::from(contest.share(index) * 100.0);
        let on_front = contest.pareto().contains(&lanes);
        data.row([
            Cell::from(contest.disk),
            contest.work.into(),
            SCHEDULERS[winner].1.into(),
            word(contest.standing(lanes)).into(),
            if on_front { "yes" } else { "no" }.into(),
            p99(lanes),
            p99(noop),
            p99(winner),
            rate(lanes),
            rate(noop),
            share(lanes),
            share(noop),
            share(winner),
        ]);
    }
    data
}

/// Those than whom nobody is better in both tail and throughput.
fn fronts(contests: &[Contest]) -> Data {
    let mut data = Data::new(
        "Pareto sets",
        &[
            ("disk", ""),
            ("work", ""),
            ("no other is better in both", ""),
        ],
    );
    for contest in contests {
        data.row([
            Cell::from(contest.disk),
            contest.work.into(),
            names(&contest.pareto()).into(),
        ]);
    }
    data
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Wins => "wins",
        Standing::Ties => "ties",
        Standing::Trades => "trades throughput for p99",
        Standing::Wastes => "gives up throughput",
        Standing::HigherTail => "higher p99",
    }
}

/// What stands between `lanes` and the first place; nothing where it has it.
fn explain(contest: &Contest, lanes: usize) -> Option<String> {
    let winner = contest.winner();
    let (own, best) = (contest.scores[lanes], contest.scores[winner]);
    let name = SCHEDULERS[winner].1;
    let place = format!("{}, {}", contest.disk, contest.work);
    let share = contest.share(lanes) * 100.0;
    let (own_ms, best_ms) = (units::figure(own.p99_ms), units::figure(best.p99_ms));
    let (own_rate, best_rate) = (
        units::figure(own.foreground_per_second),
        units::figure(best.foreground_per_second),
    );
    match contest.standing(lanes) {
        Standing::Wins | Standing::Ties => None,
        Standing::Trades => Some(format!(
            "{place}: a trade. lanes has {share:.0} % of the best throughput, and {own_ms} ms where {name} has {best_ms} ms; the foreground does {own_rate} a second instead of {best_rate}."
        )),
        Standing::Wastes => Some(format!(
            "{place}: lanes has {share:.0} % of the best throughput and gains little by it, {own_ms} ms where {name} has {best_ms} ms; the foreground does {own_rate} a second instead of {best_rate}."
        )),
        Standing::HigherTail => Some(format!(
            "{place}: {name} has {best_ms} ms, lanes {own_ms} ms with {share:.0} % of the best throughput; the foreground does {own_rate} a second instead of {best_rate}."
        )),
    }
}

/// All scores with one work.
fn details(contests: &[Contest], work: &str) -> Data {
    let mut columns = vec![("disk", ""), ("", "")];
    columns.extend(SCHEDULERS.map(|(_, name)| (name, "")));
    let mut data = Data::new(format!("{work}: all scores"), &columns);
    for contest in contests.iter().filter(|one| one.work == work) {
        let mut line = |what: &str, value: fn(&workload::Score) -> f64| {
            let values = contest.scores.iter().map(|score| Cell::from(value(score)));
            data.row(
                [Cell::from(contest.disk), what.into()]
                    .into_iter()
                    .chain(values),
            );
        };
        line("p99, ms", |score| score.p99_ms);
        line("mean, ms", |score| score.mean_ms);
        line("foreground/s", |score| score.foreground_per_second);
        line("total MB/s", |score| score.mb_per_second);
    }
    data
}

/// Tail against throughput, a plot for each disk and work would be too many:
/// the disks of each kind that differ most.
fn plots(contests: &[Contest]) -> Vec<(String, maud::Markup)> {
    const SHOWN: [&str; 4] = ["ultrastar-36lzx", "database-box-8", "nvme-ssd", "aws-gp3"];
    let work = WORKS[0].1;
    let shown = contests
        .iter()
        .filter(|contest| contest.work == work && SHOWN.contains(&contest.disk));
    shown
        .map(|contest| {
            let point = |index: usize| {
                let score = contest.scores[index];
                Point::new(SCHEDULERS[index].1, (score.mb_per_second, score.p99_ms))
            };
            let chart = ScatterChart {
                x: Axis::linear("total throughput, MB/s", |value| format!("{value}")),
                y: Axis::log10("99th percentile, ms", |value| format!("{value}")),
                groups: vec![
                    ("scheduler core".to_owned(), (0..4).map(point).collect()),
                    (
                        "Linux 2.6".to_owned(),
                        (4..SCHEDULERS.len()).map(point).collect(),
                    ),
                ],
                curve: None,
            };
            (format!("{}: {work}", contest.disk), chart.svg())
        })
        .collect()
}
