//! The report as a page: figures, and how the run went over time.

use iolane_broker::{DiskReport, Report, RoleReport, Sample, SpanReport};
use iolane_sched::Level;

use super::kernel::KernelReport;
use crate::environment::Environment;
use crate::output::chart::{Axis, LineChart, Series};
use crate::output::html::{self, Section};
use crate::output::text::Table;
use crate::output::units;

/// With fewer samples there is no course to see.
const SAMPLES_MIN: usize = 3;

/// The whole page.
pub fn page(report: &Report, environment: &Environment) -> String {
    let mut sections: Vec<Section> = report.disks.iter().map(of_disk).collect();
    sections.push(processes(report));
    let warnings = report.unscheduled().into_iter().map(|what| what + ".");
    let warnings: Vec<String> = warnings.collect();
    html::page("iolane run", environment, &warnings, &sections)
}

/// The same for mode `kernel`.
pub fn kernel_page(report: &KernelReport, environment: &Environment) -> String {
    let mut disks = Table::new(3, ["disk", "scheduler", "before and after", "it honours"]);
    for disk in &report.disks {
        let name = |scheduler: &Option<String>| scheduler.clone().unwrap_or_default();
        let (before, now) = (name(&disk.scheduler_before), name(&disk.scheduler));
        disks.row([disk.disk.clone(), now, before, disk.honours.to_owned()]);
    }
    let mut roles = Table::new(2, ["role", "level", "threads"]);
    for role in &report.roles {
        let threads = role.threads.to_string();
        roles.row([role.role.clone(), role.level.to_owned(), threads]);
    }
    let sections = [
        Section::new("Disks").table(disks),
        Section::new("Threads with a priority").table(roles),
    ];
    let refused = format!(
        "{} threads could not be given their priority.",
        report.refused
    );
    let warnings: Vec<String> = (report.refused > 0)
        .then_some(refused)
        .into_iter()
        .collect();
    html::page(
        "iolane run --mode kernel",
        environment,
        &warnings,
        &sections,
    )
}

fn of_disk(disk: &DiskReport) -> Section {
    let mut section = Section::new(format!("Disk {}", disk.disk));
    if let Some(commit) = &disk.commit {
        section = section.text([commit.sentence.as_str()]);
    }
    section = section.table(roles(&disk.roles));
    if disk.samples.len() >= SAMPLES_MIN {
        section = over_time(section, &disk.samples);
    }
    let kinds = [
        ("What sank", "sank", &disk.sunk, disk.sunk_left_out),
        (
            "What was promoted",
            "were promoted",
            &disk.promoted,
            disk.promoted_left_out,
        ),
    ];
    for (heading, what, all, left_out) in kinds {
        if !all.is_empty() {
            section = section
                .heading(&format!("{heading}, and when"))
                .table(spans(all));
        }
        if left_out > 0 {
            section = section.text([format!("{left_out} with fewer requests {what}, too.")]);
        }
    }
    section
}

fn roles(roles: &[RoleReport]) -> Table {
    let header = [
        "role",
        "operation",
        "level",
        "requests",
        "data",
        "failed",
        "sunk",
        "promoted",
        "for leave",
        "with the disk",
        "p50",
        "p99",
        "p99.9",
        "max",
    ];
    let mut table = Table::new(3, header);
    for role in roles {
        let some = |count: u64| {
            if count > 0 {
                count.to_string()
            } else {
                String::new()
            }
        };
        table.row([
            role.role.clone(),
            role.operation.to_owned(),
            role.level.to_owned(),
            role.requests.to_string(),
            format!("{} MB", units::figure(role.bytes as f64 / 1e6)),
            some(role.failed),
            some(role.sunk),
            some(role.promoted),
            units::time(role.queued.mean_ns),
            units::time(role.device.mean_ns),
            units::time(role.total.p50_ns as f64),
            units::time(role.total.p99_ns as f64),
            units::time(role.total.p99_9_ns as f64),
            units::time(role.total.max_ns as f64),
        ]);
    }
    table.without_empty_columns()
}

