//! What became of requests, for people and for programs.

mod commit;
mod spans;
mod text;

use hdrhistogram::Histogram;
use iolane_protocol::{Call, Header, UNRULED};
use iolane_sched::{Level, RateScope, RateUnit};
use serde::Serialize;

use crate::commits::Commits;
use crate::course::Sample;
use crate::disks::Disk;
use crate::door::Door;
use crate::spans::Spans;
use crate::statistics::{Counts, Key, Statistics};

pub use commit::{BesideReport, CommitReport};
pub use spans::SpanReport;

/// The whole of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Since the start of the run.
    pub elapsed_ns: u64,
    /// Disks that had requests.
    pub disks: Vec<DiskReport>,
    /// Processes that came.
    pub processes: usize,
    /// Processes that were not scheduled because too many were there.
    pub processes_turned_away: usize,
    /// Requests that went before their turn, as too many of their level waited.
    pub unaccounted: u64,
    /// Requests that went unscheduled because no leave came in time: the broker had not moved for a
    /// second, or they could not be held back.
    pub left: u64,
    /// How often processes found the broker stopped.
    pub stops: u64,
    /// Requests that had not come back for so long that others went in their places.
    pub overdue: u64,
    /// Places that came back from processes that ended with a request under way.
    pub reclaimed: u64,
    /// Requests that went unscheduled because their process had too many.
    pub without_cell: u64,
    /// Pages that were read ahead in the order of an index.
    pub read_ahead: ReadAheadReport,
    /// Requests on io_uring's rings.
    pub io_uring: RingsReport,
    /// Calls by name, if they were counted.
    pub calls: Vec<CallCount>,
}

/// Pages of InnoDB that were read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadAheadReport {
    /// Asked for.
    pub pages: u64,
    /// Taken by a read of the program.
    pub used: u64,
    /// Passed over by a scan, or not what they were taken for.
    pub passed: u64,
}

/// Reads, writes and syncs of files on disks, by io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RingsReport {
    /// Those that were scheduled.
    pub followed: u64,
    /// Those that could not be followed, or need not.
    pub passed: u64,
}

/// How often a call was caught.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallCount {
    /// Its manual page.
    pub call: &'static str,
    /// All of them.
    pub count: u64,
    /// Those that asked for leave.
    pub scheduled: u64,
}

/// Of one disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskReport {
    /// Such as `vda`.
    pub disk: String,
    /// Transfers that lower levels may have in flight, as last learned.
    pub window_transfers: f64,
    /// The volume's budget in a second, if one was recognised.
    pub rate_limit: Option<f64>,
    /// Whether that is of bytes, not of requests.
    pub rate_limit_is_bytes: bool,
    /// Whether it is one of reads, with as much of writes.
    pub rate_limit_is_each: bool,
    /// What each role did.
    pub roles: Vec<RoleReport>,
    /// What a commit waited for, if there was one.
    pub commit: Option<CommitReport>,
    /// Whose reads sank below their rule's level, and until when.
    pub sunk: Vec<SpanReport>,
    /// Those with fewer requests that are left out.
    pub sunk_left_out: u64,
    /// Whose requests were promoted, and until when.
    pub promoted: Vec<SpanReport>,
    /// Those with fewer requests that are left out.
    pub promoted_left_out: u64,
    /// The whole run in parts.
    pub samples: Vec<Sample>,
}

/// Of one role, operation and level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleReport {
    /// The rule's name, or `other`.
    pub role: String,
    /// `read`, `write` or `sync`.
    pub operation: &'static str,
    /// As it went.
    pub level: &'static str,
    /// How many.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those whose level was lower than the rule's, as their thread had read much.
    pub sunk: u64,
    /// Those that came with a lower level, for which somebody of this one then waited.
    pub promoted: u64,
    /// From asking to leave.
    pub queued: LevelReport,
    /// From leave to the end.
    pub device: LevelReport,
    /// Both.
    pub total: LevelReport,
}

