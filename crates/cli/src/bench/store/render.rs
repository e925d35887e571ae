//! Runs as tables and as plots.

use maud::Markup;

use super::document::{Gaps, LedgerRow, OfDevice};
use super::{StoreBenchOutcome, StoreRun};
use crate::args::choices::name;
use crate::args::store_bench::{Beside, Experiment};
use crate::output::chart::{Axis, LineChart, Series, latency_cdf};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

pub fn text(outcome: &StoreBenchOutcome, style: Style) -> String {
    let mut text = String::new();
    for (experiment, runs) in by_experiment(outcome) {
        text.push_str(&format!(
            "{}\n{}\n{}\n{}{}\n",
            style.bold(title(experiment)),
            work_table(&runs).render(style),
            device_table(&runs).render(style),
            limit_table(&runs)
                .map_or_else(String::new, |table| format!("{}\n", table.render(style))),
            ledger_table(&runs).render(style),
        ));
    }
    for fact in facts(outcome) {
        text.push_str(&format!("{fact}\n"));
    }
    text
}

pub fn html(outcome: &StoreBenchOutcome) -> Vec<Section> {
    let mut sections = Vec::new();
    for (experiment, runs) in by_experiment(outcome) {
        let labelled: Vec<(String, &StoreRun)> =
            runs.iter().map(|run| (run.setting.label(), *run)).collect();
        let section = Section::new(title(experiment))
            .table(work_table(&runs))
            .table(device_table(&runs));
        sections.push(match limit_table(&runs) {
            Some(table) => section.table(table),
            None => section,
        });
        let histograms: Vec<_> = labelled
            .iter()
            .map(|(name, run)| (name.clone(), &run.load.latency_ns))
            .collect();
        sections.push(
            Section::new(format!("{}: latency", name(experiment)))
                .text([of_operation(experiment)])
                .heading("99th percentile over time")
                .chart(latency_over_time("p99 latency", &labelled))
                .heading("Share of operations that took longer than a given time")
                .chart(latency_cdf("latency", operations(experiment), &histograms)),
        );
        sections.push(
            Section::new(format!("{}: requests outstanding", name(experiment)))
                .heading("On tablespaces, mean over time")
                .chart(outstanding_over_time(&labelled))
                .heading("On tablespaces, share of the time with at most so many")
                .chart(outstanding_distribution(&labelled)),
        );
        sections.push(
            Section::new(format!("{}: who used the device", name(experiment)))
                .table(ledger_table(&runs)),
        );
    }
    sections.push(Section::new("Table and device").text(facts(outcome)));
    sections
}

fn by_experiment(outcome: &StoreBenchOutcome) -> Vec<(Experiment, Vec<&StoreRun>)> {
    let mut groups: Vec<(Experiment, Vec<&StoreRun>)> = Vec::new();
    for run in &outcome.runs {
        let experiment = run.setting.experiment;
        match groups.iter_mut().find(|group| group.0 == experiment) {
            Some(group) => group.1.push(run),
            None => groups.push((experiment, vec![run])),
        }
    }
    groups
}

const fn title(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Scan => "Scan of all rows by primary key, cold",
        Experiment::Range => "Range of a secondary index, cold",
        Experiment::Update => "Change of all rows",
        Experiment::Commit => "Durable changes of one row of a few",
        Experiment::Oltp => "Transactions: read a row, or change one durably",
    }
}

const fn of_operation(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Scan | Experiment::Range => {
            "From one row to the next: most are in the page that is at hand, so the tail shows the waits."
        }
        Experiment::Update => "Of the change of one row; its commit does not wait.",
        Experiment::Commit | Experiment::Oltp => {
            "Of a transaction; at a rate, from the moment at which it should have begun."
        }
    }
}

/// What is counted.
const fn operations(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Commit | Experiment::Oltp => "transactions",
        _ => "rows",
    }
}

fn unit(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Commit | Experiment::Oltp => "tx/s",
        _ => "rows/s",
    }
}

/// Of the gaps, if there are any.
fn part_of(part: Option<u64>, gaps: Gaps) -> String {
    match part {
        _ if gaps.above_10_ms == 0 => String::new(),
        Some(part) => part.to_string(),
        None => "?".to_owned(),
    }
}

