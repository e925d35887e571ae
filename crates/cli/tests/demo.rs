//! `iolane demo` as its users start it, in short.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const SHORT: &str = "demo --server none --size 4M --runtime 200ms --warm-up 50ms";
/// Where the machine stalls for as long as a run, nothing is measured.
const RUNTIMES_MS: [u64; 3] = [200, 2000, 20_000];
const WAIT_MAX: Duration = Duration::from_secs(120);

fn iolane(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

/// On a disk: what /tmp is in memory on some machines.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[track_caller]
fn successful(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| name(entry.unwrap())).collect()
}

#[test]
fn it_leaves_a_report_and_nothing_else() {
    let directory = disk();
    let text = successful(iolane(directory.path(), SHORT).output().unwrap());
    for expected in [
        "Your disk: ",
        "A cloud volume: aws-gp3",
        "without priorities",
        "with iolane",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(names(directory.path()), ["iolane-demo.html"]);
    let page = fs::read_to_string(directory.path().join("iolane-demo.html")).unwrap();
    assert!(page.contains("<svg") && page.trim_end().ends_with("</html>"));
    for outside in ["<script", "<link", "src=", "url("] {
        assert!(!page.contains(outside), "one file that needs nothing else");
    }
}

#[test]
fn json_has_the_three_runs_on_each_disk() {
    let directory = disk();
    let document = |runtime_ms: u64| -> Value {
        let line = format!(
            "demo --server none --size 4M --runtime {runtime_ms}ms --warm-up 50ms --output-format json \
             --report plots.html"
        );
        let text = successful(iolane(directory.path(), &line).output().unwrap());
        let document: Value = serde_json::from_str(&text).unwrap();
        let runtime_ns = &document["options"]["store"]["runtime_ns"];
        assert_eq!(*runtime_ns, runtime_ms * 1_000_000);
        document
    };
    let runs_of = |document: &Value| {
        let own = document["runs"].as_array().unwrap().clone();
        let volume = document["volume"]["runs"].as_array().unwrap().clone();
        [own, volume]
    };
    let is_measured = |document: &Value| {
        let mut runs = runs_of(document).into_iter().flatten();
        runs.all(|run| run["operations"].as_u64().unwrap() > 0)
    };
    let document = RUNTIMES_MS.into_iter().map(document).find(is_measured);
    let document = document.expect("transactions in each run");
    assert_eq!(document["schema"], "iolane.demo/2");
    assert_eq!(document["target"]["kind"], "directory");
    assert_eq!(document["volume"]["model"], "aws-gp3");
    let rates = [&document, &document["volume"]].map(|part| &part["rate_per_second"]);
    let beside = [2, 3];
    for ((runs, rate), beside) in runs_of(&document).into_iter().zip(rates).zip(beside) {
        let besides = runs
            .iter()
            .map(|run| run["beside"].as_array().unwrap().len());
        assert_eq!(besides.collect::<Vec<usize>>(), [0, beside, beside]);
        let priorities: Vec<&Value> = runs.iter().map(|run| &run["priorities"]).collect();
        assert_eq!(priorities, ["on", "off", "on"]);
        assert!(runs.iter().all(|run| run["rate_per_second"] == *rate));
    }
    assert_eq!(names(directory.path()), ["plots.html"]);
}

#[test]
fn ctrl_c_leaves_nothing() {
    let directory = disk();
    let mut child = iolane(
        directory.path(),
        "demo --server none --size 4M --runtime 60s",
    )
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    // The store's directory is there: the run is under way.
    let start = Instant::now();
    while names(directory.path()).is_empty() && start.elapsed() < WAIT_MAX {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status();
    assert!(kill.unwrap().success());
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(3));
    assert_eq!(names(directory.path()), [""; 0]);
}

fn is_installed() -> bool {
    ["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db"]
        .iter()
        .all(|file| Path::new(file).exists())
}

/// Processes that have the directory's name in their command line.
fn processes_of(directory: &Path) -> usize {
    let name = directory.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(name))
        .count()
}

#[test]
fn an_installed_server_is_shown_first_and_leaves_nothing() {
    if !is_installed() {
        iolane_testing::skipped("mariadb-server is not installed");
        return;
    }
    let directory = disk();
    // Of another server, which may be running.
    let temporary = disk();
    let anothers = temporary.path().join("#sql-temptable-1-2-3.MAI");
    fs::write(&anothers, "").unwrap();
    let line = "demo --size 4M --runtime 300ms --warm-up 50ms --output-format json";
    let mut demo = iolane(directory.path(), line);
    let text = successful(demo.env("TMPDIR", temporary.path()).output().unwrap());
    assert!(anothers.exists());
    let document: Value = serde_json::from_str(&text).unwrap();
    let server = &document["server"];
    assert!(server["server"].as_str().unwrap().starts_with("MariaDB "));
    let runs = server["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(
        runs.iter()
            .all(|run| run["statements"].as_u64().unwrap() > 0)
    );
    let took = |run: &Value| run["p50_ns"].as_u64().unwrap() <= run["p99_ns"].as_u64().unwrap();
    assert!(runs.iter().all(took), "{server}");
    assert!(runs[0]["mean_ns"].as_u64().unwrap() > 1000, "{server}");
    assert_eq!(runs[0]["dumped_bytes"], 0);
    assert!(runs[1]["dumped_bytes"].as_u64().unwrap() > 0, "{server}");
    assert_eq!(names(directory.path()), ["iolane-demo.html"]);
    assert_eq!(processes_of(directory.path()), 0);
}

#[test]
fn ctrl_c_ends_the_server() {
    if !is_installed() {
        iolane_testing::skipped("mariadb-server is not installed");
        return;
    }
    let directory = disk();
    let mut child = iolane(directory.path(), "demo --runtime 60s")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let begun = |wanted| processes_of(directory.path()) >= wanted;
    while !begun(1) && start.elapsed() < WAIT_MAX {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(names(directory.path()), [""; 0]);
    assert_eq!(processes_of(directory.path()), 0);
}
