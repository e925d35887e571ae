//! Processes that are killed with a request under way: whatever the step, their
//! places come back, and others are served.
//!
//! The process that is killed is this program again: it walks a request up to a step
//! and says so; then it waits for its end.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{WAIT_MAX, a_disk, wait_until};
use iolane_broker::{Broker, Rules};
use iolane_protocol::sys::{clock, introduce};
use iolane_protocol::{Address, Asked, CellState, KIND_WRITE, Memory, UNRULED, cell_of};

const STEP: &str = "IOLANE_TEST_STEP";

/// Steps of a request, in order.
const STEPS: [&str; 9] = [
    "come",
    "claimed",
    "filled",
    "posted-silently",
    "posted",
    "granted",
    "started",
    "ended-silently",
    "left-silently",
];

/// Not a test by itself: what is killed.
#[test]
fn walk_up_to_a_step() {
    let Ok(step) = std::env::var(STEP) else {
        return;
    };
    let (memory, client, device) = come();
    let number = cell_of(client, 5);
    let cell = &memory.cells[number];
    let reached = |name| step == name;
    let walk = || {
        if reached("come") {
            return;
        }
        assert!(cell.change(CellState::Free, CellState::Claimed));
        if reached("claimed") {
            return;
        }
        cell.fill(&asked(device));
        if reached("filled") {
            return;
        }
        if reached("started") || reached("ended-silently") {
            cell.set_started_ns(clock::now_ns());
            cell.set(CellState::Started);
            memory.post(number, false);
            if reached("ended-silently") {
                cell.set_end(clock::now_ns(), 4096);
                cell.set(CellState::Ended);
            }
            return;
        }
        cell.set(CellState::Posted);
        if reached("posted-silently") {
            return;
        }
        if reached("left-silently") {
            cell.change(CellState::Posted, CellState::Left);
            return;
        }
        memory.post(number, true);
        if reached("granted") {
            wait_until(|| cell.state() == Some(CellState::Granted));
        }
    };
    walk();
    println!("reached");
    std::thread::sleep(WAIT_MAX);
}

fn asked(device: u8) -> Asked {
    Asked {
        device,
        kind: KIND_WRITE,
        level: 4,
        ruled_level: 4,
        rule: UNRULED,
        durable: false,
        asynchronous: false,
        file: 1,
        length: 4096,
        offset: 0,
        asked_ns: clock::now_ns(),
    }
}

/// Comes to the broker, and makes sure that the disk of the working directory is known.
fn come() -> (&'static Memory, usize, u8) {
    let value = std::env::var(iolane_protocol::ENVIRONMENT).unwrap();
    let (memory, client, _) = common::come(&value, a_disk().unwrap());
    (memory, client, 0)
}

fn start_walker(broker: &Broker, step: &str) -> Child {
    let (name, value) = broker.environment();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "walk_up_to_a_step", "--nocapture"])
        .env(name, value)
        .env(STEP, step)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The harness says something before.
    let reached = lines
        .map_while(Result::ok)
        .any(|line| line.ends_with("reached"));
    assert!(reached, "{step} is not reached");
    child
}

#[test]
fn a_process_killed_at_any_step_leaves_no_place_taken() {
    if a_disk().is_none() {
        iolane_testing::skipped("no block device is known here");
        return;
    }
    for step in STEPS {
        let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
        let mut walker = start_walker(&broker, step);
        assert_eq!(broker.clients(), 1, "{step}");
        walker.kill().unwrap();
        walker.wait().unwrap();
        wait_until(|| broker.clients() == 0);
        // A second one gets the same number, finds all cells free, and is served.
        let mut second = start_walker(&broker, "granted");
        second.kill().unwrap();
        second.wait().unwrap();
        wait_until(|| broker.clients() == 0);
        let report = broker.finish().unwrap();
        assert_eq!(report.processes, 2, "{step}");
        let was_known = matches!(step, "posted" | "granted" | "started" | "ended-silently");
        // What the second one had came back, too.
        let reclaimed = report.reclaimed - 1;
        let roles = report.disks.iter().flat_map(|disk| &disk.roles);
        let ended: u64 = roles.map(|role| role.requests).sum();
        assert!(reclaimed + ended <= 1, "{step}");
        assert!(was_known || reclaimed == 0, "{step}");
    }
}

#[test]
fn who_does_not_know_the_token_is_not_let_in() {
    let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
    let (_, value) = broker.environment();
    let wrong = format!("{}{}", &value[..value.len() - 32], "0".repeat(32));
    let address = Address::parse(wrong.as_bytes()).unwrap();
    assert!(introduce::introduce(&address, introduce::PATIENCE_MS).is_err());
    let right = Address::parse(value.as_bytes()).unwrap();
    assert!(introduce::introduce(&right, introduce::PATIENCE_MS).is_ok());
    assert_eq!(broker.finish().unwrap().processes, 1);
}

#[test]
fn a_memory_without_a_broker_is_over() {
    let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
    let (_, value) = broker.environment();
    let address = Address::parse(value.as_bytes()).unwrap();
    let (_, memory) = introduce::introduce_and_map(&address, introduce::PATIENCE_MS).unwrap();
    assert!(memory.header.is_serving());
    broker.finish().unwrap();
    assert!(memory.header.is_over() && !memory.header.is_serving());
    assert!(!memory.header.is_dead(), "it has ended as it should");
    assert!(introduce::introduce(&address, introduce::PATIENCE_MS).is_err());
}
