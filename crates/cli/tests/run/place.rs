//! Where the tests of `iolane run` run, and with what.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const WAIT_MAX: Duration = Duration::from_secs(60);

/// `iolane run --`, without a report on standard error.
pub fn iolane_run(report: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command.args(["run", "--report"]).arg(report).arg("--");
    command
}

/// The same with logical read-ahead.
pub fn iolane_run_ahead(report: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command.args(["run", "--read-ahead", "logical", "--report"]);
    command.arg(report).arg("--");
    command
}

/// The same with io_uring, also for a server whose profile refuses it.
pub fn iolane_run_uring(report: &Path) -> Command {
    let rules = report.with_file_name("rules.toml");
    std::fs::write(&rules, "io_uring = 'follow'\n").unwrap();
    iolane_run_by(&rules, report)
}

/// The same with rules.
pub fn iolane_run_by(rules: &Path, report: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command.args(["run", "--rules"]).arg(rules);
    command.arg("--report").arg(report).arg("--");
    command
}

/// The same command on a kernel without the system calls that came after Linux 6.1, as far as a
/// filter can show it: `cachestat` among them.
pub fn on_older_kernel(command: &Command) -> Command {
    // The first one of Linux 6.2 and later, by the same number on all machines.
    without_calls(451, i64::from(u32::MAX), command)
}

/// The same command where a filter forbids the system calls with these numbers.
pub fn without_calls(first: i64, last: i64, command: &Command) -> Command {
    let mut without = Command::new(compiled("../testing/c/without_calls.c", &[]));
    without.args([first.to_string(), last.to_string()]);
    without.arg(command.get_program()).args(command.get_args());
    without
}

/// A directory on the disk of the built program: what lies in memory has no
/// scheduler.
pub fn on_disk() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A C program of this folder, built once.
pub fn probe(name: &str) -> PathBuf {
    compiled(&format!("tests/run/{name}.c"), &[])
}

/// A C program, with libraries, built once.
fn compiled(source: &str, libraries: &[&str]) -> PathBuf {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(from.file_stem().unwrap());
    let mut built = BUILT.lock().unwrap();
    if built.contains(source) {
        return to;
    }
    // Another run of the tests may use the one that is there.
    let fresh = to.with_extension(format!("{}", std::process::id()));
    let status = Command::new("cc")
        .args(["-O2", "-D_FORTIFY_SOURCE=2", "-Wall", "-Wextra", "-Werror"])
        .args(["-pthread", "-o"])
        .arg(&fresh)
        .arg(&from)
        .args(libraries)
        .status();
    assert!(status.unwrap().success(), "{source} does not compile");
    std::fs::rename(fresh, &to).unwrap();
    built.insert(source.to_owned());
    to
}

/// The random one: with io_uring, where it can be built with it.
pub fn random_probe() -> PathBuf {
    let libraries: &[&str] = if Path::new("/usr/include/liburing.h").exists() {
        &["-luring"]
    } else {
        &[]
    };
    compiled("tests/run/probe_random.c", libraries)
}

/// The probe of io_uring; `None`, and the test is skipped, where there is none.
pub fn rings_probe() -> Option<PathBuf> {
    /// liburing's tests end so where something is not there.
    const SKIPPED: i32 = 77;
    if !Path::new("/usr/include/liburing.h").exists() {
        iolane_testing::skipped("liburing-dev is not installed");
        return None;
    }
    let program = compiled("tests/run/probe_uring.c", &["-luring"]);
    let tried = Command::new(&program)
        .arg("possible")
        .arg(on_disk().path())
        .status()
        .unwrap();
    if tried.code() == Some(SKIPPED) {
        iolane_testing::skipped("there is no io_uring here");
        return None;
    }
    Some(program)
}

/// The report that a run has left.
pub fn report(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Requests that were scheduled, on all disks.
pub fn scheduled(report: &serde_json::Value) -> u64 {
    let disks = report["report"]["disks"].as_array().unwrap();
    let roles = disks
        .iter()
        .flat_map(|disk| disk["roles"].as_array().unwrap());
    roles.map(|role| role["requests"].as_u64().unwrap()).sum()
}

/// Whether it has a disk. Without one the test is skipped.
pub fn has_disk(report: &serde_json::Value) -> bool {
    let has_disk = !report["report"]["disks"].as_array().unwrap().is_empty();
    if !has_disk {
        iolane_testing::skipped("the build's directory lies on no disk: nothing is scheduled");
    }
    has_disk
}

pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WAIT_MAX, "it does not come to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}
