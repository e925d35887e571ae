//! As a container's first process: in name spaces of its own, without any capability.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::place::{has_disk, iolane_run, on_disk, report, scheduled, wait_until};

/// The words that put a command there.
const CONTAINER: [&str; 17] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--net",
    "--ipc",
    "--uts",
    "--mount-proc",
    "--kill-child",
    "setpriv",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--no-new-privs",
    "--",
];

fn contained() -> Option<Command> {
    let make = || {
        let mut command = Command::new(CONTAINER[0]);
        command.args(&CONTAINER[1..]);
        command
    };
    let tried = make().arg("true").output();
    if tried.is_ok_and(|output| output.status.success()) {
        return Some(make());
    }
    iolane_testing::skipped("name spaces without privileges are not allowed here");
    None
}

#[test]
fn it_needs_no_privilege() {
    let Some(mut command) = contained() else {
        return;
    };
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let script = format!(
        "grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; cat /proc/1/comm; \
         exec dd if=/dev/zero of={}/file bs=64k count=16 oflag=direct conv=fsync",
        directory.path().display()
    );
    let output = command
        .arg(env!("CARGO_BIN_EXE_iolane"))
        .args(["run", "--report"])
        .arg(&to)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = "CapEff:\t0000000000000000\nNoNewPrivs:\t1\niolane\n";
    assert_eq!(said, expected);
    let report = report(&to);
    if !has_disk(&report) {
        return;
    }
    assert!(scheduled(&report) >= 17, "{report}");
}

/// What `docker stop` does: a signal that the first process of a name space only gets if
/// it listens to it.
#[test]
fn it_hands_the_signal_on_that_stops_a_container() {
    let Some(mut command) = contained() else {
        return;
    };
    let directory = on_disk();
    let begun = directory.path().join("begun");
    let script = format!(
        "trap 'exit 7' TERM; touch {}; while :; do sleep 0.01; done",
        begun.display()
    );
    let mut running = command
        .arg(env!("CARGO_BIN_EXE_iolane"))
        .args(["run", "--report"])
        .arg(directory.path().join("report.txt"))
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| begun.exists());
    // The first process of the name space is the child of `unshare`.
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let first = std::fs::read_to_string(children).unwrap();
    let sent = Command::new("kill").args(["-TERM", first.trim()]).status();
    assert!(sent.unwrap().success());
    let status = running.wait().unwrap();
    assert_eq!(status.code(), Some(7), "signal {:?}", status.signal());
}

/// Its clock is days ahead of the broker's: what it did would put that forward, and nobody's time would be right any more.
#[test]
fn a_process_with_another_clock_goes_unscheduled() {
    let elsewhere = ["--time", "--fork", "--monotonic", "1000000"];
    let tried = Command::new("unshare").args(elsewhere).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        iolane_testing::skipped("name spaces of time are not to be had here");
        return;
    }
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let write = "dd if=/dev/zero of=file bs=64k count=16 oflag=direct";
    let script = format!(
        "{write} && unshare {} {write} && {write}",
        elsewhere.join(" ")
    );
    let output = iolane_run(&to)
        .args(["sh", "-c", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = report(&to);
    if has_disk(&report) {
        assert_eq!(scheduled(&report), 32, "{report}");
    }
}
