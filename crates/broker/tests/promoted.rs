//! Requests that wait for leave, and for which somebody more urgent then waits.

mod common;

use std::time::{Duration, Instant};

use common::{WAIT_MAX, a_disk, wait_until};
use iolane_broker::{Broker, Report, Rules};
use iolane_protocol::sys::clock;
use iolane_protocol::{Asked, Cell, CellState, DeviceState, KIND_READ, Memory, UNRULED, cell_of};

/// What is looked at does not change any more.
const SETTLED: Duration = Duration::from_millis(100);
/// More than a window lets go at first.
const REQUESTS: usize = 1000;
const BYTES: u32 = 4096;
const FOREGROUND: u8 = 1;
const PREFETCH: u8 = 3;
const BACKGROUND: u8 = 4;

/// A process with a thousand asynchronous reads, most of which wait.
struct Process {
    broker: Broker,
    memory: &'static Memory,
    client: usize,
}

/// `None`: there is no disk.
fn process() -> Option<Process> {
    let disk = a_disk()?;
    let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
    let (_, value) = broker.environment();
    let (memory, client, is_first) = common::come(&value, disk);
    assert!(is_first);
    let process = Process {
        broker,
        memory,
        client,
    };
    if memory.devices[0].state() == DeviceState::Passed {
        return None;
    }
    // A query is under way: the window keeps others back.
    process.start(REQUESTS, FOREGROUND, u64::from(BYTES) << 32);
    for index in 0..REQUESTS {
        let cell = process.fill(index, BACKGROUND, place(index));
        assert!(cell.change(CellState::Claimed, CellState::Posted));
        process.post(index);
    }
    std::thread::sleep(SETTLED);
    Some(process)
}

fn place(index: usize) -> u64 {
    index as u64 * u64::from(BYTES)
}

impl Process {
    fn cell(&self, index: usize) -> &'static Cell {
        &self.memory.cells[cell_of(self.client, index)]
    }

    fn post(&self, index: usize) {
        self.memory.post(cell_of(self.client, index), true);
    }

    fn fill(&self, index: usize, level: u8, offset: u64) -> &'static Cell {
        let cell = self.cell(index);
        assert!(cell.change(CellState::Free, CellState::Claimed));
        cell.fill(&Asked {
            device: 0,
            kind: KIND_READ,
            level,
            ruled_level: level,
            rule: UNRULED,
            durable: false,
            asynchronous: level == BACKGROUND,
            file: 1,
            length: BYTES,
            offset,
            asked_ns: clock::now_ns(),
        });
        cell
    }

    /// A request goes unasked.
    fn start(&self, index: usize, level: u8, offset: u64) {
        let cell = self.fill(index, level, offset);
        cell.set_started_ns(clock::now_ns());
        cell.set(CellState::Started);
        self.post(index);
    }

    fn waits(&self, index: usize) -> bool {
        self.cell(index).state() == Some(CellState::Posted)
    }

    /// The last that waits, if any does.
    fn last(&self) -> usize {
        let last = (0..REQUESTS).rev().find(|&index| self.waits(index));
        last.expect("all went at once")
    }

    /// Ends what has leave until nothing waits any more. Gives the report.
    fn finish(self) -> Report {
        let start = Instant::now();
        while (0..=REQUESTS + 1).any(|index| self.cell(index).state() != Some(CellState::Free)) {
            assert!(start.elapsed() < WAIT_MAX, "it does not end");
            for index in 0..=REQUESTS + 1 {
                let cell = self.cell(index);
                if matches!(cell.state(), Some(CellState::Granted | CellState::Started)) {
                    cell.set_end(clock::now_ns(), i64::from(BYTES));
                    cell.set(CellState::Ended);
                    self.post(index);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.broker.finish().unwrap()
    }
}

/// Of the roles of a level, how many requests were promoted.
fn promoted(report: &Report, level: &str) -> u64 {
    let roles = report.disks.iter().flat_map(|disk| &disk.roles);
    let of_level = roles.filter(|role| role.level == level);
    of_level.map(|role| role.promoted).sum()
}

/// The one request goes ahead of all that came before it, and the report says so.
#[test]
fn a_request_that_is_waited_for_goes_first() {
    let Some(process) = process() else {
        return iolane_testing::skipped("no block device is known here");
    };
    let last = process.last();
    assert!(process.cell(last).want(FOREGROUND));
    process.post(last);
    wait_until(|| !process.waits(last));
    assert!(process.waits(process.last()), "others wait");
    let report = process.finish();
    assert_eq!(promoted(&report, "foreground"), 1);
    assert_eq!(promoted(&report, "background"), 0);
    let [disk] = &report.disks[..] else {
        panic!("{report}");
    };
    let [span] = &disk.promoted[..] else {
        panic!("{report}");
    };
    assert_eq!((span.level, span.requests), ("foreground", 1));
    assert_eq!(span.process, std::process::id());
    assert!(span.from_ns == span.to_ns && span.to_ns <= report.elapsed_ns);
    let over_time: u64 = disk.samples.iter().map(|sample| sample.promoted).sum();
    assert_eq!(over_time, 1);
    let sentence = format!(
        "other of process {} was promoted to foreground from ",
        span.process
    );
    assert!(report.to_string().contains(&sentence), "{report}");
}

/// Nobody becomes less urgent, and telling it twice makes no difference.
#[test]
fn a_request_only_rises() {
    let Some(process) = process() else {
        return iolane_testing::skipped("no block device is known here");
    };
    let last = process.last();
    assert!(!process.cell(last).want(BACKGROUND));
    assert!(process.cell(last).want(PREFETCH));
    assert!(!process.cell(last).want(PREFETCH));
    process.post(last);
    process.post(last);
    let report = process.finish();
    assert_eq!(promoted(&report, "prefetch"), 1);
    assert_eq!(promoted(&report, "foreground"), 0);
}

/// A query reads a page for which a prefetch waits.
#[test]
fn a_prefetch_of_a_page_that_a_query_reads_goes_first() {
    let Some(process) = process() else {
        return iolane_testing::skipped("no block device is known here");
    };
    let last = process.last();
    process.start(REQUESTS + 1, FOREGROUND, place(last) + 100);
    wait_until(|| !process.waits(last));
    let report = process.finish();
    // Its end lies in the next page.
    assert!((1..=2).contains(&promoted(&report, "foreground")));
}

/// The same after a scan has waited for it.
#[test]
fn a_prefetch_that_a_scan_waits_for_rises_once_more() {
    /// More than the window lets go of its level.
    const WANTED: usize = 200;
    let Some(process) = process() else {
        return iolane_testing::skipped("no block device is known here");
    };
    let last = process.last();
    for index in last - WANTED..=last {
        if process.cell(index).want(PREFETCH) {
            process.post(index);
        }
    }
    std::thread::sleep(SETTLED);
    let last = process.last();
    process.start(REQUESTS + 1, FOREGROUND, place(last));
    wait_until(|| !process.waits(last));
    assert_eq!(promoted(&process.finish(), "foreground"), 1);
}
