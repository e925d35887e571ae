//! The demo for who runs a database: no term that needs a glossary.

use super::{Case, DemoOutcome, server};
use crate::bench::store::{StoreRun, TableFacts, latency_over_time};
use crate::output::html::Section;
use crate::output::text::{Style, Table, bars, wrapped};
use crate::output::units;

/// Less than this is not worth a word.
const GAIN_MIN: f64 = 1.2;

/// What the axis of a chart is.
const SLOW: &str = "99 of 100 transactions take at most";

/// Three runs on one disk.
struct Part<'a> {
    title: String,
    /// What goes on beside transactions.
    beside: &'static str,
    table: &'a TableFacts,
    rate_per_second: f64,
    runs: &'a [StoreRun],
    /// Something else may have decided its figures.
    disturbed: bool,
}

fn parts(outcome: &DemoOutcome) -> [Part<'_>; 2] {
    let volume = &outcome.volume;
    [
        Part {
            title: format!("Your disk: {}", outcome.disk),
            beside: "a scan and checkpoints",
            table: &outcome.table,
            rate_per_second: outcome.rate_per_second,
            runs: &outcome.runs,
            disturbed: outcome.disturbed,
        },
        Part {
            title: format!("A cloud volume: {}, modelled in memory", volume.model),
            beside: "a scan, checkpoints and a backup",
            table: &volume.table,
            rate_per_second: volume.rate_per_second,
            runs: &volume.runs,
            disturbed: outcome.disturbed,
        },
    ]
}

pub fn text(outcome: &DemoOutcome, style: Style) -> String {
    let mut text = outcome
        .server
        .as_ref()
        .map_or_else(String::new, |server| server::text(server, style));
    for part in parts(outcome) {
        let values: Vec<_> = part
            .cases()
            .map(|(name, run)| (name.to_owned(), run.load.quantile_ns(0.99) as f64))
            .collect();
        text.push_str(&format!(
            "\n{}\n{}\n\n{}\n{}\n",
            style.bold(&part.title),
            wrapped(&part.question()),
            bars(&values, units::time),
            style.bold(&wrapped(&part.answer())),
        ));
    }
    if let Some(report) = &outcome.report {
        text.push_str(&format!("\nReport with plots: {}\n", report.display()));
    }
    text
}

pub fn html(outcome: &DemoOutcome) -> Vec<Section> {
    let parts = parts(outcome);
    let server = outcome.server.iter().map(server::section);
    let mut sections: Vec<Section> = server.chain(parts.iter().map(Part::section)).collect();
    let mut figures = Section::new("All figures").text(explanation(outcome));
    for part in &parts {
        figures = figures
            .heading(&part.title)
            .text([part.of_the_table()])
            .table(part.figures())
            .text(stalls(part));
    }
    sections.push(figures.text(quota(outcome)));
    sections
}

