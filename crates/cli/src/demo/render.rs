//! The demo for who runs a database: no term that needs a glossary.

use super::{Case, DemoOutcome};
use crate::bench::store::{StoreRun, latency_over_time, outstanding_over_time};
use crate::output::chart::{Axis, BarChart, latency_cdf};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

/// Less than this is not worth a word.
const GAIN_MIN: f64 = 1.2;

pub fn text(outcome: &DemoOutcome, style: Style) -> String {
    let mut text = format!(
        "\n{}\n{}\n\n{}\n{}\n",
        style.bold(&format!("YOUR DISK: {}", outcome.disk)),
        of_the_table(outcome),
        style.bold("SHORT TRANSACTIONS, WHILE A SCAN AND CHECKPOINTS RUN"),
        table(outcome).render(style),
    );
    for sentence in explanation(outcome) {
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
        value: Axis::linear("99 of 100 transactions take at most", units::time),
        bars: cases
            .iter()
            .map(|(name, run)| (name.clone(), run.load.quantile_ns(0.99) as f64))
            .collect(),
    };
    let histograms: Vec<_> = cases
        .iter()
        .map(|(name, run)| (name.clone(), &run.load.latency_ns))
        .collect();
    vec![
        Section::new("In short")
            .text(sentences(outcome))
            .table(table(outcome))
            .text(explanation(outcome)),
        Section::new("Transactions over time")
            .text(["The time that one transaction in a hundred exceeds, in each part of the run."])
            .chart(latency_over_time(&cases)),
        Section::new("Transactions as a whole")
            .text(["The time that only one transaction in a hundred exceeds."])
            .chart(bars.svg())
            .text(["Share of transactions that took longer than a given time."])
            .chart(latency_cdf("time of a transaction", &histograms)),
        Section::new("How busy the disk is kept")
            .text([
                "Reads and writes of the table that have been asked for and not done, on average.",
            ])
            .chart(outstanding_over_time(&cases)),
        Section::new(format!("Your disk: {}", outcome.disk)).text([of_the_table(outcome)]),
    ]
}

fn cases(outcome: &DemoOutcome) -> Vec<(String, &StoreRun)> {
    let named = [
        ("alone", Case::Alone),
        ("beside, without priorities", Case::Without),
        ("beside, with iolane", Case::With),
    ];
    named
        .into_iter()
        .filter_map(|(name, case)| Some((name.to_owned(), outcome.case(case)?)))
        .collect()
}

fn table(outcome: &DemoOutcome) -> Table {
    let mut table = Table::new(
        1,
        [
            "transactions",
            "per second",
            "typical",
            "99 of 100 within",
            "999 of 1000",
            "longest",
            "rows of scan + checkpoints",
            "checkpoints",
            "disk idle",
        ],
    );
    for (name, run) in cases(outcome) {
        let time = |quantile| units::time(run.load.quantile_ns(quantile) as f64);
        table.row([
            name,
            units::count(run.load.operations_per_second()),
            time(0.5),
            time(0.99),
            time(0.999),
            units::time(run.load.latency_ns.max() as f64),
            match run.background.is_empty() {
                true => "-".to_owned(),
                false => format!("{}/s", units::count(run.background_rows_per_second())),
            },
            match run.background.is_empty() {
                true => "-".to_owned(),
                false => run.counts.checkpoints_asked.to_string(),
            },
            format!(
                "{} %",
                units::figure(run.outstanding.data.idle_share * 100.0)
            ),
        ]);
    }
    table
}

fn of_the_table(outcome: &DemoOutcome) -> String {
    format!(
        "A table of {} in {} rows, loaded in {}; the store keeps an eighth of it in memory.",
        units::binary_size(outcome.table.size_bytes),
        units::count(outcome.table.rows as f64),
        units::time(outcome.table.load_ns as f64),
    )
}

fn explanation(outcome: &DemoOutcome) -> [String; 2] {
    [
        format!(
            "{} transactions begin each second, {:.0} % of what the store does when left alone: every other one reads \
             a row, the rest change one and wait until that is on the disk.",
            units::count(outcome.rate_per_second),
            100.0 * outcome.rate_per_second / outcome.best_per_second.max(1.0),
        ),
        "Their time counts from the moment at which they should have begun. Beside them the whole table is read again \
         and again, rows are changed, and each second a checkpoint begins if the last one has ended: all that was \
         changed by then goes to its place on the disk."
            .to_owned(),
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
    let [Some(alone), Some(without), Some(with)] =
        [Case::Alone, Case::Without, Case::With].map(|case| outcome.case(case))
    else {
        return Vec::new();
    };
    if [alone, without, with]
        .iter()
        .any(|run| run.load.operations == 0)
    {
        return vec![
            "Too few transactions were done to compare: give a longer --runtime.".to_owned(),
        ];
    }
    let slow = [alone, without, with].map(|run| run.load.quantile_ns(0.99) as f64);
    let [alone_ns, without_ns, with_ns] = slow.map(units::time);
    let share = with.background_rows_per_second() / without.background_rows_per_second().max(1.0);
    let work = format!(
        "The scan and the checkpoints do {:.0} % of the work that they do without priorities.",
        share * 100.0
    );
    let gain = slow[1] / slow[2].max(1.0);
    let first = if gain < GAIN_MIN {
        // Of a disturbed measurement that would be saying too much.
        let verdict = match outcome.disturbed {
            true => "",
            false => "Priorities gain little here: ",
        };
        format!(
            "{verdict}99 of 100 transactions take at most {with_ns} with iolane, {without_ns} without, {alone_ns} alone."
        )
    } else {
        format!(
            "With iolane, 99 of 100 transactions beside a scan and checkpoints take at most {with_ns}, instead of \
             {without_ns}: {} times shorter. Alone they take {alone_ns}.",
            units::figure(gain)
        )
    };
    let runs = [alone, without, with];
    let told = [stalls(runs), quota(outcome, runs)].into_iter().flatten();
    [first, work].into_iter().chain(told).collect()
}

/// Whether the machine was stopped because it had used up its part of a host.
fn quota(outcome: &DemoOutcome, runs: [&StoreRun; 3]) -> Option<String> {
    const QUOTA: &str = "A quota of the processors' time, its hypervisor's";
    let is_stopped = runs.iter().any(|run| run.gaps.cpu_quota);
    match outcome.only_processor {
        Some(number) if is_stopped => Some(format!(
            "{QUOTA}, stopped this machine, also when only processor {number} worked. That is in these figures."
        )),
        Some(number) => Some(format!(
            "{QUOTA}, stopped this machine when all of them worked: all this was measured on processor {number} alone."
        )),
        None if is_stopped => Some(format!(
            "{QUOTA}, stopped this machine. That is in these figures."
        )),
        None => None,
    }
}

/// What no priority helps against, and may be in one run only.
fn stalls(runs: [&StoreRun; 3]) -> Option<String> {
    let stalls = runs.map(|run| run.gaps.disk.unwrap_or_default());
    let [alone, without, with] = stalls;
    (stalls != [0; 3]).then(|| {
        format!(
            "The disk stood still: it completed nothing for more than 10 ms {alone} times in the first run, {without} \
             times in the second and {with} times in the third. That is in these figures."
        )
    })
}