fn work_table(runs: &[&StoreRun]) -> Table {
    let unit = runs.first().map_or("", |run| unit(run.setting.experiment));
    let mut table = Table::new(
        2,
        [
            "store",
            "beside",
            unit,
            "±%",
            "p50",
            "p99",
            "p99.9",
            "max",
            "gaps",
            "disk's",
            "machine's",
            "longest own",
            "beside rows/s",
            "CPU/op",
        ],
    );
    for run in runs {
        let time = |quantile| units::time(run.load.quantile_ns(quantile) as f64);
        table.row([
            run.setting.label(),
            run.setting.beside_label(),
            units::count(run.load.operations_per_second()),
            run.load.spread().map_or_else(String::new, |spread| {
                format!("{:.1}", spread.operations_per_second.half_width_percent())
            }),
            time(0.5),
            time(0.99),
            time(0.999),
            units::time(run.load.latency_ns.max() as f64),
            run.gaps.above_10_ms.to_string(),
            part_of(run.gaps.disk, run.gaps),
            part_of(run.gaps.machine, run.gaps),
            match run.gaps.own() {
                0 => String::new(),
                _ => units::time(run.gaps.longest_own_ns as f64),
            },
            match run.background.is_empty() {
                true => String::new(),
                false => units::count(run.background_rows_per_second()),
            },
            units::time(run.cpu.ns_per_operation),
        ]);
    }
    table.without_empty_columns()
}

fn device_table(runs: &[&StoreRun]) -> Table {
    let mut table = Table::new(
        2,
        [
            "store",
            "beside",
            "read",
            "written",
            "data idle",
            "data p50",
            "data p90",
            "log idle",
            "log p90",
            "ahead",
            "unused",
            "checkpoints",
            "asked",
            "CPU ms/MB",
        ],
    );
    for run in runs {
        let (data, log) = (&run.outstanding.data, &run.outstanding.log);
        let moved = run.read_bytes_per_second() + run.written_bytes_per_second();
        let cpu_ns_per_second =
            run.cpu_time.total_ns() as f64 * 1e9 / run.load.duration_ns.max(1) as f64;
        table.row([
            run.setting.label(),
            run.setting.beside_label(),
            units::bytes_per_second(run.read_bytes_per_second()),
            units::bytes_per_second(run.written_bytes_per_second()),
            percent(data.idle_share),
            data.p50_requests.to_string(),
            data.p90_requests.to_string(),
            percent(log.idle_share),
            log.p90_requests.to_string(),
            percent_of(run.counts.pages_read_ahead, run.counts.pages_read),
            percent_of(
                run.counts.pages_read_ahead_unused,
                run.counts.pages_read_ahead,
            ),
            run.counts.checkpoints.to_string(),
            match run.setting.beside.contains(&Beside::Checkpoint) {
                true => run.counts.checkpoints_asked.to_string(),
                false => String::new(),
            },
            // 1 MB is a million bytes, 1 ms a million nanoseconds.
            units::figure(cpu_ns_per_second / moved.max(1.0)),
        ]);
    }
    table.without_empty_columns()
}

/// What the store reads, held against what the device reads without one. `None` where
/// nothing was held against it.
fn limit_table(runs: &[&StoreRun]) -> Option<Table> {
    let held = |run: &&StoreRun| run.of_device.is_some();
    if !runs.iter().any(held) {
        return None;
    }
    let mut table = Table::new(
        1,
        [
            "of what the device reads",
            "into little memory",
            "(spread)",
            "into a pool",
            "(spread)",
            "into little, at its knee",
        ],
    );
    let spread_of = |shares: &[f64]| {
        let spread = OfDevice::spread(shares);
        spread.map_or_else(String::new, |(least, greatest)| {
            format!("{} to {}", percent(least), percent(greatest))
        })
    };
    for run in runs {
        let Some(of) = &run.of_device else { continue };
        table.row([
            label_in_full(run),
            percent(of.share),
            spread_of(&of.shares),
            percent(of.share_into_pool),
            spread_of(&of.shares_into_pool),
            of.share_of_knee.map_or_else(String::new, percent),
        ]);
    }
    Some(table.without_empty_columns())
}

fn ledger_table(runs: &[&StoreRun]) -> Table {
    let mut table = Table::new(
        3,
        [
            "store",
            "role",
            "level",
            "requests/s",
            "read",
            "written",
            "queued mean",
            "queued p99",
            "device mean",
            "device p99",
        ],
    );
    for run in runs {
        let per_second = |amount: u64| amount as f64 * 1e9 / run.load.duration_ns.max(1) as f64;
        let bytes = |amount: u64| match amount {
            0 => String::new(),
            _ => units::bytes_per_second(per_second(amount)),
        };
        for (number, row) in run.ledger.iter().enumerate() {
            let LedgerRow { role, level, .. } = row;
            table.row([
                match number {
                    0 => label_in_full(run),
                    _ => String::new(),
                },
                (*role).to_owned(),
                level.clone(),
                units::count(per_second(row.requests)),
                bytes(row.read_bytes),
                bytes(row.written_bytes),
                units::time(row.queued_mean_ns),
                units::time(row.queued_p99_ns as f64),
                units::time(row.device_mean_ns),
                units::time(row.device_p99_ns as f64),
            ]);
        }
    }
    table
}