impl Part<'_> {
    fn section(&self) -> Section {
        Section::new(self.title.clone())
            .text([self.answer()])
            .chart(latency_over_time(SLOW, &self.named()))
    }

    fn named(&self) -> Vec<(String, &StoreRun)> {
        let cases = self.cases();
        cases.map(|(name, run)| (name.to_owned(), run)).collect()
    }

    fn cases(&self) -> impl Iterator<Item = (&'static str, &StoreRun)> {
        let named = [
            ("alone", Case::Alone),
            ("without priorities", Case::Without),
            ("with iolane", Case::With),
        ];
        let case = |(name, case)| Some((name, self.runs.get(case as usize)?));
        named.into_iter().filter_map(case)
    }

    fn question(&self) -> String {
        format!(
            "How long 99 of 100 short transactions take at most, alone and beside {}:",
            self.beside
        )
    }

    /// What it comes to, in one sentence.
    fn answer(&self) -> String {
        let [alone, without, with] = self.runs else {
            return String::new();
        };
        if self.runs.iter().any(|run| run.load.operations == 0) {
            return "Too few transactions were done to compare: give a longer --runtime."
                .to_owned();
        }
        let slow = [alone, without, with].map(|run| run.load.quantile_ns(0.99) as f64);
        let [alone_ns, without_ns, with_ns] = slow.map(units::time);
        let gain = slow[1] / slow[2].max(1.0);
        if gain < GAIN_MIN {
            // Of a disturbed measurement that would be saying too much.
            let verdict = match self.disturbed {
                true => "",
                false => "Priorities gain little here: ",
            };
            return format!(
                "{verdict}99 of 100 transactions take at most {with_ns} with iolane, {without_ns} without, {alone_ns} \
                 alone."
            );
        }
        let work = work_of(with) / work_of(without).max(1.0);
        format!(
            "With iolane, 99 of 100 transactions take at most {with_ns} instead of {without_ns}, {} times less, while \
             {} go on at {:.0} % of their speed.",
            units::figure(gain),
            self.beside,
            work * 100.0
        )
    }

    fn of_the_table(&self) -> String {
        format!(
            "A table of {} in {} rows, of which the store keeps an eighth in memory; {} transactions begin each second.",
            units::binary_size(self.table.size_bytes),
            units::count(self.table.rows as f64),
            units::count(self.rate_per_second),
        )
    }

    fn figures(&self) -> Table {
        let mut table = Table::new(
            1,
            [
                "transactions",
                "per second",
                "typical",
                "99 of 100 within",
                "999 of 1000",
                "longest",
                "rows of the rest",
                "checkpoints",
                "disk idle",
            ],
        );
        for (name, run) in self.cases() {
            let time = |quantile| units::time(run.load.quantile_ns(quantile) as f64);
            let of_rest = |figure: String| match run.background.is_empty() {
                true => "-".to_owned(),
                false => figure,
            };
            table.row([
                name.to_owned(),
                units::count(run.load.operations_per_second()),
                time(0.5),
                time(0.99),
                time(0.999),
                units::time(run.load.latency_ns.max() as f64),
                of_rest(format!("{}/s", units::count(work_of(run)))),
                of_rest(run.counts.checkpoints_asked.to_string()),
                format!(
                    "{} %",
                    units::figure(run.outstanding.data.idle_share * 100.0)
                ),
            ]);
        }
        table
    }
}

/// Rows that were scanned, changed and copied beside, per second.
fn work_of(run: &StoreRun) -> f64 {
    run.background_rows_per_second()
}

fn explanation(outcome: &DemoOutcome) -> [String; 2] {
    [
        "Every other transaction reads a row, the rest change one and wait until that is durable. Their time counts \
         from the moment at which they should have begun. Beside them the whole table is read again and again, rows are \
         changed, and each second a checkpoint begins if the last one has ended."
            .to_owned(),
        format!(
            "On your disk so many transactions begin as are {:.0} % of what the store does when left alone. The volume \
             is in the memory of this process and takes the time that its limits say: 3000 requests and 131 MB a \
             second, and a fraction of a millisecond each.",
            100.0 * outcome.rate_per_second / outcome.best_per_second.max(1.0),
        ),
    ]
}

/// Whether the machine was stopped because it had used up its part of a host.
fn quota(outcome: &DemoOutcome) -> Option<String> {
    const QUOTA: &str = "A quota of the processors' time, its hypervisor's";
    let mut runs = outcome.runs.iter().chain(&outcome.volume.runs);
    let is_stopped = runs.any(|run| run.gaps.cpu_quota);
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

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

/// What no priority helps against, and may be in one run only.
fn stalls(part: &Part<'_>) -> Option<String> {
    let stalls: Vec<u64> = part
        .runs
        .iter()
        .map(|run| run.gaps.disk.unwrap_or_default())
        .collect();
    let [alone, without, with] = stalls[..] else {
        return None;
    };
    (alone + without + with > 0).then(|| {
        format!(
            "The disk stood still (nothing completed for more than 10 ms) {} in the first run, {without} in the second \
             and {with} in the third. The figures include these pauses.",
            times(alone),
        )
    })
}
