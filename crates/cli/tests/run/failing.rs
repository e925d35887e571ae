//! The broker dies, stops, or its clients do.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::place::{
    has_disk, iolane_run, iolane_run_by, on_disk, probe, report, rings_probe, scheduled, wait_until,
};
use crate::probes::RULES;

/// Copies this many blocks of 4 KiB, each durable before the next.
const BLOCKS: u64 = 3000;

/// A process that writes for a while, under `iolane run`. Its own number goes into a
/// file.
fn start_writer(directory: &Path, report: &Path) -> Child {
    let script = format!(
        "echo $$ >{0}/number; exec dd if=/dev/zero of={0}/file bs=4k count={BLOCKS} oflag=direct,dsync",
        directory.display()
    );
    let child = iolane_run(report)
        .args(["sh", "-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| length(directory) > 0);
    child
}

fn length(directory: &Path) -> u64 {
    fs::metadata(directory.join("file")).map_or(0, |file| file.len())
}

fn signal(signal: &str, process: &str) {
    let sent = Command::new("kill").args([signal, process]).status();
    assert!(sent.unwrap().success());
}

fn writer(directory: &Path) -> String {
    let number = fs::read_to_string(directory.join("number")).unwrap();
    number.trim().to_owned()
}

#[test]
fn a_writer_goes_on_when_the_broker_is_killed() {
    let directory = on_disk();
    let mut child = start_writer(directory.path(), &directory.path().join("report.json"));
    signal("-KILL", &child.id().to_string());
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    wait_until(|| length(directory.path()) == BLOCKS * 4096);
}

/// What processes say of a broker that died.
const LAMENT: &str = "iolane: the broker has ended: I/O goes on unscheduled";

/// Runs a script in a directory. All of it has the file `errors` as its standard error.
fn start_script(directory: &Path, script: &str) -> Child {
    iolane_run(&directory.join("report.json"))
        .args(["sh", "-c", script])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("errors")).unwrap())
        .spawn()
        .unwrap()
}

/// How often processes have said so.
fn laments(directory: &Path) -> usize {
    let errors = fs::read_to_string(directory.join("errors")).unwrap();
    let by_us: Vec<_> = errors
        .lines()
        .filter(|line| line.starts_with("iolane: "))
        .collect();
    assert!(by_us.iter().all(|&line| line == LAMENT), "{errors}");
    by_us.len()
}

#[test]
fn that_the_broker_was_killed_is_said_once() {
    let directory = on_disk();
    let script = format!(
        "for file in one two file; do
            dd if=/dev/zero of=$file bs=4k count={BLOCKS} oflag=direct,dsync &
        done
        wait
        echo >ended"
    );
    let mut child = start_script(directory.path(), &script);
    wait_until(|| length(directory.path()) > 0);
    signal("-KILL", &child.id().to_string());
    child.wait().unwrap();
    wait_until(|| directory.path().join("ended").exists());
    assert_eq!(length(directory.path()), BLOCKS * 4096);
    assert_eq!(laments(directory.path()), 1);
}

