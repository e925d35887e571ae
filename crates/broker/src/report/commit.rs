//! What a commit waited for, in one sentence.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::text::time;
use super::{Writer, level, operation};
use crate::commits::is_commit;

/// Requests for which commits wait: writes and syncs of level `critical`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommitReport {
    /// How many.
    pub requests: u64,
    /// From asking to leave, on average.
    pub queued_mean_ns: f64,
    /// From leave to the end, on average.
    pub device_mean_ns: f64,
    /// Both: 99 of 100 take at most this.
    pub p99_ns: u64,
    /// What else the disk had when one ended, the most first.
    pub beside: Vec<BesideReport>,
    /// All of it for people.
    pub sentence: String,
}

/// Requests of one kind that were with the disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BesideReport {
    /// The rule's name, or `other`.
    pub role: String,
    /// `read`, `write` or `sync`.
    pub operation: &'static str,
    /// As they went.
    pub level: &'static str,
    /// How many, on average.
    pub in_flight: f64,
}

impl Writer<'_> {
    pub(super) fn commit(&self, disk: usize) -> Option<CommitReport> {
        let commit = self.commits.of(disk)?;
        let of_each = 1.0 / commit.requests.max(1) as f64;
        let mut beside: Vec<BesideReport> = commit
            .beside
            .iter()
            .map(|(key, &count)| BesideReport {
                role: self.role_name(key.rule),
                operation: operation(key.kind),
                level: level(key.level),
                in_flight: count as f64 * of_each,
            })
            .collect();
        beside.sort_by(|one, other| other.in_flight.total_cmp(&one.in_flight));
        let mut report = CommitReport {
            requests: commit.requests,
            queued_mean_ns: commit.queued_ns as f64 * of_each,
            device_mean_ns: commit.device_ns as f64 * of_each,
            p99_ns: self.commit_p99_ns(disk),
            beside,
            sentence: String::new(),
        };
        report.sentence = sentence(&report);
        Some(report)
    }

    fn commit_p99_ns(&self, disk: usize) -> u64 {
        let counts = self.statistics.counts.iter();
        let mut of_log = counts
            .filter(|(key, _)| key.disk == disk && is_commit(key))
            .map(|(_, counts)| &counts.total);
        let Some(first) = of_log.next() else {
            return 0;
        };
        let mut all: Histogram<u64> = first.clone();
        for other in of_log {
            all.add(other).expect("all have the same bounds");
        }
        all.value_at_quantile(0.99)
    }
}

fn sentence(report: &CommitReport) -> String {
    let mean_ns = report.queued_mean_ns + report.device_mean_ns;
    let mut text = format!(
        "A write or sync that a commit waits for took {} on average (p99 {}): {} for leave and {} with the disk",
        time(mean_ns),
        time(report.p99_ns as f64),
        time(report.queued_mean_ns),
        time(report.device_mean_ns),
    );
    let sum: f64 = report.beside.iter().map(|one| one.in_flight).sum();
    match report.beside.first() {
        None => text.push_str(", which had nothing else."),
        Some(most) => text.push_str(&format!(
            ", which had {sum:.2} other requests at its end, {:.0} % of them {} ({}, {}).",
            most.in_flight / sum * 100.0,
            most.role,
            most.operation,
            most.level,
        )),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_how_long_and_beside_what() {
        let mut report = CommitReport {
            requests: 9,
            queued_mean_ns: 100_000.0,
            device_mean_ns: 1_800_000.0,
            p99_ns: 4_200_000,
            beside: Vec::new(),
            sentence: String::new(),
        };
        let begin = "A write or sync that a commit waits for took 1.90 ms on average \
                     (p99 4.20 ms): 100 us for leave and 1.80 ms with the disk, which had ";
        assert_eq!(sentence(&report), format!("{begin}nothing else."));
        for (role, in_flight) in [("page writes", 1.5), ("scan", 0.5)] {
            report.beside.push(BesideReport {
                role: role.to_owned(),
                operation: "write",
                level: "prefetch",
                in_flight,
            });
        }
        let rest = "2.00 other requests at its end, 75 % of them page writes (write, prefetch).";
        assert_eq!(sentence(&report), format!("{begin}{rest}"));
    }
}