fn label_in_full(run: &StoreRun) -> String {
    let beside = run.setting.beside_label();
    match beside.as_str() {
        "" => run.setting.label(),
        _ => format!("{}, beside {beside}", run.setting.label()),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", units::figure(share * 100.0))
}

fn percent_of(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ => percent(part as f64 / whole as f64),
    }
}

fn facts(outcome: &StoreBenchOutcome) -> Vec<String> {
    let table = &outcome.table;
    let mut facts = vec![format!(
        "The table: {} rows in {}, inserted in {} order in {}.",
        table.rows,
        units::binary_size(table.size_bytes),
        name(table.order),
        units::time(table.load_ns as f64)
    )];
    if let Some(limit) = &outcome.limit {
        let (knee, full) = (&limit.random.knee, &limit.random.full);
        facts.push(format!(
            "The device reads {} pages of 16 KiB per second from random places of the table's file with {} at once, \
             which fill it ({}), {} with {} at once, its knee; and {} in 1 MiB requests in order.",
            units::count(full.operations_per_second),
            full.depth,
            units::bytes_per_second(limit.random_bytes_per_second),
            units::count(knee.operations_per_second),
            knee.depth,
            units::bytes_per_second(limit.sequential_bytes_per_second),
        ));
    }
    if outcome.runs.iter().any(|run| run.gaps.cpu_quota) {
        facts.push(
            "A quota of the processors' time, its hypervisor's, stops this machine: its stops end \
             whole tenths of a second apart. They are in these figures. With less at work there may be none: try \
             one processor (taskset --cpu-list 0 iolane ...)."
                .to_owned(),
        );
    }
    facts.push(
        "Gaps: times of more than 10 ms in which no operation ended. The disk's and the machine's would be shorter but \
         for times in which the disk, with requests in flight, completed none, or the machine ran no thread. Idle: \
         share of the time with no request outstanding on tablespaces or on the log. Ahead: pages read before they were asked for, of all read; \
         unused: of these, pages that left memory unread. Of what the \
         device reads: without a store, right before and after, in the same way, single pages with as many at once as \
         fill it, or as its knee has; again and again into what is outstanding, which stays near the processor, or in \
         turn into as much memory as the pool has; medians of the repetitions."
            .to_owned(),
    );
    facts
}

fn seconds(value: f64) -> String {
    format!("{value} s")
}

/// 99th percentile of each slice, for any runs under any names.
pub fn latency_over_time(p99: &str, runs: &[(String, &StoreRun)]) -> Markup {
    let series = runs.iter().map(|(name, run)| {
        let slices = run.timeline.iter().filter(|slice| slice.operations > 0);
        let points = slices.map(|slice| (slice.end_ns as f64 / 1e9, slice.p99_ns as f64));
        Series::new(name.clone(), points.collect())
    });
    LineChart {
        x: Axis::linear("time", seconds),
        y: Axis::log10(p99, units::time),
        series: series.collect(),
        mark_x: None,
    }
    .svg()
}

/// Mean of requests outstanding on tablespaces in each slice.
pub fn outstanding_over_time(runs: &[(String, &StoreRun)]) -> Markup {
    let series = runs.iter().map(|(name, run)| {
        let slices = run.timeline.iter();
        let points = slices.map(|slice| (slice.end_ns as f64 / 1e9, slice.data.mean_requests));
        Series::new(name.clone(), points.collect())
    });
    LineChart {
        x: Axis::linear("time", seconds),
        y: Axis::linear("requests outstanding", units::figure),
        series: series.collect(),
        mark_x: None,
    }
    .svg()
}

fn outstanding_distribution(runs: &[(String, &StoreRun)]) -> Markup {
    let series = runs.iter().map(|(name, run)| {
        let mut sum = 0.0;
        let distribution = &run.outstanding.data.distribution;
        let points = distribution.iter().map(|(count, share)| {
            sum += share;
            (*count as f64, sum * 100.0)
        });
        Series::new(name.clone(), points.collect())
    });
    LineChart {
        x: Axis::linear("requests outstanding", units::figure),
        y: Axis::linear("share of the time", |value| format!("{value} %")),
        series: series.collect(),
        mark_x: None,
    }
    .svg()
}
