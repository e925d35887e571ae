//! The first request of a disk.

use std::fs;
use std::time::{Duration, Instant};

use iolane_broker::{Broker, Rules};
use iolane_protocol::sys::introduce;
use iolane_protocol::{Address, DeviceState, GATE_ALL};

const WAIT_MAX: Duration = Duration::from_secs(60);

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
    let (_, memory) = introduce::introduce_and_map(&address).unwrap();
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

/// The number of a block device.
fn a_disk() -> Option<u64> {
    let entry = fs::read_dir("/sys/dev/block").ok()?.flatten().next()?;
    let name = entry.file_name().into_string().ok()?;
    let (major, minor) = name.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}
