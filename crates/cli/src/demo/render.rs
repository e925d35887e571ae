//! The demo for who runs a database: no term that needs a glossary.

use super::DemoOutcome;
use crate::bench::load::Load;
use crate::output::chart::{Axis, BarChart, latency_cdf};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

/// Less than this is not worth a word.
const GAIN_MIN: f64 = 1.2;

pub fn text(outcome: &DemoOutcome, style: Style) -> String {
    let mut text = format!(
        "\n{}\n\n{}\n{}\n\n{}\n",
        style.bold(&format!("YOUR DISK: {}", outcome.disk)),
        disk_table(outcome).render(style),
        style.bold("A QUERY'S READ, WHILE A BACKUP RUNS"),
        query_table(outcome).render(style),
    );
    for sentence in explanation() {
        text.push_str(&format!("{sentence}\n"));
    }
    if let Some(report) = &outcome.report {
        text.push_str(&format!("Report with plots: {}\n", report.display()));
    }
    // Last, where the eye is when it is done.
    for sentence in sentences(outcome) {
        text.push_str(&format!("\n{}", style.bold(&sentence)));
    }
    text.push('\n');
    text
}

pub fn html(outcome: &DemoOutcome) -> Vec<Section> {
    let cases = cases(outcome);
    let bars = BarChart {
        value: Axis::linear("99 of 100 reads take at most", units::time),
        bars: cases
            .iter()
            .map(|case| (case.name.to_owned(), case.query.quantile_ns(0.99) as f64))
            .collect(),
    };
    let histograms: Vec<_> = cases
        .iter()
        .map(|case| (case.name.to_owned(), &case.query.latency_ns))
        .collect();
    let mut sections = vec![
        Section::new("In short")
            .text(sentences(outcome))
            .table(query_table(outcome))
            .text(explanation()),
        Section::new("A query's read")
            .text(["The time that only one read in a hundred exceeds."])
            .chart(bars.svg()),
        Section::new("How many reads are slow")
            .text(["Share of a query's reads that took longer than a given time."])
            .chart(latency_cdf("time of a read", &histograms)),
        outcome
            .mix
            .latency_against_throughput()
            .titled("A query's waiting against the disk's work")
            .text(["noop: without priorities. lanes: with iolane. The foreground is the query."]),
        Section::new(format!("Your disk: {}", outcome.disk)).table(disk_table(outcome)),
    ];
    sections.extend(outcome.sweep.charts());
    sections.push(outcome.mix.result().titled("All figures beside the backup"));
    sections.push(outcome.sweep.result().titled("All figures of the disk"));
    sections
}

/// One situation in which a query reads.
struct Case<'a> {
    name: &'static str,
    query: &'a Load,
    backup: Option<&'a Load>,
}

impl Case<'_> {
    fn total_bytes_per_second(&self) -> f64 {
        let backup = self.backup.map_or(0.0, Load::bytes_per_second);
        self.query.bytes_per_second() + backup
    }
}

fn cases(outcome: &DemoOutcome) -> Vec<Case<'_>> {
    let beside = |name, policy| {
        outcome.beside(policy).map(|run| Case {
            name,
            query: &run.foreground,
            backup: Some(&run.background),
        })
    };
    let alone = outcome.alone().map(|run| Case {
        name: "alone on the disk",
        query: &run.load,
        backup: None,
    });
    [
        alone,
        beside("beside a backup, without priorities", "noop"),
        beside("beside a backup, with iolane", "lanes"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn query_table(outcome: &DemoOutcome) -> Table {
    let mut table = Table::new(
        1,
        [
            "a query's read",
            "typical",
            "99 of 100 within",
            "query reads",
            "backup reads",
            "disk in total",
        ],
    );
    for case in cases(outcome) {
        table.row([
            case.name.to_owned(),
            units::time(case.query.quantile_ns(0.5) as f64),
            units::time(case.query.quantile_ns(0.99) as f64),
            format!("{}/s", units::count(case.query.operations_per_second())),
            case.backup.map_or_else(
                || "-".to_owned(),
                |backup| format!("{}/s", units::count(backup.operations_per_second())),
            ),
            units::bytes_per_second(case.total_bytes_per_second()),
        ]);
    }
    table
}

fn disk_table(outcome: &DemoOutcome) -> Table {
    let mut table = Table::new(
        1,
        [
            "random reads of 16 KiB",
            "outstanding at once",
            "reads",
            "throughput",
            "mean time",
        ],
    );
    let mut row = |name: &str, depth: u64| {
        if let Some(run) = outcome.sweep.runs.iter().find(|run| run.depth == depth) {
            table.row([
                name.to_owned(),
                depth.to_string(),
                format!("{}/s", units::count(run.load.operations_per_second())),
                units::bytes_per_second(run.load.bytes_per_second()),
                units::time(run.load.latency_ns.mean()),
            ]);
        }
    };
    row("one after the other", 1);
    if let Some(found) = &outcome.sweep.knee {
        row("best trade of throughput for time", found.knee.depth);
        row("full: more only wait longer", found.full.depth);
    }
    table
}

fn explanation() -> [&'static str; 2] {
    [
        "The query reads one page of 16 KiB after the other, from random places, past the page cache.",
        "The backup always has 128 such reads outstanding. It stands for a dump, a checkpoint, a large scan.",
    ]
}

fn sentences(outcome: &DemoOutcome) -> Vec<String> {
    let mut sentences = conclusion(outcome);
    if outcome.disturbed {
        sentences.push(
            "Something else disturbed the measurement (see the warnings): run it again on a quiet machine."
                .to_owned(),
        );
    }
    sentences
}

/// What it comes to, in one or two sentences.
fn conclusion(outcome: &DemoOutcome) -> Vec<String> {
    let (Some(without), Some(with)) = (outcome.beside("noop"), outcome.beside("lanes")) else {
        return Vec::new();
    };
    let typical = [without, with].map(|run| run.foreground.quantile_ns(0.5) as f64);
    let slow = [without, with].map(|run| run.foreground.quantile_ns(0.99) as f64);
    let total = with.total_bytes_per_second / without.total_bytes_per_second;
    if with.foreground.operations == 0 || without.foreground.operations == 0 {
        return vec!["Too few reads were done to compare: give a longer --runtime.".to_owned()];
    }
    let work = format!(
        "The disk moves {:.0} % of the data it moves without priorities.",
        total * 100.0
    );
    let gain = [typical, slow].map(|[before, after]| before / after.max(1.0));
    if gain[1] < GAIN_MIN {
        return vec![
            format!(
                "Priorities gain little here: 99 of 100 reads of a query take at most {} with iolane, {} without.",
                units::time(slow[1]),
                units::time(slow[0]),
            ),
            work,
        ];
    }
    vec![
        format!(
            "With iolane, 99 of 100 reads of a query beside a backup take at most {}, instead of {}: {} times shorter (typical: {} instead of {}).",
            units::time(slow[1]),
            units::time(slow[0]),
            units::figure(gain[1]),
            units::time(typical[1]),
            units::time(typical[0]),
        ),
        work,
    ]
}
