//! `iolane bench` as its users start it: real measurements, in short.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn iolane(arguments: &str, directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(arguments.split_whitespace())
        .arg("--directory")
        .arg(directory)
        .output()
        .unwrap()
}

/// A directory on a disk: what /tmp is in memory on some machines.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[track_caller]
fn document(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// All but how long.
const COURSE: &str = "--warm-up 100ms --size 64M --output-format json";
/// Where the machine stalls for as long as is measured, there is nothing to look
/// at: then once more, for longer.
const RUNTIMES_MS: [u64; 4] = [300, 2000, 10_000, 60_000];

/// Measures until each load has moved something.
#[track_caller]
fn measured(arguments: &str, directory: &Path) -> Value {
    let lines = RUNTIMES_MS.map(|ms| format!("{arguments} {COURSE} --runtime {ms}ms"));
    let documents = lines.iter().map(|line| document(&iolane(line, directory)));
    let mut documents = documents.filter(|document| !has_empty_load(&document["runs"]));
    documents.next().expect("loads that move something")
}

fn has_empty_load(value: &Value) -> bool {
    match value {
        Value::Array(all) => all.iter().any(has_empty_load),
        Value::Object(all) => {
            all.get("operations")
                .is_some_and(|operations| *operations == 0)
                || all.values().any(has_empty_load)
        }
        _ => false,
    }
}

#[track_caller]
fn check_load(load: &Value) {
    assert!(
        load["operations_per_second"].as_f64().unwrap() > 0.0,
        "{load}"
    );
    for name in ["count", "mean", "p50", "p99", "p99.9", "max"] {
        assert!(load["latency_ns"][name].as_f64().unwrap() > 0.0, "{name}");
    }
    assert_eq!(load["latency_ns"]["count"], load["operations"]);
}

#[test]
fn mix_compares_policies_and_windows() {
    let directory = disk();
    let document = measured("bench mix --windows 4", directory.path());
    assert_eq!(document["schema"], "iolane.bench.mix/1");
    assert!(document["environment"]["kernel_release"].is_string());
    assert_eq!(document["target"]["size_bytes"], 64 << 20);
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs
        .iter()
        .map(|run| run["policy"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["noop", "deadline", "prio-deadline", "lanes", "lanes"]
    );
    for run in runs {
        check_load(&run["foreground"]);
        check_load(&run["background"]);
        let sum = ["foreground", "background"]
            .map(|side| run[side]["bytes_per_second"].as_f64().unwrap());
        let total = run["total_bytes_per_second"].as_f64().unwrap();
        assert!((total - sum[0] - sum[1]).abs() < 1.0);
        assert!(run["cpu"]["ns_per_operation"].as_f64().unwrap() > 0.0);
    }
    assert!(runs[3]["learned"][0]["window_requests"].as_f64().unwrap() >= 1.0);
    assert_eq!(
        (&runs[4]["kind"], &runs[4]["window"]),
        (&"fixed_window".into(), &4.into())
    );
    assert!(runs[4].get("learned").is_none());
    assert!(is_empty(directory.path()), "the scratch file is gone");
}

#[test]
fn mix_in_open_loop_with_mixed_writes_behind() {
    let directory = disk();
    let line = "bench mix --policies lanes --foreground-rate 200/s --background-operation write \
                --background-block-size 4k,64k --background-pattern sequential \
                --background-depth 8 --repeat 2";
    let both_sizes = |run: &Value| run["background"]["operations"].as_u64().unwrap() > 30;
    let (ms, document) = RUNTIMES_MS
        .into_iter()
        .map(|ms| {
            let line = format!("{line} {COURSE} --runtime {ms}ms");
            (ms, document(&iolane(&line, directory.path())))
        })
        .find(|(_, document)| both_sizes(&document["runs"][0]))
        .expect("writes in the background");
    let run = &document["runs"][0];
    // Intended starts in two repetitions; a machine that stalled and could not
    // send them says so.
    let due = 2 * ms / 5;
    let count = run["foreground"]["operations"].as_u64().unwrap();
    let warned = !document["warnings"].as_array().unwrap().is_empty();
    let all = count + 2 >= due;
    assert!(count <= due + 2 && (all || warned), "{count} of {due}");
    assert_eq!(run["foreground"]["spread"]["repetitions"], 2);
    assert_eq!(run["learned"].as_array().unwrap().len(), 2);
    let background = &run["background"];
    let mean = background["bytes_per_second"].as_f64().unwrap()
        / background["operations_per_second"].as_f64().unwrap();
    assert!(mean > 4096.0 && mean < 65536.0, "both sizes occur: {mean}");
}

#[test]
fn mix_with_shares_of_high_priority() {
    let directory = disk();
    let line = "bench mix --policies prio-deadline --outstanding 20 --high-share 10,90 \
                --operation write --group-limit 4 --deadlines 250ms,1s,3s,6s,9s";
    let document = measured(line, directory.path());
    let runs = document["runs"].as_array().unwrap();
    let shares: Vec<u64> = runs
        .iter()
        .map(|run| run["high_share_percent"].as_u64().unwrap())
        .collect();
    assert_eq!(shares, [10, 90]);
    for run in runs {
        check_load(&run["foreground"]);
        check_load(&run["background"]);
    }
}

#[test]
fn sweep_names_the_knee_and_writes_its_report() {
    let directory = disk();
    let results = tempfile::tempdir().unwrap();
    let report = results.path().join("report.html");
    let line = format!("bench sweep --depths 1,4,16 --report {}", report.display());
    let document = measured(&line, directory.path());
    assert_eq!(document["schema"], "iolane.bench.sweep/1");
    let runs = document["runs"].as_array().unwrap();
    for (run, depth) in runs.iter().zip([1, 4, 16]) {
        assert_eq!(run["depth"], depth);
        check_load(run);
    }
    assert!(document["knee"]["knee"]["depth"].is_u64());
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
}

#[test]
fn every_backend_and_operation_sweeps() {
    let directory = disk();
    for backend in ["io_uring", "linux-aio", "threads"] {
        for rest in ["--operation write --pattern sequential", "--io buffered"] {
            let line = format!("bench sweep --depths 8 --backend {backend} {rest}");
            let short = format!("{line} {COURSE} --runtime 1ms");
            let output = iolane(&short, directory.path());
            if output.status.code() == Some(2) {
                // Forbidden here, and it says so.
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    said.contains(backend) && said.contains("--backend"),
                    "{said}"
                );
                iolane_testing::skipped(said);
                continue;
            }
            let document = measured(&line, directory.path());
            assert!(document["backend"].as_str().unwrap().starts_with(backend));
            check_load(&document["runs"][0]);
        }
    }
}

#[test]
fn a_file_system_without_direct_io_is_explained() {
    // Memory, on every Linux. Since 6.6 it pretends to take direct I/O.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let line = format!("bench mix {COURSE} --runtime 300ms");
    let direct = iolane(&line, directory.path());
    if direct.status.code() == Some(2) {
        let failure: Value = serde_json::from_slice(&direct.stdout).unwrap();
        assert_eq!(failure["error"]["kind"], "setup");
        let remedy = failure["error"]["remedy"].as_str().unwrap();
        assert!(remedy.contains("--io buffered"), "{remedy}");
    } else {
        document(&direct);
    }
    let document = measured("bench mix --io buffered --policies noop", directory.path());
    check_load(&document["runs"][0]["background"]);
    assert!(is_empty(directory.path()));
}

#[test]
fn text_ends_with_the_conclusion() {
    let directory = disk();
    let mut texts = Vec::new();
    for ms in RUNTIMES_MS {
        let line =
            format!("bench mix --runtime {ms}ms --warm-up 100ms --size 64M --policies noop,lanes");
        let output = iolane(&line, directory.path());
        let text = String::from_utf8(output.stdout).unwrap();
        let last = text.trim_end().lines().last().unwrap();
        let is_conclusion = last.starts_with("lanes: foreground p99 ");
        if is_conclusion && last.ends_with("of its total throughput.") {
            return;
        }
        texts.push(text);
    }
    panic!("{}", texts.join("\n"));
}

/// Nothing is written first: scratch of the size that is measured takes a while.
#[test]
fn whoever_may_not_change_the_scheduler_is_told_at_once() {
    const NOBODY: u32 = 65534;
    let directory = disk();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    let words =
        "bench mix --kernel-schedulers none --allow-scheduler-change --size 64M --directory";
    command.args(words.split_whitespace()).arg(directory.path());
    // As root, somebody else's.
    if chown(directory.path(), Some(NOBODY), Some(NOBODY)).is_ok() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let Ok(output) = command.output() else {
        iolane_testing::skipped("other users may not run the program where it was built");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("only root may change"), "{error}");
    assert!(is_empty(directory.path()));
}