fn over_time(section: Section, samples: &[Sample]) -> Section {
    let points = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<(f64, f64)> {
        let middles = samples.iter().map(|sample| {
            let middle_ns = sample.from_ns as f64 + sample.length_ns as f64 / 2.0;
            (middle_ns / 1e9, value(sample))
        });
        middles
            .filter_map(|(at, value)| Some((at, value?)))
            .collect()
    };
    let by_level = |value: &dyn Fn(&Sample, usize) -> Option<f64>| -> Vec<Series> {
        let series = Level::ALL.into_iter().map(|level| {
            let at = level.index();
            let is_used = samples.iter().any(|sample| sample.requests[at] > 0);
            is_used.then(|| Series::new(level.name(), points(&|sample| value(sample, at))))
        });
        series.flatten().collect()
    };
    let per_second = |sample: &Sample, count: u64| count as f64 / (sample.length_ns as f64 / 1e9);
    let mut rates = by_level(&|sample, level| Some(per_second(sample, sample.requests[level])));
    let latencies = by_level(&|sample, level| {
        let count = sample.requests[level];
        (count > 0).then(|| sample.total_ns[level] as f64 / count as f64)
    });
    let window = Series::new("window", points(&|sample| Some(sample.window_transfers)));
    let requests_limit =
        points(&|sample| sample.rate_limit.filter(|_| !sample.rate_limit_is_bytes));
    let bytes_limit = points(&|sample| sample.rate_limit.filter(|_| sample.rate_limit_is_bytes));
    if !requests_limit.is_empty() {
        rates.push(Series::new("the volume's limit", requests_limit));
    }
    let mut section = section
        .heading("Requests a second")
        .chart(chart(Axis::linear("requests/s", units::count), rates))
        .heading("Mean latency, with the wait for leave")
        .chart(chart(Axis::log10("latency", units::time), latencies))
        .heading("Learned window: transfers that lower levels may have in flight")
        .chart(chart(Axis::linear("transfers", units::count), vec![window]));
    type Count = fn(&Sample) -> u64;
    let kinds: [(&str, Count); 2] = [
        ("sunk", |sample| sample.sunk),
        ("promoted", |sample| sample.promoted),
    ];
    let used = kinds
        .into_iter()
        .filter(|(_, count)| samples.iter().any(|sample| count(sample) > 0));
    let changed: Vec<Series> = used
        .map(|(name, count)| {
            Series::new(
                name,
                points(&|sample| Some(per_second(sample, count(sample)))),
            )
        })
        .collect();
    if !changed.is_empty() {
        section = section
            .heading("Requests a second that sank or were promoted")
            .chart(chart(Axis::linear("requests/s", units::count), changed));
    }
    if !bytes_limit.is_empty() {
        let limit = Series::new("the volume's limit", bytes_limit);
        let axis = Axis::linear("bytes/s", units::bytes_per_second);
        section = section
            .heading("Recognised limit")
            .chart(chart(axis, vec![limit]));
    }
    section
}

fn spans(spans: &[SpanReport]) -> Table {
    let header = ["role", "level", "process", "from", "to", "requests", "data"];
    let mut table = Table::new(2, header);
    for span in spans {
        table.row([
            span.role.clone(),
            span.level.to_owned(),
            span.process.to_string(),
            format!("{:.1} s", span.from_ns as f64 / 1e9),
            format!("{:.1} s", span.to_ns as f64 / 1e9),
            span.requests.to_string(),
            format!("{} MB", units::figure(span.bytes as f64 / 1e6)),
        ]);
    }
    table
}

fn processes(report: &Report) -> Section {
    let mut sentences = vec![format!(
        "{} processes in {:.1} s.",
        report.processes,
        report.elapsed_ns as f64 / 1e9
    )];
    if report.disks.is_empty() {
        sentences.push("No request was scheduled.".to_owned());
    }
    if report.read_ahead.pages > 0 {
        sentences.push(format!("{}.", report.read_ahead));
    }
    if report.reclaimed > 0 {
        sentences.push(format!(
            "{} places came back from processes that had ended.",
            report.reclaimed
        ));
    }
    Section::new("Processes").text(sentences)
}

fn chart(y: Axis<'_>, series: Vec<Series>) -> maud::Markup {
    LineChart {
        x: Axis::linear("time since the start (s)", units::figure),
        y,
        series,
        mark_x: None,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemPaths;
    use iolane_broker::ReadAheadReport;

    #[test]
    fn whose_requests_were_promoted_is_on_the_page() {
        let paths = SystemPaths::default();
        let environment = Environment::read(&paths, None, "iolane run true".to_owned());
        let disk = DiskReport {
            disk: "sda".to_owned(),
            window_transfers: 1.0,
            rate_limit: None,
            rate_limit_is_bytes: false,
            rate_limit_is_each: false,
            roles: Vec::new(),
            commit: None,
            sunk: Vec::new(),
            sunk_left_out: 0,
            promoted: vec![SpanReport {
                role: "page writes".to_owned(),
                process: 4711,
                level: "foreground",
                from_ns: 1_500_000_000,
                to_ns: 2_500_000_000,
                requests: 17,
                bytes: 17 << 14,
            }],
            promoted_left_out: 3,
            samples: Vec::new(),
        };
        let report = Report {
            disks: vec![disk],
            ..Report::default()
        };
        let text = page(&report, &environment);
        for part in [
            "What was promoted, and when",
            "page writes",
            "4711",
            "1.5 s",
            "2.5 s",
            "3 with fewer requests were promoted, too.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("What sank"), "{text}");
    }

    #[test]
    fn what_was_read_ahead_and_what_was_not_scheduled_is_on_the_page() {
        let paths = SystemPaths::default();
        let environment = Environment::read(&paths, None, "iolane run true".to_owned());
        let empty = page(&Report::default(), &environment);
        assert!(empty.contains("No request was scheduled."), "{empty}");
        assert!(!empty.contains("Warning"), "{empty}");
        let report = Report {
            left: 3,
            stops: 2,
            read_ahead: ReadAheadReport {
                pages: 12,
                used: 10,
                passed: 2,
            },
            ..Report::default()
        };
        let text = page(&report, &environment);
        for sentence in [
            "12 pages read ahead: 10 used, 2 passed over.",
            "3 requests went unscheduled, as no leave came in time.",
            "2 times the broker was found not to have moved for a second.",
        ] {
            assert!(text.contains(sentence), "{text}");
        }
    }
}
