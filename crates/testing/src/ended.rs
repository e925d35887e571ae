//! Programs that a signal ends, and what they leave.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::skipped;

const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where in the directory something is mounted.
pub fn mounted_in(directory: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let within = places.filter(|place| Path::new(place).starts_with(directory));
    within.map(str::to_owned).collect()
}

/// Ends the program when it has come so far: it must leave nothing in the
/// directory. Exit code 2 is that of a program that this machine does not give
/// what it needs.
///
/// # Panics
/// If it does not come so far, or leaves something.
pub fn ended_by(
    signal: &str,
    command: &mut Command,
    directory: &Path,
    has_come_so_far: impl Fn(&Path) -> bool,
) {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().unwrap();
    let start = Instant::now();
    while !has_come_so_far(directory) {
        assert!(start.elapsed() < WAIT_MAX, "it does not come so far");
        if child.try_wait().unwrap().and_then(|status| status.code()) == Some(2) {
            skipped("no modelled disk on this machine");
            assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {}", child.id())])
        .status();
    assert!(kill.unwrap().success());
    if signal == "KILL" {
        // Another process does it, a moment later.
        assert_eq!(child.wait().unwrap().code(), None);
        let start = Instant::now();
        while fs::read_dir(directory).unwrap().count() > 0 && start.elapsed() < WAIT_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
    } else {
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
    assert!(mounted_in(directory).is_empty());
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
}
