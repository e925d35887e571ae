//! The regret as tables, and each of the worst loads beside its curve.

use iolane_disk::regret::Contender;

use super::document::{
    Distribution, JudgedSummary, LoadResult, RegretOutcome, RunDocument, SpreadDocument, Summary,
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
    let again = outcome.summary.measured_again.map(|_| MEASURED_AGAIN);
    let facts = judged.into_iter().chain(FACTS).chain(again);
    facts.map(str::to_owned).collect()
}

fn is_in_hindsight(load: &LoadResult) -> bool {
    matches!(load.runs[0].policy, Contender::Hindsight(_))
}

const IN_HINDSIGHT: &str = "In place of lanes, the fixed window that is best on each load is judged here, \
                            run again with the chance of arrivals and device drawn anew: what it regrets is chance.";

const MEASURED_AGAIN: &str = "measured again: the fixed window that is best in the odd repetitions of each load, judged in the even ones; what it regrets is chance. \
     lanes, the same repetitions: lanes in those, to compare with it.";

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

const COLUMNS: [&str; 15] = [
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
];

fn summaries(outcome: &RegretOutcome) -> Table {
    let mut table = Table::new(1, COLUMNS);
    for model in &outcome.models {
        table.row(summary(&model.model, &model.summary));
    }
    if outcome.models.len() > 1 {
        table.row(summary("all", &outcome.summary));
    }
    if let Some(again) = &outcome.summary.measured_again {
        for (name, judged) in [
            ("hindsight, measured again", &again.hindsight),
            ("lanes, the same repetitions", &again.lanes),
        ] {
            let JudgedSummary {
                latency_regret: latency,
                throughput_regret: throughput,
                worse_than_noop,
            } = judged;
            let mut row = regrets(name, outcome.summary.loads, [latency, throughput]);
            // Nothing is said of the curve, nor of changes.
            row.extend(["", "", &worse_than_noop.to_string()].map(str::to_owned));
            row.resize(COLUMNS.len(), String::new());
            table.row(row);
        }
    }
    table
}

/// The first columns.
fn regrets(name: &str, loads: usize, of: [&Distribution; 2]) -> Vec<String> {
    let figures = of.map(|all| [all.median, all.p95, all.worst]);
    let figures = figures.as_flattened().iter();
    let mut row = vec![name.to_owned(), loads.to_string()];
    row.extend(figures.map(|figure| format!("{figure:.2}")));
    row
}

fn summary(name: &str, summary: &Summary) -> Vec<String> {
    let or_none = |of: &Option<Distribution>, show: fn(&Distribution) -> String| {
        of.as_ref().map_or_else(String::new, show)
    };
    let both = [&summary.latency_regret, &summary.throughput_regret];
    let of_window_1 = summary.lower_work_of_window_1_min;
    let mut row = regrets(name, summary.loads, both);
    row.extend([
        summary.beyond_the_curve.to_string(),
        of_window_1.map_or_else(String::new, |share| format!("{share:.2}")),
        summary.worse_than_noop.to_string(),
        or_none(&summary.reaction_ratio, |all| format!("{:.2}", all.p95)),
        or_none(&summary.reaction_ratio, |all| format!("{:.2}", all.worst)),
        or_none(&summary.reaction_within_ns, |all| units::time(all.p95)),
        or_none(&summary.reaction_within_operations, |all| {
            units::count(all.p95)
        }),
    ]);
    row
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
            "reaction",
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
            let reaction = run.reaction.as_ref();
            table.row([
                load.model.clone(),
                load.load_seed.to_string(),
                run.policy.name(),
                run.foreground_operations.to_string(),
                units::time(run.foreground_p99_ns as f64),
                format!("{:.4}", run.lower_work),
                run.lower_operations.to_string(),
                run.lower_bytes.to_string(),
                reaction.map_or_else(String::new, |one| format!("{:.2}", one.ratio)),
                spread(|all| units::time(all.foreground_p99_ns[0] as f64)),
                spread(|all| units::time(all.foreground_p99_ns[1] as f64)),
                spread(|all| format!("{:.4}", all.lower_work[0])),
                spread(|all| format!("{:.4}", all.lower_work[1])),
            ]);
        }
    }
    table.without_empty_columns()
}

#[cfg(test)]
mod tests {
    use super::super::document::AgainDocument;
    use super::super::document::tests::fake;
    use super::*;
    use iolane_disk::regret::{Change, Course, Load};

    #[test]
    fn the_floor_stands_below_the_disk() {
        let load = Load {
            seed: 7,
            parts: Vec::new(),
            change: Change::None,
        };
        let course = Course::new(&load, Vec::new(), 0, 1);
        let outcomes = fake();
        let runs: Vec<RunDocument> = outcomes
            .iter()
            .map(|all| RunDocument::median(all))
            .collect();
        let of = |again| LoadResult::new("/disk", &load, &course, runs.clone(), again);
        let outcome = |again| RegretOutcome {
            summary: Summary::of([of(again)].iter()).unwrap(),
            models: Vec::new(),
            loads: Vec::new(),
            verbose: false,
            target: None,
        };
        let text = summaries(&outcome(AgainDocument::of(&outcomes))).render(Style::PLAIN);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().collect::<Vec<_>>()
        };
        let floor = row("hindsight, measured again");
        assert_eq!(
            floor,
            ["1", "2.50", "2.50", "2.50", "1.40", "1.40", "1.40", "0"]
        );
        let lanes = row("lanes, the same repetitions");
        assert_eq!(lanes[..5], ["1", "1.50", "1.50", "1.50", "1.17"]);
        let text = summaries(&outcome(None)).render(Style::PLAIN);
        assert!(!text.contains("measured again"), "{text}");
    }
}
