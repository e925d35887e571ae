//! The regret as tables, and each of the worst loads beside its curve.

use iolane_disk::regret::Contender;

use super::document::{
    Distribution, LoadResult, RegretOutcome, RunDocument, SpreadDocument, Summary,
};
use crate::output::chart::{Axis, Point, ScatterChart};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

/// Loads that are shown one by one.
const WORST: usize = 10;

pub fn text(outcome: &RegretOutcome, style: Style) -> String {
    let mut text = summaries(outcome).render(style);
    for fact in facts(outcome) {
        text.push_str(&format!("\n{fact}"));
    }
    text.push_str(&format!("\n\n{}\n", style.bold("The worst:")));
    for (place, load) in outcome.worst(WORST).iter().enumerate() {
        let title = format!("{}. {}: {}", place + 1, load.model, verdict(load));
        text.push_str(&format!("\n{}\n", style.bold(&title)));
        let reaction = reaction(load).into_iter();
        for line in [load.description.clone(), curve(load)]
            .into_iter()
            .chain(reaction)
            .chain([command(outcome, load)])
        {
            text.push_str(&format!("   {line}\n"));
        }
    }
    if outcome.verbose {
        text.push('\n');
        text.push_str(&every_run(outcome).render(style));
    }
    text
}

pub fn html(outcome: &RegretOutcome) -> Vec<Section> {
    let mut sections = vec![
        Section::new("Regret")
            .table(summaries(outcome))
            .text(facts(outcome)),
    ];
    for (place, load) in outcome.worst(WORST).iter().enumerate() {
        sections.push(
            Section::new(format!("Worst {}: {}", place + 1, load.model))
                .text([verdict(load), load.description.clone()])
                .text(reaction(load))
                .text([command(outcome, load)])
                .chart(picture(load).svg()),
        );
    }
    if outcome.verbose {
        sections.push(Section::new("Every run").table(every_run(outcome)));
    }
    sections
}

/// What the columns mean.
const FACTS: [&str; 4] = [
    "latency: the foreground's p99 under lanes, in times the least of noop and fixed windows 1 to 256 that carry at least 95 % of its lower-level work. \
     throughput: the most lower-level work of those whose p99 is at most 1.05 times that of lanes, in times that of lanes. 1 is the best.",
    "beyond: loads on which no other run has a p99 as low as that of lanes; of window 1: on these, the least lower-level work of lanes over that of window 1. \
     worse than noop: by more than 5 % in both.",
    "reaction: where a load changes, foreground p99 of what begins in the following second, in settled ones; within: of what begins later, 99 of 100 take at most twice as long.",
    "By scheduler, w8 being a fixed window of 8: p99 of the foreground, and lower-level work, of which 1 is what one of its streams does alone.",
];

/// What is judged, and what the columns mean.
fn facts(outcome: &RegretOutcome) -> Vec<String> {
    let in_hindsight = outcome.loads.iter().any(is_in_hindsight);
    let judged = in_hindsight.then_some(IN_HINDSIGHT);
    judged.into_iter().chain(FACTS).map(str::to_owned).collect()
}

fn is_in_hindsight(load: &LoadResult) -> bool {
    matches!(load.runs[0].policy, Contender::Hindsight(_))
}

const IN_HINDSIGHT: &str = "In place of lanes, the fixed window that is best on each load is judged here, \
                            run again with the chance of arrivals and device drawn anew: what it regrets is chance.";

fn verdict(load: &LoadResult) -> String {
    let mut words = format!(
        "latency {:.2} ({}), throughput {:.2} ({})",
        load.latency_regret,
        load.latency_best.name(),
        load.throughput_regret,
        load.throughput_best.name(),
    );
    if let Some(share) = load.lower_work_of_window_1 {
        words.push_str(&format!(", {share:.2} of window 1's work"));
    }
    if load.worse_than_noop {
        words.push_str(", worse than noop");
    }
    words
}

fn reaction(load: &LoadResult) -> Option<String> {
    load.reaction.as_ref().map(|reaction| {
        format!(
            "after the change p99 {}, settled {}; twice that within {}, {} operations",
            units::time(reaction.p99_ns as f64),
            units::time(reaction.settled_p99_ns as f64),
            units::time(reaction.within_ns as f64),
            reaction.within_operations,
        )
    })
}

/// What runs a load alone.
fn command(outcome: &RegretOutcome, load: &LoadResult) -> String {
    let target = match &outcome.target {
        Some(target) => target.clone(),
        None => format!("--models {}", load.model),
    };
    let judged = match is_in_hindsight(load) {
        true => " --hindsight",
        false => "",
    };
    format!(
        "iolane bench regret {target} --load-seed {}{judged} --verbose",
        load.load_seed
    )
}

/// p99 and work of everybody.
fn curve(load: &LoadResult) -> String {
    let points: Vec<String> = load
        .runs
        .iter()
        .map(|run| {
            let p99 = units::time(run.foreground_p99_ns as f64);
            let name = run
                .policy
                .name()
                .replace("window ", "w")
                .replace("hindsight ", "hindsight w");
            format!("{name} {p99} {:.3}", run.lower_work)
        })
        .collect();
    points.join(" | ")
}

fn picture(load: &LoadResult) -> ScatterChart<'static> {
    let points = |of: fn(&RunDocument) -> Option<String>| -> Vec<Point> {
        let named = load.runs.iter().filter_map(|run| Some((of(run)?, run)));
        named
            .map(|(name, run)| Point::new(name, (run.lower_work, run.foreground_p99_ns as f64)))
            .collect()
    };
    let policies = points(|run| match run.policy {
        Contender::Window(_) => None,
        policy => Some(policy.name()),
    });
    let windows = points(|run| match run.policy {
        Contender::Window(window) => Some(window.to_string()),
        _ => None,
    });
    ScatterChart {
        x: Axis::linear("lower-level work, share of the device", units::figure),
        y: Axis::log10("foreground p99 latency", units::time),
        groups: vec![("policies".to_owned(), policies)],
        curve: Some(("window fixed by hand".to_owned(), windows)),
    }
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
            "p99 from",
            "to",
            "work from",
            "to",
        ],
    );
    for load in &outcome.loads {
        for run in &load.runs {
            let spread = |of: fn(&SpreadDocument) -> String| {
                run.spread.as_ref().map_or_else(String::new, of)
            };
            table.row([
                load.model.clone(),
                load.load_seed.to_string(),
                run.policy.name(),
                run.foreground_operations.to_string(),
                units::time(run.foreground_p99_ns as f64),
                format!("{:.4}", run.lower_work),
                run.lower_operations.to_string(),
                run.lower_bytes.to_string(),
                spread(|all| units::time(all.foreground_p99_ns[0] as f64)),
                spread(|all| units::time(all.foreground_p99_ns[1] as f64)),
                spread(|all| format!("{:.4}", all.lower_work[0])),
                spread(|all| format!("{:.4}", all.lower_work[1])),
            ]);
        }
    }
    table.without_empty_columns()
}
