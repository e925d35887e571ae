//! The mix as a table, and as the picture of latency against throughput.

use super::{LearnedUnit, LearnedWindow, MixOutcome, MixRun, SchedulerKind};
use crate::output::chart::{Axis, BarChart, LineChart, Point, ScatterChart, Series, latency_cdf};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

pub fn text(outcome: &MixOutcome, style: Style) -> String {
    let mut text = format!(
        "{}\n\n{}",
        outcome.description,
        table(outcome).render(style)
    );
    for fact in facts(outcome) {
        text.push_str(&format!("\n{fact}"));
    }
    // Last, where the eye is when it is done.
    for conclusion in conclusions(outcome) {
        text.push_str(&format!("\n{}", style.bold(&conclusion)));
    }
    text.push('\n');
    text
}

pub fn html(outcome: &MixOutcome) -> Vec<Section> {
    let mut sections = vec![result(outcome)];
    if outcome
        .runs
        .iter()
        .any(|run| run.high_share_percent.is_some())
    {
        sections.push(share_section(outcome));
        return sections;
    }
    sections.push(latency_against_throughput(outcome));
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
    // Kernel schedulers without priorities would hide the others: they are
    // next to `noop`, and in the other plots.
    let histograms: Vec<_> = named
        .iter()
        .filter(|run| run.kind != SchedulerKind::Kernel)
        .map(|run| (name(run), &run.foreground.latency_ns))
        .collect();
    sections.push(
        Section::new("Distribution of foreground latency")
            .text(["Share of foreground requests that took longer than a given time."])
            .chart(latency_cdf("foreground latency", "requests", &histograms)),
    );
    sections
}

pub fn result(outcome: &MixOutcome) -> Section {
    Section::new("Result")
        .text([outcome.description.clone()])
        .text(conclusions(outcome))
        .table(table(outcome))
        .text(facts(outcome))
}

pub fn latency_against_throughput(outcome: &MixOutcome) -> Section {
    Section::new("Foreground latency against total throughput")
        .text(["Better is lower (less waiting) and further right (more work done)."])
        .chart(picture(outcome).svg())
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
            "fg p99",
            "fg p99.9",
            "fg max",
            "bg ops/s",
            "bg mean",
            "bg p99",
            "total",
            "p99 gain",
            "of total",
            "in flight",
            "CPU/op",
        ],
    );
    for run in &outcome.runs {
        let (foreground, background) = (&run.foreground, &run.background);
        let gain = noop(outcome, run).and_then(|noop| Gain::of(noop, run));
        table.row([
            name(run),
            run.high_share_percent
                .map_or_else(String::new, |share| share.to_string()),
            units::count(foreground.operations_per_second()),
            foreground.spread_cell(),
            units::time(foreground.latency_ns.mean()),
            units::time(foreground.quantile_ns(0.99) as f64),
            units::time(foreground.quantile_ns(0.999) as f64),
            units::time(foreground.latency_ns.max() as f64),
            units::count(background.operations_per_second()),
            units::time(background.latency_ns.mean()),
            units::time(background.quantile_ns(0.99) as f64),
            units::bytes_per_second(run.total_bytes_per_second),
            gain.map_or_else(String::new, |gain| format!("{}x", units::figure(gain.p99))),
            gain.map_or_else(String::new, |gain| percent(gain.total)),
            run.in_flight
                .as_ref()
                .map_or_else(String::new, |seen| units::figure(seen.mean_requests)),
            units::time(run.cpu.ns_per_operation),
        ]);
    }
    table.without_empty_columns()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What a run is compared with: no priorities, under the same load. Nothing
/// for that run itself.
fn noop<'a>(outcome: &'a MixOutcome, run: &MixRun) -> Option<&'a MixRun> {
    let is_noop = |run: &MixRun| run.kind == SchedulerKind::Policy && run.policy == "noop";
    outcome
        .runs
        .iter()
        .find(|other| is_noop(other) && other.high_share_percent == run.high_share_percent)
        .filter(|_| !is_noop(run))
}

