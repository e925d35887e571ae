//! Processes that keep places for longer than the disk needs: others go in them.

mod common;

use std::time::{Duration, Instant};

use common::{a_disk, wait_until};
use iolane_broker::{Broker, Report, Rules};
use iolane_protocol::sys::clock;
use iolane_protocol::{Asked, Cell, CellState, DeviceState, KIND_READ, Memory, UNRULED, cell_of};

/// More than the window has room for.
const REQUESTS: usize = 200;
const BACKGROUND: u8 = 4;
/// What is over before nobody waits for requests any more that have not come back.
const AT_ONCE: Duration = Duration::from_secs(1);

struct Process {
    broker: Broker,
    memory: &'static Memory,
    client: usize,
}

/// One whose requests are with the disk. `None`: there is no disk.
fn busy_process() -> Option<Process> {
    let disk = a_disk()?;
    let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
    let (_, value) = broker.environment();
    let (memory, client, _) = common::come(&value, disk);
    if memory.devices[0].state() == DeviceState::Passed {
        return None;
    }
    let process = Process {
        broker,
        memory,
        client,
    };
    for index in 0..REQUESTS {
        let cell = process.claim(index);
        cell.set_started_ns(clock::now_ns());
        cell.set(CellState::Started);
        process.memory.post(cell_of(client, index), true);
    }
    Some(process)
}

impl Process {
    fn cell(&self, index: usize) -> &'static Cell {
        &self.memory.cells[cell_of(self.client, index)]
    }

    fn claim(&self, index: usize) -> &'static Cell {
        let cell = self.cell(index);
        assert!(cell.change(CellState::Free, CellState::Claimed));
        cell.fill(&Asked {
            device: 0,
            kind: KIND_READ,
            level: BACKGROUND,
            ruled_level: BACKGROUND,
            rule: UNRULED,
            durable: false,
            asynchronous: true,
            file: 1,
            length: 4096,
            offset: 4096 * index as u64,
            asked_ns: clock::now_ns(),
        });
        cell
    }

    fn end(&self, index: usize, state: CellState) {
        let cell = self.cell(index);
        if state == CellState::Landed {
            cell.set_end(clock::now_ns(), 4096);
        }
        cell.set(state);
        self.memory.post(cell_of(self.client, index), true);
    }

    /// Asks for one more; gives how long it waited for leave.
    fn wait_for_another(&self) -> Duration {
        let cell = self.claim(REQUESTS);
        assert!(cell.change(CellState::Claimed, CellState::Posted));
        self.memory.post(cell_of(self.client, REQUESTS), true);
        let begun = Instant::now();
        wait_until(|| cell.state() == Some(CellState::Granted));
        begun.elapsed()
    }

    /// After all have ended.
    fn report(self) -> Report {
        for index in 0..=REQUESTS {
            let cell = self.cell(index);
            if cell.state() != Some(CellState::Landed) {
                cell.set_end(clock::now_ns(), 4096);
            }
            self.end(index, CellState::Ended);
        }
        wait_until(|| {
            (0..=REQUESTS).all(|index| self.cell(index).state() == Some(CellState::Free))
        });
        let report = self.broker.finish().unwrap();
        let roles = report.disks.iter().flat_map(|disk| &disk.roles);
        let ended: u64 = roles.map(|role| role.requests).sum();
        assert_eq!(ended, REQUESTS as u64 + 1);
        report
    }
}

/// It is stopped, perhaps, and cannot say that they have ended.
#[test]
fn requests_that_do_not_come_back_hold_nobody_up_for_ever() {
    let Some(process) = busy_process() else {
        iolane_testing::skipped("no block device is known here");
        return;
    };
    assert!(process.wait_for_another() > AT_ONCE);
    assert_eq!(process.report().overdue, REQUESTS as u64);
}

/// It knows that they have ended, but its program has not asked for that.
#[test]
fn requests_that_have_landed_hold_nobody_up() {
    let Some(process) = busy_process() else {
        iolane_testing::skipped("no block device is known here");
        return;
    };
    for index in 0..REQUESTS {
        process.end(index, CellState::Landed);
    }
    assert!(process.wait_for_another() < AT_ONCE);
    assert_eq!(process.report().overdue, 0);
}

/// The process comes once more: it executes another program by now.
#[test]
fn what_a_process_had_before_it_executed_a_program_comes_back() {
    let Some(process) = busy_process() else {
        iolane_testing::skipped("no block device is known here");
        return;
    };
    let (_, value) = process.broker.environment();
    let (_, client, _) = common::come(&value, a_disk().unwrap());
    assert_ne!(client, process.client);
    wait_until(|| (0..REQUESTS).all(|index| process.cell(index).state() == Some(CellState::Free)));
    assert_eq!(process.broker.clients(), 1);
    let report = process.broker.finish().unwrap();
    assert_eq!(report.reclaimed, REQUESTS as u64);
}
