//! What tests of the broker from a process's side have in common.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::fs;
use std::time::{Duration, Instant};

use iolane_protocol::sys::introduce;
use iolane_protocol::{Address, DeviceState, Memory};

pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The number of some block device.
pub fn a_disk() -> Option<u64> {
    let disks = fs::read_dir("/sys/block").ok()?.flatten();
    let numbers = disks.filter_map(|disk| {
        let text = fs::read_to_string(disk.path().join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
    });
    numbers.min()
}

pub fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WAIT_MAX, "it does not come to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Comes to a broker as a process does, and has it look at a disk. Gives the shared memory, its number
/// there, and whether it is the first that names a disk.
pub fn come(address: &str, disk: u64) -> (&'static Memory, usize, bool) {
    let address = Address::parse(address.as_bytes()).unwrap();
    let (welcome, memory) = introduce::introduce_and_map(&address, introduce::PATIENCE_MS).unwrap();
    let entry = &memory.devices[0];
    let is_first = entry.take(disk);
    memory.header.ring(true);
    wait_until(|| entry.state() != DeviceState::Asked);
    (memory, welcome.client as usize, is_first)
}