/// The command ends, a process of its goes on, and `iolane run` is asked to end.
#[test]
fn a_broker_that_ended_as_it_should_is_not_missed() {
    let directory = on_disk();
    let script = format!(
        "dd if=/dev/zero of=file bs=4k count={BLOCKS} oflag=direct,dsync &
        until [ -s file ]; do sleep 0.01; done"
    );
    let mut child = start_script(directory.path(), &script);
    wait_until(|| length(directory.path()) > 0);
    while child.try_wait().unwrap().is_none() {
        signal("-TERM", &child.id().to_string());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(length(directory.path()) < BLOCKS * 4096, "it was too quick");
    wait_until(|| length(directory.path()) == BLOCKS * 4096);
    assert_eq!(laments(directory.path()), 0);
}

#[test]
fn nothing_is_said_into_a_file_that_has_the_number_of_standard_error() {
    let directory = on_disk();
    let script = format!("exec {} displaced .", probe("probe").display());
    let mut child = start_script(directory.path(), &script);
    let of = |name: &str| directory.path().join(name);
    wait_until(|| of("begun").exists());
    signal("-KILL", &child.id().to_string());
    child.wait().unwrap();
    fs::write(of("go"), "").unwrap();
    wait_until(|| of("ended").exists());
    let written = fs::read(of("displaced")).unwrap();
    assert!(written.len() == 20 * 4096 && written.iter().all(|&byte| byte == b'z'));
    assert_eq!(laments(directory.path()), 0);
}

/// A write to a pipe that nobody reads would end the process.
#[test]
fn a_writer_whose_standard_error_nobody_reads_goes_on() {
    let directory = on_disk();
    let script = format!("exec dd if=/dev/zero of=file bs=4k count={BLOCKS} oflag=direct,dsync");
    let mut child = iolane_run(&directory.path().join("report.json"))
        .args(["sh", "-c", &script])
        .current_dir(directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| length(directory.path()) > 0);
    drop(child.stderr.take());
    signal("-KILL", &child.id().to_string());
    child.wait().unwrap();
    wait_until(|| length(directory.path()) == BLOCKS * 4096);
}

/// The broker dies while a program has asynchronous requests under way, at several moments: all of
/// them end, and what is read then is what was written.
fn survives_with_requests_under_way(program: &Path) {
    for delay_ms in [0, 7, 40, 150, 400] {
        let (directory, place) = (on_disk(), on_disk());
        let rules = place.path().join("rules.toml");
        fs::write(&rules, RULES).unwrap();
        let mut child = iolane_run_by(&rules, &place.path().join("report.json"))
            .arg(program)
            .arg("lasting")
            .arg(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| directory.path().join("begun").exists());
        std::thread::sleep(Duration::from_millis(delay_ms));
        signal("-KILL", &child.id().to_string());
        child.wait().unwrap();
        fs::write(directory.path().join("go"), "").unwrap();
        // Until the program has ended: nobody else has the pipe.
        let mut said = String::new();
        let mut output = child.stdout.take().unwrap();
        output.read_to_string(&mut said).unwrap();
        assert_eq!(said, "wrong = 0\n", "{delay_ms} ms");
    }
}

#[test]
fn linux_aio_goes_on_when_the_broker_is_killed() {
    survives_with_requests_under_way(&probe("probe_aio"));
}

#[test]
fn io_uring_goes_on_when_the_broker_is_killed() {
    if let Some(program) = rings_probe() {
        survives_with_requests_under_way(&program);
    }
}

#[test]
fn a_writer_goes_on_when_the_broker_is_stopped() {
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let mut child = start_writer(directory.path(), &to);
    let number = child.id().to_string();
    signal("-STOP", &number);
    let before = length(directory.path());
    wait_until(|| length(directory.path()) > before + 100 * 4096);
    signal("-CONT", &number);
    assert!(child.wait().unwrap().success());
    assert_eq!(length(directory.path()), BLOCKS * 4096);
}

/// Its first request finds no answer; later ones do.
#[test]
fn a_process_that_begins_while_the_broker_is_stopped_comes_later() {
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let [there, go, begun] = ["there", "go", "begun"].map(|name| directory.path().join(name));
    let mut child = iolane_run(&to)
        .arg(probe("probe"))
        .arg("late")
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let number = child.id().to_string();
    // It waits until it may go on.
    wait_until(|| there.exists());
    signal("-STOP", &number);
    fs::write(&go, "").unwrap();
    wait_until(|| begun.exists());
    signal("-CONT", &number);
    fs::remove_file(&go).unwrap();
    assert!(child.wait().unwrap().success());
    let report = report(&to);
    if !has_disk(&report) {
        return;
    }
    assert_eq!(report["report"]["processes"], 1, "{report}");
    assert!(scheduled(&report) > 0, "{report}");
}

#[test]
fn a_killed_command_ends_the_run_with_its_code() {
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let mut child = start_writer(directory.path(), &to);
    signal("-KILL", &writer(directory.path()));
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
    assert_eq!(report(&to)["schema"], "iolane.run/1");
}

#[test]
fn signals_are_handed_on_and_a_report_comes_on_request() {
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let mut child = start_writer(directory.path(), &to);
    let number = child.id().to_string();
    signal("-USR1", &number);
    wait_until(|| fs::metadata(&to).is_ok_and(|file| file.len() > 0));
    signal("-TERM", &number);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

/// As under `nohup`, and for what a shell without job control starts in the background.
#[test]
fn what_was_to_be_ignored_is_ignored_by_the_command() {
    let directory = on_disk();
    let to = directory.path().join("report.json");
    let trace = directory.path().join("begun");
    let iolane = env!("CARGO_BIN_EXE_iolane");
    let script = format!(
        "trap '' HUP INT CHLD; exec {iolane} run --report {} -- sh -c 'touch {}; sleep 1; exit 5'",
        to.display(),
        trace.display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| trace.exists());
    signal("-HUP", &child.id().to_string());
    signal("-INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// A daemon is told to rotate its logs so; it would end `iolane run`.
#[test]
fn signals_that_daemons_give_a_meaning_are_handed_on() {
    for name in ["USR2", "WINCH", "ALRM"] {
        let directory = on_disk();
        let to = directory.path().join("report.json");
        let trace = directory.path().join("begun");
        let script = format!(
            "trap 'exit 9' {name}; touch {}; while :; do sleep 0.05; done",
            trace.display()
        );
        let mut child = iolane_run(&to)
            .args(["sh", "-c", &script])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| trace.exists());
        signal(&format!("-{name}"), &child.id().to_string());
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
}
