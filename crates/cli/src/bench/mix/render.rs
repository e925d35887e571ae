//! The mix as a table, and as the picture of latency against throughput.

use super::{MixOutcome, MixRun, SchedulerKind};
use crate::output::chart::{Axis, BarChart, LineChart, Point, ScatterChart, Series, latency_cdf};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

pub fn text(outcome: &MixOutcome, style: Style) -> String {
    let mut text = table(outcome).render(style);
    for sentence in sentences(outcome) {
        text.push_str(&format!("\n{sentence}"));
    }
    text.push('\n');
    text
}

pub fn html(outcome: &MixOutcome) -> Vec<Section> {
    let mut sections = vec![
        Section::new("Result")
            .text(sentences(outcome))
            .table(table(outcome)),
    ];
    if outcome
        .runs
        .iter()
        .any(|run| run.high_share_percent.is_some())
    {
        sections.push(share_section(outcome));
        return sections;
    }
    sections.push(
        Section::new("Foreground latency against total throughput")
            .text(["Better is lower (less waiting) and further right (more work done)."])
            .chart(picture(outcome).svg()),
    );
    let named: Vec<&MixRun> = named_runs(outcome).collect();
    sections.push(
        Section::new("Foreground p99 latency").chart(
            BarChart {
                value: Axis::linear("foreground p99 latency", units::time),
                bars: named
                    .iter()
                    .map(|run| (name(run), run.foreground.quantile_ns(0.99) as f64))
                    .collect(),
            }
            .svg(),
        ),
    );
    let histograms: Vec<_> = named
        .iter()
        .map(|run| (name(run), &run.foreground.latency_ns))
        .collect();
    sections.push(
        Section::new("Distribution of foreground latency")
            .text(["Share of foreground requests that took longer than a given time."])
            .chart(latency_cdf("foreground latency", &histograms)),
    );
    sections
}

fn named_runs(outcome: &MixOutcome) -> impl Iterator<Item = &MixRun> {
    outcome
        .runs
        .iter()
        .filter(|run| run.kind != SchedulerKind::FixedWindow)
}

fn name(run: &MixRun) -> String {
    match (run.kind, run.window) {
        (SchedulerKind::Kernel | SchedulerKind::KernelIoprio, _) => {
            format!("kernel {}", run.policy)
        }
        (_, Some(window)) => format!("window {window}"),
        _ => run.policy.clone(),
    }
}

fn table(outcome: &MixOutcome) -> Table {
    let mut table = Table::new(
        1,
        [
            "scheduler",
            "high %",
            "fg ops/s",
            "±%",
            "fg mean",
            "fg p50",
            "fg p99",
            "fg p99.9",
            "fg max",
            "bg ops/s",
            "bg p99",
            "total ops/s",
            "total",
            "in flight",
            "CPU/op",
        ],
    );
    for run in &outcome.runs {
        let foreground = |quantile| units::time(run.foreground.quantile_ns(quantile) as f64);
        table.row([
            name(run),
            run.high_share_percent
                .map_or_else(String::new, |share| share.to_string()),
            units::count(run.foreground.operations_per_second()),
            run.foreground.spread().map_or_else(String::new, |spread| {
                format!("{:.1}", spread.operations_per_second.half_width_percent())
            }),
            units::time(run.foreground.latency_ns.mean()),
            foreground(0.5),
            foreground(0.99),
            foreground(0.999),
            units::time(run.foreground.latency_ns.max() as f64),
            units::count(run.background.operations_per_second()),
            units::time(run.background.quantile_ns(0.99) as f64),
            units::count(run.total_operations_per_second),
            units::bytes_per_second(run.total_bytes_per_second),
            run.in_flight
                .as_ref()
                .map_or_else(String::new, |seen| units::figure(seen.mean_requests)),
            units::time(run.cpu.ns_per_operation),
        ]);
    }
    table.without_empty_columns()
}

/// What the table means, for who runs a database and not a disk.
fn sentences(outcome: &MixOutcome) -> Vec<String> {
    let policy = |wanted: &str| {
        outcome.runs.iter().find(|run| {
            run.kind == SchedulerKind::Policy
                && run.policy == wanted
                && run.high_share_percent.is_none()
        })
    };
    let mut sentences = Vec::new();
    if let (Some(noop), Some(lanes)) = (policy("noop"), policy("lanes")) {
        sentences.extend(comparison(noop, lanes));
    }
    sentences.push(format!("Backend: {}.", outcome.backend));
    sentences
}

fn comparison(noop: &MixRun, lanes: &MixRun) -> Option<String> {
    let [noop_ns, lanes_ns] = [noop, lanes].map(|run| run.foreground.quantile_ns(0.99) as f64);
    if lanes_ns <= 0.0 || noop.total_bytes_per_second <= 0.0 {
        return None;
    }
    Some(format!(
        "Of 100 foreground requests, 99 take at most {} without priorities (noop) and {} with lanes: 1/{} of it, at {:.1} % of the total throughput.",
        units::time(noop_ns),
        units::time(lanes_ns),
        units::figure(noop_ns / lanes_ns),
        lanes.total_bytes_per_second / noop.total_bytes_per_second * 100.0
    ))
}

fn position(run: &MixRun) -> (f64, f64) {
    (
        run.total_bytes_per_second,
        run.foreground.quantile_ns(0.99) as f64,
    )
}

fn picture(outcome: &MixOutcome) -> ScatterChart<'static> {
    let curve: Vec<Point> = outcome
        .runs
        .iter()
        .filter(|run| run.kind == SchedulerKind::FixedWindow)
        .map(|run| Point::new(run.window.unwrap_or(0).to_string(), position(run)))
        .collect();
    ScatterChart {
        x: Axis::linear("total throughput", units::bytes_per_second),
        y: Axis::log10("foreground p99 latency", units::time),
        groups: [
            ("iolane", SchedulerKind::Policy),
            ("kernel", SchedulerKind::Kernel),
            ("kernel with ioprio", SchedulerKind::KernelIoprio),
        ]
        .into_iter()
        .map(|(group, kind)| {
            let points = outcome.runs.iter().filter(|run| run.kind == kind);
            (
                group.to_owned(),
                points
                    .map(|run| Point::new(run.policy.clone(), position(run)))
                    .collect(),
            )
        })
        .filter(|(_, points): &(String, Vec<Point>)| !points.is_empty())
        .collect(),
        curve: (!curve.is_empty()).then(|| ("window fixed by hand".to_owned(), curve)),
    }
}

fn share_section(outcome: &MixOutcome) -> Section {
    let mut policies: Vec<String> = outcome.runs.iter().map(name).collect();
    policies.dedup();
    let mut series = Vec::new();
    for policy in &policies {
        let runs = || outcome.runs.iter().filter(|run| name(run) == *policy);
        let points = |value: fn(&MixRun) -> f64| {
            runs()
                .filter_map(|run| Some((run.high_share_percent? as f64, value(run))))
                .collect()
        };
        series.push(Series::new(
            format!("{policy}: high"),
            points(|run| run.foreground.latency_ns.mean()),
        ));
        series.push(Series::new(
            format!("{policy}: low"),
            points(|run| run.background.latency_ns.mean()),
        ));
    }
    Section::new("Mean latency by share of high priority").chart(
        LineChart {
            x: Axis::linear("share of high priority (%)", units::figure),
            y: Axis::log10("mean latency", units::time),
            series,
            mark_x: None,
        }
        .svg(),
    )
}