/// A run beside the one without priorities.
#[derive(Clone, Copy)]
struct Gain {
    /// How many times lower the foreground's p99 is.
    p99: f64,
    /// Total throughput as a share of the other's.
    total: f64,
}

impl Gain {
    fn of(noop: &MixRun, run: &MixRun) -> Option<Self> {
        let [before_ns, after_ns] = [noop, run].map(|run| run.foreground.quantile_ns(0.99) as f64);
        let total = run.total_bytes_per_second / noop.total_bytes_per_second;
        (before_ns > 0.0 && after_ns > 0.0 && total.is_finite()).then(|| Self {
            p99: before_ns / after_ns,
            total,
        })
    }
}

/// What the table means, for who runs a database and not a disk. iolane's own
/// default comes last.
fn conclusions(outcome: &MixOutcome) -> Vec<String> {
    let mut runs: Vec<&MixRun> = outcome
        .runs
        .iter()
        .filter(|run| run.kind == SchedulerKind::Policy)
        .collect();
    runs.sort_by_key(|run| run.policy == "lanes");
    runs.into_iter()
        .filter_map(|run| conclusion(noop(outcome, run)?, run))
        .collect()
}

fn conclusion(noop: &MixRun, run: &MixRun) -> Option<String> {
    let gain = Gain::of(noop, run)?;
    let (times, direction) = if gain.p99 >= 1.0 {
        (gain.p99, "lower")
    } else {
        (1.0 / gain.p99, "higher")
    };
    let p99 = |run: &MixRun| units::time(run.foreground.quantile_ns(0.99) as f64);
    let share = run
        .high_share_percent
        .map_or_else(String::new, |percent| format!(" at {percent} % high"));
    Some(format!(
        "{}{share}: foreground p99 {}x {direction} than noop ({} against {}) at {} of its total throughput.",
        name(run),
        units::figure(times),
        p99(run),
        p99(noop),
        percent(gain.total),
    ))
}

/// How it was measured, and what was learned of the device.
fn facts(outcome: &MixOutcome) -> Vec<String> {
    let mut facts = vec![
        "fg: foreground; bg: background; p99: 99 of 100 requests take at most so long; p99 gain and of total: against noop.".to_owned(),
        format!("Backend: {}.", outcome.backend),
    ];
    let learned = outcome.runs.iter().filter(|run| !run.learned.is_empty());
    facts.extend(learned.map(|run| {
        let share = run
            .high_share_percent
            .map_or_else(String::new, |percent| format!(" at {percent} % high"));
        format!("Learned by {}{share}: {}.", name(run), lesson(&run.learned))
    }));
    facts
}

/// Of all repetitions.
fn lesson(learned: &[LearnedWindow]) -> String {
    let range = |of: fn(&LearnedWindow) -> f64, show: fn(f64) -> String| {
        let values = learned.iter().map(of);
        let least = show(values.clone().fold(f64::INFINITY, f64::min));
        let most = show(values.fold(0.0, f64::max));
        if least == most {
            least
        } else {
            format!("{least} to {most}")
        }
    };
    let window = range(|one| one.window_requests, units::figure);
    let service = range(|one| one.service_ns as f64, units::time);
    let limits: Vec<String> = learned
        .iter()
        .filter_map(|one| one.rate_limit)
        .map(|limit| {
            let rate = match limit.unit {
                LearnedUnit::Requests => format!("{} requests/s", units::count(limit.per_second)),
                LearnedUnit::Bytes => units::bytes_per_second(limit.per_second),
            };
            let of = if limit.each {
                " of reads, and as much of writes"
            } else {
                ""
            };
            rate + of
        })
        .collect();
    let limit = if limits.is_empty() {
        "no rate limit".to_owned()
    } else {
        format!("a rate limit of {}", limits.join(", "))
    };
    format!(
        "{window} requests in flight are enough; the shortest latency in the device is {service}; {limit}"
    )
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
