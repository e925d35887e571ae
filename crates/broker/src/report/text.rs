//! A report for people.

use std::fmt::{self, Display, Formatter, Write};

use super::{DiskReport, LevelReport, ReadAheadReport, Report, RoleReport, SpanReport};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.disks.is_empty() {
            writeln!(f, "no request was scheduled")?;
        }
        for disk in &self.disks {
            f.write_str(&of_disk(disk)?)?;
        }
        if self.read_ahead.pages > 0 {
            writeln!(f, "{}", self.read_ahead)?;
        }
        if self.reclaimed > 0 {
            let count = self.reclaimed;
            writeln!(f, "{count} places came back from processes that had ended")?;
        }
        for what in self.unscheduled() {
            writeln!(f, "{what}")?;
        }
        Ok(())
    }
}

impl Report {
    /// How many requests and processes were not scheduled, and why; empty where all were.
    pub fn unscheduled(&self) -> Vec<String> {
        let counts = [
            (
                self.unaccounted,
                "requests went before their turn, as 4096 of their level waited already",
            ),
            (
                self.left,
                "requests went unscheduled, as no leave came in time",
            ),
            (
                self.overdue,
                "requests had not come back after 2 s, and others went in their places",
            ),
            (
                self.stops,
                "times the broker was found not to have moved for a second",
            ),
            (
                self.without_cell,
                "requests went unscheduled, as their process had too many",
            ),
            (
                self.io_uring.passed,
                "io_uring requests went unscheduled (docs/run.md says which)",
            ),
            (
                self.processes_turned_away as u64,
                "processes were not scheduled: 1024 are at a time, and as many as the limit of open files (ulimit -n) allows",
            ),
        ];
        let some = counts.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

impl Display for ReadAheadReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ReadAheadReport {
            pages,
            used,
            passed,
        } = self;
        write!(
            f,
            "{pages} pages read ahead: {used} used, {passed} passed over"
        )
    }
}

fn of_disk(disk: &DiskReport) -> Result<String, fmt::Error> {
    let mut text = String::new();
    write!(text, "{}: window {:.0}", disk.disk, disk.window_transfers)?;
    match (disk.rate_limit, disk.rate_limit_is_bytes) {
        (None, _) => {}
        (Some(rate), false) => write!(text, ", volume of {rate:.0} requests/s")?,
        (Some(rate), true) => write!(text, ", volume of {:.0} MB/s", rate / 1e6)?,
    }
    if disk.rate_limit_is_each {
        write!(text, " of reads, and as much of writes")?;
    }
    writeln!(text)?;
    writeln!(
        text,
        "  {:<18} {:<5} {:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8}",
        "role",
        "",
        "level",
        "requests",
        "MB",
        "queued",
        "device",
        "p50",
        "p99",
        "p99.9",
        "sunk",
        "promoted"
    )?;
    for role in &disk.roles {
        line(&mut text, role)?;
    }
    for sunk in &disk.sunk {
        writeln!(text, "  {}", of_span("sank", sunk))?;
    }
    if disk.sunk_left_out > 0 {
        writeln!(text, "  {} shorter ones sank, too", disk.sunk_left_out)?;
    }
    for promoted in &disk.promoted {
        writeln!(text, "  {}", of_span("was promoted", promoted))?;
    }
    if disk.promoted_left_out > 0 {
        let count = disk.promoted_left_out;
        writeln!(text, "  {count} with fewer requests were promoted, too")?;
    }
    if let Some(commit) = &disk.commit {
        writeln!(text, "  {}", commit.sentence)?;
    }
    Ok(text)
}

fn of_span(what: &str, span: &SpanReport) -> String {
    format!(
        "{} of process {} {what} to {} from {:.1} to {:.1} s: {} requests, {:.1} MB",
        span.role,
        span.process,
        span.level,
        span.from_ns as f64 / 1e9,
        span.to_ns as f64 / 1e9,
        span.requests,
        span.bytes as f64 / 1e6,
    )
}

fn line(text: &mut String, role: &RoleReport) -> fmt::Result {
    let LevelReport {
        p50_ns,
        p99_ns,
        p99_9_ns,
        ..
    } = role.total;
    writeln!(
        text,
        "  {:<18} {:<5} {:<10} {:>9} {:>9.1} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8}",
        role.role,
        role.operation,
        role.level,
        role.requests,
        role.bytes as f64 / 1e6,
        time(role.queued.mean_ns),
        time(role.device.mean_ns),
        time(p50_ns as f64),
        time(p99_ns as f64),
        time(p99_9_ns as f64),
        role.sunk,
        role.promoted,
    )
}

/// Three digits and a unit.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ..1e3 => (ns, "ns"),
        1e3..1e6 => (ns / 1e3, "us"),
        1e6..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value {
        0.0 => 0,
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        assert_eq!(time(0.0), "0 ns");
        assert_eq!(time(1_234_000.0), "1.23 ms");
        assert_eq!(time(45_600.0), "45.6 us");
        assert_eq!(time(2e9), "2.00 s");
    }

    #[test]
    fn a_stopped_broker_is_mentioned() {
        let report = Report {
            left: 3,
            stops: 2,
            ..Report::default()
        };
        let text = report.to_string();
        for line in [
            "3 requests went unscheduled, as no leave came in time\n",
            "2 times the broker was found not to have moved for a second\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn an_empty_report_says_so() {
        assert_eq!(Report::default().to_string(), "no request was scheduled\n");
    }
}