/// A distribution in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelReport {
    /// Mean.
    pub mean_ns: f64,
    /// Half take at most this.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1000.
    pub p99_9_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl LevelReport {
    fn of(histogram: &Histogram<u64>) -> LevelReport {
        LevelReport {
            mean_ns: histogram.mean(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p99_9_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

/// What a report is made from.
pub(crate) struct Writer<'a> {
    /// Since the start of the run.
    pub at_ns: u64,
    pub commits: &'a Commits,
    pub sunk: &'a Spans,
    pub promoted: &'a Spans,
    pub statistics: &'a Statistics,
    pub roles: &'a [String],
    pub disks: &'a [Disk],
    pub header: &'a Header,
    pub door: &'a Door,
}

impl Writer<'_> {
    pub fn report(&self) -> Report {
        let (processes, processes_turned_away) = self.door.counts();
        let (pages, used, passed) = self.header.read_ahead.counts();
        let (rings_followed, rings_passed) = self.header.rings.counts();
        Report {
            elapsed_ns: self.at_ns,
            disks: (0..self.disks.len())
                .map(|disk| self.disk(disk))
                .filter(|disk| !disk.roles.is_empty())
                .collect(),
            processes,
            processes_turned_away,
            unaccounted: self.statistics.unaccounted,
            left: self.statistics.left,
            stops: self.statistics.stops,
            overdue: self.statistics.overdue,
            reclaimed: self.statistics.reclaimed,
            without_cell: self.header.no_cell(),
            read_ahead: ReadAheadReport {
                pages,
                used,
                passed,
            },
            io_uring: RingsReport {
                followed: rings_followed,
                passed: rings_passed,
            },
            calls: Call::ALL
                .iter()
                .filter_map(|call| self.call(*call))
                .collect(),
        }
    }

    fn call(&self, call: Call) -> Option<CallCount> {
        let (count, scheduled) = self.header.calls(call as usize);
        (count > 0).then_some(CallCount {
            call: call.name(),
            count,
            scheduled,
        })
    }

    fn disk(&self, disk: usize) -> DiskReport {
        let window = self.disks[disk].window();
        let counts = self.statistics.counts.iter();
        DiskReport {
            disk: self.disks[disk].name.clone(),
            window_transfers: window.transfers,
            rate_limit: window.rate_limit.as_ref().map(|limit| limit.per_second),
            rate_limit_is_bytes: window
                .rate_limit
                .is_some_and(|limit| limit.unit == RateUnit::Bytes),
            rate_limit_is_each: window
                .rate_limit
                .is_some_and(|limit| limit.scope == RateScope::Each),
            roles: counts
                .filter(|(key, _)| key.disk == disk)
                .map(|(key, counts)| self.role(key, counts))
                .collect(),
            commit: self.commit(disk),
            sunk: self.spans(self.sunk, disk),
            sunk_left_out: self.sunk.left_out(disk),
            promoted: self.spans(self.promoted, disk),
            promoted_left_out: self.promoted.left_out(disk),
            samples: self.disks[disk].samples(self.at_ns),
        }
    }

    /// What the rule calls its requests.
    fn role_name(&self, rule: u8) -> String {
        let named = (rule != UNRULED).then(|| self.roles.get(usize::from(rule)));
        named
            .flatten()
            .map_or_else(|| "other".to_owned(), String::clone)
    }

    fn role(&self, key: &Key, counts: &Counts) -> RoleReport {
        RoleReport {
            role: self.role_name(key.rule),
            operation: operation(key.kind),
            level: level(key.level),
            requests: counts.requests,
            bytes: counts.bytes,
            failed: counts.failed,
            sunk: counts.sunk,
            promoted: counts.promoted,
            queued: LevelReport::of(&counts.queued),
            device: LevelReport::of(&counts.device),
            total: LevelReport::of(&counts.total),
        }
    }
}

fn operation(kind: u8) -> &'static str {
    ["read", "write", "sync"][usize::from(kind.min(2))]
}

fn level(level: u8) -> &'static str {
    Level::from_index(usize::from(level)).map_or("none", Level::name)
}
