//! The server's part of the demo in words.

use super::{Case, ServerOutcome, ServerRun, TABLE_BYTES};
use crate::output::html::Section;
use crate::output::text::{Style, Table, bars, wrapped};
use crate::output::units;

/// Less than this is not worth a word.
const GAIN_MIN: f64 = 1.2;
const NAMES: [(&str, Case); 3] = [
    ("quiet", Case::Quiet),
    ("beside dumps", Case::Without),
    ("with iolane run", Case::With),
];

impl ServerOutcome {
    fn title(&self) -> String {
        match self.model {
            Some(model) => format!(
                "{} on a volume of 3000 requests/s ({model}, modelled)",
                self.server
            ),
            None => format!("{} on your disk", self.server),
        }
    }

    fn case(&self, case: Case) -> Option<&ServerRun> {
        self.runs.get(case as usize)
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &ServerRun)> {
        let found = |(name, case)| Some((name, self.case(case)?));
        NAMES.into_iter().filter_map(found)
    }

    /// What it comes to, in one sentence.
    fn answer(&self) -> String {
        let cases = [Case::Quiet, Case::Without, Case::With].map(|case| self.case(case));
        let [Some(quiet), Some(without), Some(with)] = cases else {
            return String::new();
        };
        let [quiet_time, without_time, with_time] =
            [quiet, without, with].map(|run| units::time(run.p99_ns as f64));
        let gain = without.p99_ns as f64 / with.p99_ns.max(1) as f64;
        let work = match without.dumped_bytes {
            0 => "while the dumps, which got nothing without it, go on".to_owned(),
            bytes => {
                let percent = 100.0 * with.dumped_bytes as f64 / bytes as f64;
                format!("while the dumps go on at {percent:.0} % of their speed")
            }
        };
        if gain < GAIN_MIN {
            return format!(
                "Priorities gain little here: 99 of 100 statements take at most {with_time} under iolane run, {without_time} without, {quiet_time} quiet."
            );
        }
        format!(
            "Under iolane run, 99 of 100 statements take at most {with_time} instead of {without_time}, {} times less \
             (quiet: {quiet_time}), {work}.",
            units::figure(gain)
        )
    }

    fn figures(&self) -> Table {
        let header = [
            "statements",
            "count",
            "typical",
            "mean",
            "99 of 100 within",
            "longest",
            "dumped",
        ];
        let mut table = Table::new(1, header);
        for (name, run) in self.named() {
            let seconds = run.elapsed_ns as f64 / 1e9;
            let [typical, mean, slow, longest] =
                [run.p50_ns, run.mean_ns, run.p99_ns, run.max_ns].map(|ns| units::time(ns as f64));
            let dumped = match run.dumped_bytes {
                0 => "-".to_owned(),
                bytes => format!("{}/s", units::binary_size((bytes as f64 / seconds) as u64)),
            };
            let count = run.statements.to_string();
            table.row([name.to_owned(), count, typical, mean, slow, longest, dumped]);
        }
        table
    }
}

pub fn text(outcome: &ServerOutcome, style: Style) -> String {
    let values: Vec<_> = outcome
        .named()
        .map(|(name, run)| (name.to_owned(), run.p99_ns as f64))
        .collect();
    format!(
        "\n{}\n{}\n\n{}\n{}\n",
        style.bold(&outcome.title()),
        wrapped(
            "How long 99 of 100 statements take at most, quiet and beside two dumps of the table:"
        ),
        bars(&values, units::time),
        style.bold(&wrapped(&outcome.answer())),
    )
}

pub fn section(outcome: &ServerOutcome) -> Section {
    Section::new(outcome.title())
        .text([
            outcome.answer(),
            format!(
                "A scratch server with a table of {}; {} statements begin each second. Half of \
                 them look up a row, half change one and wait until that is durable. Their time counts from the moment at \
                 which they should have begun. {}; otherwise the server is as it is installed. With iolane, its command stands \
                 behind iolane run.",
                units::binary_size(TABLE_BYTES),
                outcome.rate_per_second,
                outcome.scaled_down
            ),
        ])
        .table(outcome.figures())
}
