//! Hall and Bonnet (2005), section 3.2 and figure 9: what a storage manager
//! keeps outstanding.

use super::{RealRig, runs_table, share_percent};
use crate::bench::store::StoreRun;
use crate::error::Failure;
use crate::figures::report::{Cell, Comparison, Data, Figure, Stated};
use crate::output::chart::{Axis, LineChart, Series};
use crate::output::units;

const IDLE: &str = "0 outstanding";
const OF_TIME: &str = "% of time";

/// Of the scan with which figure 4 begins.
const PAPER_TABLE_MB: f64 = 800.0;

/// What figure 4 has of a store.
struct PaperScan {
    idle_percent: f64,
    seconds: f64,
}

const SIMULATED_AIO: PaperScan = PaperScan {
    idle_percent: 42.0,
    seconds: 33.0,
};
const NATIVE_AIO: PaperScan = PaperScan {
    idle_percent: 22.0,
    seconds: 29.0,
};

impl PaperScan {
    fn compared(&self, what: &str, run: &StoreRun) -> Comparison {
        let idle_percent = run.outstanding.data.idle_share * 100.0;
        let stated = Stated::about(self.idle_percent);
        Comparison::new(format!("{what}: {IDLE}"), OF_TIME, stated, idle_percent)
            .because(&self.against(run))
    }

    /// Both times behind a share: it says nothing alone of which differs.
    fn against(&self, run: &StoreRun) -> String {
        let read_mb = run.read_bytes_per_second() / 1e6;
        let idle_share = run.outstanding.data.idle_share;
        let [ours, paper] = [
            (1e9 / read_mb.max(1e-9), idle_share),
            (
                self.seconds * 1e9 / PAPER_TABLE_MB,
                self.idle_percent / 100.0,
            ),
        ]
        .map(|(ns, idle)| [ns * idle, ns * (1.0 - idle)].map(units::time));
        format!(
            "for each MB, nothing is outstanding for {} here and {} in the paper, while processors work, and something for \
             {} and {}, while the disk does",
            ours[0], paper[0], ours[1], paper[1]
        )
    }
}

/// Figure 4: a scan in the order of the table.
pub fn scan(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let words =
        "scan --order key --policy conservative,aggressive --backend threads,auto --runtime 10s";
    let (line, outcome) = rig.bench(words, 12)?;
    let runs = &outcome.runs;
    Ok(Figure {
        source: "Section 3.2 and figure 4.",
        method: rig.method([line]),
        comparisons: vec![
            SIMULATED_AIO.compared("simulated AIO (threads), conservative", &runs[0]),
            NATIVE_AIO.compared("native AIO, conservative", &runs[1]),
            Comparison::new(format!("Oracle; ours is aggressive: {IDLE}"), OF_TIME, Stated::below(4.0), runs[3].outstanding.data.idle_share * 100.0)
                .because("the scan waits for a processor, not for the disk"),
        ],
        tables: vec![
            runs_table("A scan by primary key", runs),
            distribution(runs),
        ],
        notes: vec![
            "The paper sampled requests in the kernel's scheduler; these are those that the store has submitted and \
             not got back."
                .to_owned(),
        ],
        plots: vec![("Requests outstanding".to_owned(), cumulative(runs))],
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
    let mut lines = Vec::new();
    for threads in [1, 4, 16] {
        let words = format!(
            "range --range-rows 1000 --threads {threads} --policy conservative,aggressive --repeat {RANGE_REPEAT} --runtime 10s"
        );
        let (line, outcome) = rig.bench(&words, 12)?;
        lines.push(line);
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
    figure.method = rig.method(lines);
    Ok(figure)
}

/// As the paper's log is on a disk of its own.
const ONE_DISK: &str = "log and data share one disk here, so that a write of the log waits for those of the data, and are \
                        on one each in the paper";

/// Figure 6: the update under the conservative policy.
pub fn update(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let (line, outcome) = rig.bench(&update_words("conservative"), POOL_PERCENT)?;
    let run = &outcome.runs[0];
    Ok(Figure {
        source: "Section 3.2 and figure 6.",
        method: rig.method([line]),
        comparisons: vec![
            Comparison::new(
                "log: 0 outstanding",
                OF_TIME,
                Stated::about(98.0),
                run.outstanding.log.idle_share * 100.0,
            )
            .because(ONE_DISK),
        ],
        ..changes(&outcome.runs)
    })
}

/// To the end: it is at the end that the pool is full. The paper's is a mix
/// with sequential reads, so of rows in the order of the table.
fn update_words(policies: &str) -> String {
    format!("update --order key --policy {policies} --runtime 60s")
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
    let words = update_words("conservative,paper,aggressive");
    let (line, outcome) = rig.bench(&words, POOL_PERCENT)?;
    let rate = |index: usize| outcome.runs[index].load.operations_per_second();
    let gain = |index: usize| (rate(index) / rate(0).max(1.0) - 1.0) * 100.0;
    let differs = "one run of some seconds, of which the second's pause of the paper's policy is a part; and our policies \
                   differ in read-ahead and priorities too";
    Ok(Figure {
        source: "Section 4.3 and figure 9.",
        method: rig.method([line]),
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

/// At which the shares are drawn: all of the few, some of the many.
const COUNTS: [u64; 17] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256,
];

fn cumulative(runs: &[StoreRun]) -> maud::Markup {
    let distributions = runs.iter().map(|run| &run.outstanding.data.distribution);
    let counts = distributions.flatten().map(|(count, _)| *count);
    let most = counts.max().unwrap_or(0);
    let drawn = COUNTS.partition_point(|count| *count < most) + 1;
    let series = runs.iter().map(|run| {
        let at = |count: &u64| (*count as f64, share_percent(run, 0, count + 1));
        let points = COUNTS.iter().take(drawn).map(at);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples;

    #[test]
    fn a_scan_is_held_against_both_times_of_the_papers() {
        let run = &samples::store_runs()[0];
        let one = NATIVE_AIO.compared("native", run);
        // 29 s for 800 MB, of which 22 % and 78 %.
        let why = one.explanation.unwrap();
        assert!(why.contains("and 7.97 ms in the paper"), "{why}");
        assert!(why.ends_with("and 28.3 ms, while the disk does"), "{why}");
    }
}
