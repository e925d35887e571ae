//! The regret as tables.

use super::document::{Distribution, LoadResult, RegretOutcome, Summary};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

/// Loads that are shown one by one.
const WORST: usize = 10;

pub fn text(outcome: &RegretOutcome, style: Style) -> String {
    let mut text = summaries(outcome).render(style);
    text.push('\n');
    for (place, load) in outcome.worst(WORST).iter().enumerate() {
        text.push_str(&style.bold(&format!(
            "{}. {}: latency {:.2} ({}), throughput {:.2} ({}){}{}",
            place + 1,
            load.model,
            load.latency_regret,
            load.latency_best.name(),
            load.throughput_regret,
            load.throughput_best.name(),
            load.lower_work_of_window_1
                .map_or_else(String::new, |share| format!(", {share:.2} of window 1's work")),
            if load.worse_than_noop {
                ", worse than noop"
            } else {
                ""
            },
        )));
        text.push_str(&format!("\n   {}\n", load.description));
        text.push_str(&format!("   {}\n", curve(load)));
        text.push_str(&format!("   {}\n", command(load)));
    }
    if outcome.verbose {
        text.push('\n');
        text.push_str(&every_run(outcome).render(style));
    }
    text
}

pub fn html(outcome: &RegretOutcome) -> Vec<Section> {
    vec![Section::new("Regret").table(summaries(outcome))]
}

/// What runs a load alone.
fn command(load: &LoadResult) -> String {
    format!(
        "iolane bench regret --models {} --load-seed {} --verbose",
        load.model, load.load_seed
    )
}

/// p99 and work of everybody.
fn curve(load: &LoadResult) -> String {
    let points: Vec<String> = load
        .runs
        .iter()
        .map(|run| {
            format!(
                "{} {} {:.3}",
                run.policy.name().replace("window ", "w"),
                units::time(run.foreground_p99_ns as f64),
                run.lower_work
            )
        })
        .collect();
    points.join(" | ")
}

fn summaries(outcome: &RegretOutcome) -> Table {
    let mut table = Table::new(
        1,
        [
            "disk",
            "loads",
            "latency median",
            "p95",
            "worst",
            "throughput median",
            "p95",
            "worst",
            "beyond",
            "of window 1",
            "worse than noop",
            "reaction p95",
            "worst",
            "within p95",
            "operations p95",
        ],
    );
    for model in &outcome.models {
        table.row(summary(&model.model, &model.summary));
    }
    if outcome.models.len() > 1 {
        table.row(summary("all", &outcome.summary));
    }
    table
}

fn summary(name: &str, summary: &Summary) -> Vec<String> {
    let or_none = |of: &Option<Distribution>, show: fn(&Distribution) -> String| {
        of.as_ref().map_or_else(String::new, show)
    };
    vec![
        name.to_owned(),
        summary.loads.to_string(),
        format!("{:.2}", summary.latency_regret.median),
        format!("{:.2}", summary.latency_regret.p95),
        format!("{:.2}", summary.latency_regret.worst),
        format!("{:.2}", summary.throughput_regret.median),
        format!("{:.2}", summary.throughput_regret.p95),
        format!("{:.2}", summary.throughput_regret.worst),
        summary.beyond_the_curve.to_string(),
        summary
            .lower_work_of_window_1_min
            .map_or_else(String::new, |share| format!("{share:.2}")),
        summary.worse_than_noop.to_string(),
        or_none(&summary.reaction_ratio, |all| format!("{:.2}", all.p95)),
        or_none(&summary.reaction_ratio, |all| format!("{:.2}", all.worst)),
        or_none(&summary.reaction_within_ns, |all| units::time(all.p95)),
        or_none(&summary.reaction_within_operations, |all| {
            units::count(all.p95)
        }),
    ]
}

fn every_run(outcome: &RegretOutcome) -> Table {
    let mut table = Table::new(
        3,
        [
            "disk",
            "load",
            "scheduler",
            "foreground",
            "p99",
            "lower work",
            "lower operations",
            "lower bytes",
        ],
    );
    for load in &outcome.loads {
        for run in &load.runs {
            table.row([
                load.model.clone(),
                load.load_seed.to_string(),
                run.policy.name(),
                run.foreground_operations.to_string(),
                units::time(run.foreground_p99_ns as f64),
                format!("{:.4}", run.lower_work),
                run.lower_operations.to_string(),
                run.lower_bytes.to_string(),
            ]);
        }
    }
    table
}
