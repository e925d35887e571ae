//! The result for people.

use super::{ERROR_PERCENT_MAX, Errors, Load, VerifyOutcome};
use crate::args::disk::Transport;
use crate::disk::lead;
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

pub fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Loop => "loop",
        Transport::Nbd => "nbd",
    }
}

pub fn load(load: Load) -> String {
    match load {
        Load::Open {
            requests_per_second,
        } => format!("{requests_per_second:.0}/s"),
        Load::Closed { depth } => format!("depth {depth}"),
    }
}

fn table(outcome: &VerifyOutcome) -> Table {
    let mut table = Table::new(
        2,
        [
            "by",
            "load",
            "requests/s",
            "error",
            "mean",
            "model",
            "error",
            "p99",
            "model",
            "error",
            "late p50",
            "late p99",
            "timer p50",
            "timer p99",
            "p99 so",
            "",
        ],
    );
    let percent = |value: f64| format!("{value:+.1} %");
    for run in &outcome.runs {
        let verdict = match (run.judged, run.good, run.is_machines) {
            (_, true, _) => "good",
            (true, false, true) => "machine",
            (true, false, false) => "OFF",
            (false, false, _) => "(off)",
        };
        table.row([
            transport(run.transport).to_owned(),
            load(run.load),
            units::count(run.served.requests_per_second.round()),
            percent(run.error.requests_per_second_percent),
            units::time(run.served.mean_latency_ns),
            units::time(run.model.mean_latency_ns),
            percent(run.error.mean_latency_percent),
            units::time(run.served.p99_latency_ns as f64),
            units::time(run.model.p99_latency_ns as f64),
            percent(run.error.p99_latency_percent),
            units::time(run.lateness_p50_ns as f64),
            units::time(run.lateness_p99_ns as f64),
            units::time(run.machine_late_p50_ns as f64),
            units::time(run.machine_late_p99_ns as f64),
            units::time(run.machine.p99_latency_ns as f64),
            verdict.to_owned(),
        ]);
    }
    table
}

fn sentences(outcome: &VerifyOutcome) -> Vec<String> {
    let mut sentences: Vec<String> = outcome
        .leads
        .iter()
        .map(|used| {
            let way = transport(used.transport);
            let corrected = corrected(outcome, used.transport);
            let corrected = corrected.unwrap_or_default();
            format!(
                "Answers by {way} went out {}{corrected}.",
                lead::show(used.lead)
            )
        })
        .collect();
    sentences.push("Late: from when an answer should have left the server to when it did. Timer: by how much one that does nothing else rang late in the same run. P99 so: the model's, with each thread on a request's way woken as late as that timer.".to_owned());
    sentences.push(verdict(outcome));
    sentences.extend(machines(outcome));
    sentences
}

/// By how much the lead was corrected, over the runs.
fn corrected(outcome: &VerifyOutcome, transport: Transport) -> Option<String> {
    let runs = outcome.runs.iter();
    let runs = runs.filter(|run| run.transport == transport && run.lead_correction_ns != 0);
    let corrections = runs.map(|run| run.lead_correction_ns);
    let (least, most) = (corrections.clone().min()?, corrections.max()?);
    let known_by = match transport {
        Transport::Loop => "as the loop device's accounts say what requests take",
        Transport::Nbd => "as it is seen when clients take their answers",
    };
    Some(format!(
        "; from {} to {} at the ends of loads, {known_by}",
        lead::earlier(least),
        lead::earlier(most)
    ))
}

fn verdict(outcome: &VerifyOutcome) -> String {
    let judged: Vec<Errors> = outcome
        .runs
        .iter()
        .filter(|run| run.judged)
        .map(|run| run.error)
        .collect();
    let limit = units::count(outcome.judged_requests_per_second_max);
    if judged.is_empty() {
        return format!("No verdict: the model serves every load faster than {limit} requests/s.");
    }
    let within = |error: fn(&Errors) -> f64| {
        let good = judged
            .iter()
            .filter(|errors| error(errors).abs() <= ERROR_PERCENT_MAX);
        format!("{} of {}", good.count(), judged.len())
    };
    format!(
        "{}: up to {limit} requests/s, within {ERROR_PERCENT_MAX} % of the model are the mean latency of {} loads, the throughput of {}, the p99 of {}.",
        if outcome.good { "Good" } else { "Not good" },
        within(|errors| errors.mean_latency_percent),
        within(|errors| errors.requests_per_second_percent),
        within(|errors| errors.p99_latency_percent),
    )
}

/// What of it is not the disk's.
fn machines(outcome: &VerifyOutcome) -> Option<String> {
    let off = || outcome.runs.iter().filter(|run| run.judged && !run.good);
    let machine = off().filter(|run| run.is_machines).count();
    (off().count() > 0).then(|| {
        format!(
            "Of the {} loads that are off, {machine} are no later than the model with that timer's wakings (\"machine\"): stalls of this machine. The others are the disk's, or the way's to it.",
            off().count()
        )
    })
}

pub fn text(outcome: &VerifyOutcome, style: Style) -> String {
    let mut text = table(outcome).render(style);
    for sentence in sentences(outcome) {
        text.push_str(&format!("\n{sentence}"));
    }
    text.push('\n');
    text
}

pub fn html(outcome: &VerifyOutcome) -> Vec<Section> {
    vec![
        Section::new("Result")
            .text(sentences(outcome))
            .table(table(outcome)),
    ]
}
