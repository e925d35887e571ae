//! Each sub-command once, with tiny sizes, on a directory of its own.

use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A directory below which nothing may be left.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("iolane-peers-test-{name}-{}", std::process::id());
        Place(PathBuf::from("/var/tmp").join(name))
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iolane-peers"));
        command
            .args(arguments.split(' '))
            .arg("--directory")
            .arg(&self.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(!self.0.exists(), "{} is left", self.0.display());
        }
    }
}

/// Runs it and checks that all cases have a sample of each engine that was not
/// left out, that no value is 0, and that nothing stays behind.
fn run(name: &str, arguments: &str, cases: usize) {
    let place = Place::new(name);
    let arguments = format!("{arguments} --repeat 2 --seconds 0.1 --output-format json");
    let output = place.command(&arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let skipped = document["skipped"].as_array().unwrap();
    for engine in skipped {
        // Only what needs packages of the system may be missing.
        let kind = engine["engine"].as_str().unwrap();
        assert!(matches!(kind, "innodb" | "rocksdb"), "{engine}");
        let reason = engine["reason"].as_str().unwrap();
        assert!(reason.contains("apt-get install"), "{engine}");
        eprintln!("{kind} took no part: {reason}");
    }
    let found = document["cases"].as_array().unwrap();
    assert_eq!(found.len(), cases, "{document:#}");
    for case in found {
        let engines = case["engines"].as_array().unwrap();
        // What is compared with the disk itself is measured on iolane alone.
        let name = case["case"].as_str().unwrap();
        let expected = if name.contains("disk's own") {
            1
        } else {
            6 - skipped.len()
        };
        assert_eq!(engines.len(), expected, "{case:#}");
        for engine in engines {
            let samples = engine["samples"].as_array().unwrap();
            assert_eq!(samples.len(), 2);
            // A table in the page cache needs no read: not every engine has
            // a way past it, and a tiny one may be there again.
            if case["case"] != "read from the disk" && name != "the scan" {
                assert!(engine["value"]["min"].as_f64().unwrap() > 0.0, "{case:#}");
            }
        }
        assert_eq!(engines[0]["ratio_to_iolane"]["median"], 1.0);
    }
}

#[test]
fn commits() {
    run("commit", "commit --threads 1,2", 2);
}

#[test]
fn cached_reads() {
    run("get", "get --rows 2000", 4);
}

#[test]
fn uncached_reads() {
    run("uncached", "get --uncached --pool 6 --threads 1,2", 6);
}

#[test]
fn loads() {
    run("load", "load --rows 2000", 1);
}

#[test]
fn scans() {
    run("scan", "scan --pool 6", 3);
}

#[test]
fn ranges() {
    run("range", "range --pool 6 --rows 100", 3);
}

#[test]
fn updates() {
    run("update", "update --pool 6", 2);
}

#[test]
fn short_transactions() {
    run("oltp", "oltp --pool 6", 9);
}

#[test]
fn memory() {
    run("memory", "memory --pool 6", 2);
}

/// Starts it, and waits until `path` below its directory is there. `None`: it
/// ended before.
fn start(place: &Place, arguments: &str, path: &str) -> Option<Child> {
    let mut child = place.command(arguments).spawn().unwrap();
    let path = place.0.join(format!("run-{}", child.id())).join(path);
    let until = Instant::now() + Duration::from_secs(300);
    while !path.exists() {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(Instant::now() < until, "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(child)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Processes that have a word in their command line.
fn processes_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(word))
        .count()
}

#[test]
fn a_signal_leaves_nothing() {
    let place = Place::new("signal");
    let arguments = "commit --engines iolane --seconds 3600";
    let mut child = start(&place, arguments, "iolane-commit").unwrap();
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_signal_ends_the_server() {
    for signals in [&[Signal::TERM][..], &[Signal::INT, Signal::INT]] {
        let place = Place::new("server");
        let arguments = "commit --engines innodb --seconds 3600";
        let Some(mut child) = start(&place, arguments, "innodb-commit/s") else {
            eprintln!("no MariaDB here: nothing to end");
            return;
        };
        assert!(processes_with(place.0.to_str().unwrap()) >= 2);
        for &signal in signals {
            send(&child, signal);
        }
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(processes_with(place.0.to_str().unwrap()), 0);
        // A run that does not wait leaves the parent, which is empty.
        let _ = std::fs::remove_dir(&place.0);
    }
}

#[test]
fn bad_options_are_named() {
    let place = Place::new("options");
    for (arguments, said) in [
        ("load --rows 0", "1 to 20000000 rows are possible"),
        ("commit --seconds 0", "0.01 to 3600 seconds are possible"),
        ("scan --pool 1", "6 to 1024 MiB are possible"),
        ("commit --engines oracle", "oracle"),
    ] {
        let output = place.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said));
    }
}
