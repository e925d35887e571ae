//! `iolane bench store` on tables of a few pages: documents, exit codes and
//! what is left behind, no figures.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use iolane_testing::{mounted_in, skipped};
use serde_json::Value;

const TINY: &str = "--rows 4000 --row-size 500 --pool-size 2m --log-size 8m --warm-up 50ms";

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn iolane(directory: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command
        .args(["bench", "store"])
        .args(line.split_whitespace())
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn good(line: &str) -> Value {
    let directory = scratch();
    let line = format!("{line} {TINY} --output-format json");
    let Output { status, stdout, .. } = iolane(directory.path(), &line).output().unwrap();
    let document: Value = serde_json::from_slice(&stdout).unwrap();
    assert!(status.success(), "{line}: {document:#}");
    assert_eq!(document["schema"], "iolane.bench.store/1");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    document
}

/// The same for so long that something is measured: where the machine stalls for
/// as long as a run, there is nothing to be looked at.
#[track_caller]
fn good_for(runtimes: &[&str], line: &str, is_measured: impl Fn(&Value) -> bool) -> Value {
    let documents = runtimes
        .iter()
        .map(|runtime| good(&format!("{line} --runtime {runtime}")));
    let mut measured = documents.filter(|document| runs(document).iter().all(&is_measured));
    measured.next().expect("something is measured")
}

fn operations(run: &Value) -> u64 {
    run["operations"].as_u64().unwrap()
}

fn runs(document: &Value) -> &Vec<Value> {
    document["runs"].as_array().unwrap()
}

/// Bytes that a role read and wrote.
fn moved(run: &Value, role: &str) -> u64 {
    let rows = run["ledger"].as_array().unwrap().iter();
    rows.filter(|row| row["role"] == role)
        .map(|row| row["read_bytes"].as_u64().unwrap() + row["written_bytes"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_scan_is_held_against_the_device() {
    let document = good("scan --policy conservative,aggressive --runtime 10m --io direct,buffered");
    assert_eq!(document["target"]["kind"], "directory");
    assert_eq!(document["table"]["order"], "random");
    let table_bytes = document["table"]["size_bytes"].as_u64().unwrap();
    assert!(
        document["limit"]["random_bytes_per_second"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert_eq!(runs(&document).len(), 4);
    for run in runs(&document) {
        // All rows, and so most of the table's pages.
        assert_eq!(run["operations"], 4000, "{run:#}");
        let read: u64 = ["read", "scan", "guess"]
            .iter()
            .map(|role| moved(run, role))
            .sum();
        assert!(read > table_bytes / 4, "{read} of {table_bytes}: {run:#}");
        assert!(run["outstanding"]["data"]["idle_share"].as_f64().unwrap() < 1.0);
    }
}

#[test]
fn a_range_reads_as_many_rows_as_asked_for() {
    let document =
        good("range --range-rows 500 --policy paper --threads 2 --runtime 10m --repetitions 2");
    let run = &runs(&document)[0];
    assert_eq!(run["operations"], 2 * 2 * 500);
    assert_eq!(run["spread"]["repetitions"], 2);
}

#[test]
fn an_update_changes_all_rows() {
    let document = good("update --policy aggressive --runtime 10m");
    let run = &runs(&document)[0];
    assert_eq!(run["operations"], 4000);
    assert!(moved(run, "log") > 4000 * 500);
    assert!(document["limit"].is_null());
}

#[test]
fn transactions_run_beside_everything() {
    let line = "oltp --policy aggressive --priorities on,off --threads 2 --rate 200/s \
                --beside scan,backup,checkpoint,update";
    let scanned = |run: &Value| run["background"][0]["rows"].as_u64().unwrap();
    let document = good_for(&["1s", "10s", "60s"], line, |run| {
        operations(run) > 0 && scanned(run) > 0 && moved(run, "log") > 0
    });
    assert_eq!(runs(&document).len(), 2);
    for run in runs(&document) {
        assert_eq!(run["background"].as_array().unwrap().len(), 4);
        assert!(run["counts"]["checkpoints_asked"].is_u64(), "{run:#}");
        assert!(!run["timeline"].as_array().unwrap().is_empty());
    }
}

#[test]
fn what_goes_on_beside_keeps_to_its_part_of_a_processor() {
    let line =
        "oltp --policy aggressive --threads 1 --rate 20/s --beside scan,backup --beside-cpu 5";
    let scanned = |run: &Value| run["background"][0]["rows"].as_u64().unwrap();
    let document = good_for(&["1s", "10s"], line, |run| scanned(run) > 0);
    let run = &runs(&document)[0];
    assert_eq!(run["beside_cpu_share"], 0.05);
    let ns = |field: &str| run["cpu"][field].as_f64().unwrap();
    let used = (ns("user_ns") + ns("system_ns")) / run["duration_ns"].as_f64().unwrap();
    assert!(used < 0.5, "{used:.2} processors");
}

#[test]
fn commits_need_no_reads() {
    let line = "commit --policy conservative --threads 2 --order key --backend threads";
    let document = good_for(&["300ms", "3s", "30s"], line, |run| operations(run) > 0);
    assert_eq!(runs(&document)[0]["backend"], "threads");
}

#[test]
fn text_and_report_are_for_people() {
    let directory = scratch();
    let line = format!("scan,commit {TINY} --policy aggressive --runtime 300ms --report page.html");
    let output = iolane(directory.path(), &line).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["rows/s", "tx/s", "into a pool", "data idle", "role"] {
        assert!(text.contains(expected), "{text}");
    }
    let page = fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("<script"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let directory = scratch();
    for line in [
        "scan --rate 100/s",
        "sort",
        "scan,scan",
        "scan --rows 0",
        "scan --directory missing",
        "scan --model no-such-disk",
    ] {
        let output = iolane(directory.path(), line).output().unwrap();
        let code = output.status.code().unwrap();
        assert!(code == 1 || code == 2, "{line}: {code}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

fn is_mounted_in(directory: &Path, name: &str) -> bool {
    let mounted = mounted_in(directory);
    mounted.iter().any(|place| place.ends_with(name))
}

#[test]
fn a_modelled_disk_is_served_for_the_run() {
    let directory = scratch();
    let line = format!(
        "scan {TINY} --model constant-100us --policy aggressive --runtime 10m --output-format json"
    );
    let Output {
        status,
        stdout,
        stderr,
    } = iolane(directory.path(), &line).output().unwrap();
    if status.code() == Some(2) {
        skipped(String::from_utf8_lossy(&stderr));
    } else {
        let document: Value = serde_json::from_slice(&stdout).unwrap();
        assert!(status.success(), "{document:#}");
        assert_eq!(document["options"]["model"], "constant-100us");
        let run = &runs(&document)[0];
        assert_eq!(run["operations"], 4000);
        // Nothing but the model makes each read take so long.
        let rows = run["ledger"].as_array().unwrap().iter();
        let most = rows.max_by_key(|row| row["requests"].as_u64()).unwrap();
        assert!(most["device_mean_ns"].as_f64() > Some(80_000.0), "{run:#}");
    }
    assert!(mounted_in(directory.path()).is_empty());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn ctrl_c_leaves_nothing() {
    ended_by("INT", "", |directory| {
        fs::read_dir(directory).unwrap().count() > 0
    });
}

#[test]
fn ctrl_c_takes_a_modelled_disk_away() {
    // The file system, on the loop device, on the served disk.
    ended_by("INT", "--model constant-100us", |directory| {
        is_mounted_in(directory, "files")
    });
}

#[test]
fn a_kill_takes_a_modelled_disk_away() {
    for begins in ["disk", "files"] {
        ended_by("KILL", "--model constant-100us", |directory| {
            is_mounted_in(directory, begins)
        });
    }
}

/// Ends a run when it has come so far.
fn ended_by(signal: &str, option: &str, has_come_so_far: impl Fn(&Path) -> bool) {
    let directory = scratch();
    let line = format!("oltp --rows 4000 --log-size 8m --runtime 60s {option}");
    let mut command = iolane(directory.path(), &line);
    iolane_testing::ended_by(signal, &mut command, directory.path(), has_come_so_far);
}
