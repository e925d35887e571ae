//! Hall and Bonnet (2005), section 3.2 and figure 9: what a storage manager
//! keeps outstanding.

use super::{RealRig, method, runs_table, share_percent};
use crate::bench::store::StoreRun;
use crate::error::Failure;
use crate::figures::report::{Cell, Comparison, Data, Figure, Stated};
use crate::output::chart::{Axis, LineChart, Series};

const IDLE: &str = "0 outstanding";
const OF_TIME: &str = "% of time";
const OTHER_DISK: &str = "a virtual disk of today answers a hundred times faster, so that processors have a larger share of the time";

/// Figure 4: a scan in the order of the table.
pub fn scan(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let words = "scan --order key --policy conservative,aggressive --backend threads,auto";
    let (line, outcome) = rig.bench(words, 12)?;
    let idle = |index: usize| outcome.runs[index].outstanding.data.idle_share * 100.0;
    Ok(Figure {
        source: "Section 3.2 and figure 4.",
        method: method(&line),
        comparisons: vec![
            Comparison::new(format!("simulated AIO (threads), conservative: {IDLE}"), OF_TIME, Stated::about(42.0), idle(0))
                .because(OTHER_DISK),
            Comparison::new(format!("native AIO, conservative: {IDLE}"), OF_TIME, Stated::about(22.0), idle(1))
                .because(OTHER_DISK),
            Comparison::new(format!("Oracle; ours is aggressive: {IDLE}"), OF_TIME, Stated::below(4.0), idle(3))
                .because("the scan waits for a processor, not for the disk"),
        ],
        tables: vec![
            runs_table("A scan by primary key", &outcome.runs),
            distribution(&outcome.runs),
        ],
        notes: vec![
            "The paper sampled requests in the kernel's scheduler; these are those that the store has submitted and \
             not got back."
                .to_owned(),
        ],
        plots: vec![("Requests outstanding".to_owned(), cumulative(&outcome.runs))],
        ..Figure::default()
    })
}

/// A range of so few rows is over in some hundredths of a second.
const RANGE_REPEAT: u32 = 5;

/// Figure 5: rows by secondary index from 1, 4 and 16 threads.
pub fn ranges(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let mut figure = Figure {
        source: "Section 3.2 and figure 5.",
        notes: vec![
            "The paper's finding: one request outstanding for each thread, whatever the disk could do.".to_owned(),
        ],
        ..Figure::default()
    };
    for threads in [1, 4, 16] {
        let words = format!(
            "range --range-rows 1000 --threads {threads} --policy conservative,aggressive --repeat {RANGE_REPEAT}"
        );
        let (line, outcome) = rig.bench(&words, 12)?;
        figure.method = method(&line);
        let conservative = &outcome.runs[0].outstanding.data;
        figure.comparisons.push(
            Comparison::new(
                format!("{threads} threads, conservative: requests outstanding, median"),
                "",
                Stated::below(f64::from(threads)),
                conservative.p50_requests as f64,
            )
            .because("read-ahead guessed"),
        );
        let title = format!("1000 rows by secondary index, {threads} threads");
        figure.tables.push(runs_table(&title, &outcome.runs));
    }
    Ok(figure)
}

/// Figure 6: the update under the conservative policy.
pub fn update(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let (line, outcome) = rig.bench("update --policy conservative", POOL_PERCENT)?;
    let run = &outcome.runs[0];
    Ok(Figure {
        source: "Section 3.2 and figure 6.",
        method: method(&line),
        comparisons: vec![
            Comparison::new(
                "log: 0 outstanding",
                OF_TIME,
                Stated::about(98.0),
                run.outstanding.log.idle_share * 100.0,
            )
            .because(OTHER_DISK),
        ],
        ..changes(&outcome.runs)
    })
}

/// What figures 6 and 9 both show.
fn changes(runs: &[StoreRun]) -> Figure {
    Figure {
        tables: vec![runs_table("Change of all rows", runs), distribution(runs)],
        plots: vec![("Requests outstanding on data".to_owned(), cumulative(runs))],
        ..Figure::default()
    }
}

/// 600 MB of cache for 800 MB of table.
const POOL_PERCENT: u64 = 75;

/// Figure 9: conservative, the paper's steps, a steady stream.
pub fn preflush(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let words = "update --policy conservative,paper,aggressive";
    let (line, outcome) = rig.bench(words, POOL_PERCENT)?;
    let rate = |index: usize| outcome.runs[index].load.operations_per_second();
    let gain = |index: usize| (rate(index) / rate(0).max(1.0) - 1.0) * 100.0;
    let differs =
        "one run of some seconds: the second's pause of the paper's policy is a large part of it";
    Ok(Figure {
        source: "Section 4.3 and figure 9.",
        method: method(&line),
        comparisons: vec![
            Comparison::new(
                "the paper's steps against conservative",
                "% faster",
                Stated::about(5.0),
                gain(1),
            )
            .because(differs),
            Comparison::new(
                "a steady stream against conservative (the paper's future work)",
                "% faster",
                Stated::above(5.0),
                gain(2),
            )
            .because(differs),
        ],
        ..changes(&outcome.runs)
    })
}

/// Shares of the time by requests outstanding, as the figures' bars.
fn distribution(runs: &[StoreRun]) -> Data {
    let columns = [
        ("store", ""),
        ("0", OF_TIME),
        ("1", OF_TIME),
        ("2 and 3", OF_TIME),
        ("4 to 15", OF_TIME),
        ("16 and more", OF_TIME),
    ];
    let mut data = Data::new("Requests outstanding on data", &columns);
    for run in runs {
        let share = |from, to| Cell::Number(share_percent(run, from, to));
        data.row([
            run.setting.label().into(),
            share(0, 1),
            share(1, 2),
            share(2, 4),
            share(4, 16),
            share(16, u64::MAX),
        ]);
    }
    data
}

fn cumulative(runs: &[StoreRun]) -> maud::Markup {
    let series = runs.iter().map(|run| {
        let points = (0..=32).map(|count| (count as f64, share_percent(run, 0, count + 1)));
        Series::new(run.setting.label(), points.collect())
    });
    LineChart {
        x: Axis::linear("requests outstanding", |count| count.to_string()),
        y: Axis::linear("at most so many, % of time", |share| share.to_string()),
        series: series.collect(),
        mark_x: None,
    }
    .svg()
}
