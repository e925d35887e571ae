//! The first request of a disk.

mod common;

use std::time::Instant;

use common::{WAIT_MAX, a_disk};
use iolane_broker::{Broker, Rules};
use iolane_protocol::sys::introduce;
use iolane_protocol::{Address, DeviceState, GATE_ALL};

/// Nothing competes on a disk that has just become known: as soon as a process learns
/// that it is scheduled, its request goes without asking.
#[test]
fn it_need_not_ask() {
    let Some(disk) = a_disk() else {
        iolane_testing::skipped("there is no block device");
        return;
    };
    let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
    let (_, value) = broker.environment();
    let address = Address::parse(value.as_bytes()).unwrap();
    let (_, memory) = introduce::introduce_and_map(&address, introduce::PATIENCE_MS).unwrap();
    let entry = &memory.devices[0];
    assert!(entry.take(disk));
    memory.header.ring(true);
    let start = Instant::now();
    // Without sleep: between the answer and what comes after it is little time.
    while entry.state() == DeviceState::Asked {
        assert!(start.elapsed() < WAIT_MAX, "no answer");
        std::hint::spin_loop();
    }
    assert_eq!(entry.state(), DeviceState::Scheduled);
    assert_eq!(entry.gate(), GATE_ALL);
}
