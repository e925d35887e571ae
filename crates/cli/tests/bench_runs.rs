//! Real, tiny runs of the built binary: documents and exit codes, no figures.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A disk is needed; the system's temporary directory is often memory.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn iolane(directory: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(["bench"])
        .args(line.split_whitespace())
        .args(["--output-format", "json"])
        .current_dir(directory)
        .output()
        .unwrap()
}

#[track_caller]
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let [text, complaint] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        panic!("{error}: {text}\n{complaint}")
    })
}

/// A run that must succeed; leaves nothing in its directory.
#[track_caller]
fn good(line: &str, schema: &str) -> Value {
    let directory = scratch();
    let output = iolane(directory.path(), line);
    let document = document(&output);
    assert_eq!(output.status.code(), Some(0), "{line}: {document:#}");
    assert_eq!(document["schema"], schema);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    document
}

/// A run that must fail with this exit code and a message with this in it.
#[track_caller]
fn bad(directory: &Path, line: &str, code: i32, expected: &str) {
    let output = iolane(directory, line);
    let document = document(&output);
    assert_eq!(output.status.code(), Some(code), "{line}: {document:#}");
    assert_eq!(document["schema"], "iolane.error/1", "{line}");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains(expected), "{line}: {message}");
    assert!(!document["error"]["remedy"].as_str().unwrap().is_empty());
}

const SHORT: &str = "--size 1m --runtime 30ms --warm-up 0s";

fn runs(document: &Value) -> &Vec<Value> {
    document["runs"].as_array().unwrap()
}

#[test]
fn batch_has_a_run_for_each_combination() {
    let line = format!(
        "batch {SHORT} --io buffered --batch-sizes 1,8 --pending 16 --block-sizes 4k,16k \
         --backends auto,threads --merging off,on"
    );
    let document = good(&line, "iolane.bench.batch/1");
    let backends = document["options"]["backends"].as_array().unwrap();
    assert!(
        !backends.iter().any(|name| name == "auto"),
        "auto has a name"
    );
    assert_eq!(runs(&document).len(), backends.len() * 8);
    for run in runs(&document) {
        assert_eq!(run["pending"], 16);
        assert_eq!(run["latency_ns"]["count"], run["operations"]);
        let bytes = run["bytes_per_second"].as_f64().unwrap();
        let operations = run["operations_per_second"].as_f64().unwrap();
        let block = run["block_size_bytes"].as_f64().unwrap();
        assert!((bytes - operations * block).abs() <= bytes * 1e-9);
        assert!(run["cpu"]["ns_per_operation"].is_number());
        if run["merging"] == "off" {
            assert!(run["transfers"].as_u64().unwrap() + 1 >= run["hand_overs"].as_u64().unwrap());
        }
    }
}

#[test]
fn batch_writes_to_its_own_scratch_file_and_repeats() {
    let line = format!(
        "batch {SHORT} --io buffered --operation write --pattern sequential --batch-sizes 4 \
         --pending 4 --block-sizes 64k --backends auto --repeat 2"
    );
    let document = good(&line, "iolane.bench.batch/1");
    assert_eq!(runs(&document).len(), 1);
    assert_eq!(runs(&document)[0]["spread"]["repetitions"], 2);
}

#[test]
fn large_blocks_have_fewer_pending_and_say_so() {
    let line = "batch --size 64m --runtime 30ms --warm-up 0s --io buffered --batch-sizes 1 \
                --pending 1000 --block-sizes 64m --backends auto";
    let document = good(line, "iolane.bench.batch/1");
    assert!(runs(&document)[0]["pending"].as_u64().unwrap() < 1000);
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(warning.contains("their buffers take at most"), "{warning}");
}

#[test]
fn commit_has_a_run_for_each_combination_and_reads_its_log_back() {
    let line = format!(
        "commit {SHORT} --io buffered --threads 1,3 --methods o_dsync,fdatasync,fsync,none \
         --record-size 100"
    );
    // Syncs and commits are taken down one after the other, and where a thread
    // has to wait for a processor between the two, more is done in between. Not
    // each time; what is counted wrongly is.
    let attempt = || {
        let document = good(&line, "iolane.bench.commit/1");
        assert_eq!(runs(&document).len(), 16);
        let mut runs = runs(&document).iter();
        runs.try_for_each(syncs_are_the_commits).err()
    };
    let missed: Vec<String> = (0..ATTEMPTS_MAX).map_while(|_| attempt()).collect();
    assert!(missed.len() < ATTEMPTS_MAX, "{missed:#?}");
}

const ATTEMPTS_MAX: usize = 10;

/// Looks at a run with one setting.
fn syncs_are_the_commits(run: &Value) -> Result<(), String> {
    let syncs = run["syncs"].as_u64().unwrap();
    let commits = run["operations"].as_u64().unwrap();
    assert_eq!(run["latency_ns"]["count"], commits);
    assert_eq!(run["record_size_bytes"], 100);
    let threads = run["threads"].as_u64().unwrap();
    if run["method"] == "none" {
        assert_eq!(syncs, 0);
    } else if run["group_commit"] == "off" {
        // Those that straddle the ends of the measured time. A durable
        // write over the end of the file counts as two.
        let wraps = commits * 124 / (1 << 20) + 1;
        let most = if run["method"] == "o_dsync" { wraps } else { 0 };
        if syncs.abs_diff(commits) > threads + 2 + most {
            return Err(format!("{run:#}"));
        }
    }
    Ok(())
}

#[test]
fn direct_commits_where_the_disk_can() {
    let directory = scratch();
    let line = format!("commit {SHORT} --io direct --threads 2 --methods o_dsync");
    let output = iolane(directory.path(), &line);
    let document = document(&output);
    if output.status.code() == Some(0) {
        assert_eq!(runs(&document).len(), 2);
        assert_eq!(runs(&document)[0]["io"], "direct");
    } else {
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains("direct I/O"), "{message}");
    }
}

#[test]
fn hugepages_measures_what_there_is_and_explains_the_rest() {
    let line = "hugepages --cache-size 4m --lookups 1000 --reads 20 --samples 2 --processes 2 \
                --scratch-size 1m --directory . --repeat 2";
    let document = good(line, "iolane.bench.hugepages/1");
    let kinds = document["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 4);
    let plain = &kinds[0]["outcome"];
    assert_eq!(plain["outcome"], "measured");
    assert_eq!(plain["lookup_ns"]["samples"].as_array().unwrap().len(), 4);
    assert_eq!(document["samples"], 4);
    assert_eq!(kinds[3]["outcome"]["outcome"], "skipped");
    assert!(kinds[3]["outcome"]["remedy"].is_string());
}

#[test]
fn reports_are_written() {
    let directory = scratch();
    for line in [
        format!("batch {SHORT} --io buffered --batch-sizes 1,2 --pending 4 --block-sizes 4k --backends auto"),
        format!("commit {SHORT} --io buffered --threads 2 --methods fdatasync"),
        "hugepages --cache-size 4m --lookups 1000 --reads 20 --samples 2 --processes 2 --scratch-size 1m".to_owned(),
    ] {
        let output = iolane(directory.path(), &format!("{line} --report r.html"));
        assert_eq!(output.status.code(), Some(0), "{line}");
        let page = fs::read_to_string(directory.path().join("r.html")).unwrap();
        assert!(page.contains("<svg") && page.ends_with("</html>"));
        assert!(!page.contains("NaN"), "{line}");
    }
}

#[test]
fn nonsense_exits_with_1() {
    let directory = scratch();
    for (line, expected) in [
        (
            "batch --batch-sizes 100 --pending 10",
            "cannot be built from 10 pending",
        ),
        ("batch --batch-sizes 0", "0 is outside 1 to 4096"),
        ("batch --block-sizes 0", "0 is outside 512 B to 64 MiB"),
        ("batch --block-sizes many", "many"),
        (
            "batch --size 64m --batch-sizes 1024 --block-sizes 64m --io buffered",
            "a batch of 1024 requests of 64 MiB needs more than",
        ),
        ("commit --threads 0", "0 is outside 1 to 1024"),
        ("commit --record-size 0", "0 is outside 1 B to 1 MiB"),
        (
            "commit --size 1m --record-size 1m --io buffered",
            "a log of 1 MiB is too small for records of 1 MiB",
        ),
        ("commit --methods msync", "msync"),
        ("hugepages --cache-size 1k", "outside 2 MiB"),
        ("hugepages --samples 0", "0 is outside"),
    ] {
        bad(directory.path(), line, 1, expected);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_the_machine_cannot_do_exits_with_2() {
    let directory = scratch();
    for (line, expected) in [
        ("batch --file /nonexistent/file", "does not exist"),
        ("batch --file /", "is a directory"),
        ("commit --directory /nonexistent", "does not exist"),
        ("hugepages --file /nonexistent/file", "does not exist"),
        (
            "hugepages --cache-size 4m --directory /nonexistent",
            "writing the scratch file",
        ),
    ] {
        bad(directory.path(), line, 2, expected);
    }
}

#[test]
fn a_file_system_without_direct_io_is_named() {
    // Regular, large enough, and sysfs has no direct I/O. Kernels without BTF
    // have no such file.
    let path = "/sys/kernel/btf/vmlinux";
    if !Path::new(path).exists() {
        iolane_testing::skipped(format_args!("no {path} here"));
        return;
    }
    let directory = scratch();
    for command in ["batch", "hugepages --cache-size 4m"] {
        let line = format!("{command} --file {path}");
        bad(
            directory.path(),
            &line,
            2,
            "takes no direct I/O (file system: sysfs)",
        );
    }
}

#[test]
fn batches_one_after_the_other_reach_the_kernel_as_they_are() {
    let line = format!(
        "batch {SHORT} --io buffered --batch-sizes 1,16 --pending 0 --block-sizes 4k --backends auto"
    );
    let document = good(&line, "iolane.bench.batch/1");
    for run in runs(&document) {
        assert_eq!(run["pending"], 0);
        let count = |name: &str| run[name].as_u64().unwrap();
        // Transfers count when dispatched, hand-overs when the driver has done
        // them: one may lie on the other side of the measured time's end.
        let most = (count("hand_overs") + 1) * count("batch_size");
        assert!(count("transfers") <= most, "{run:#}");
    }
}

#[test]
fn an_existing_file_is_not_written_to_without_consent() {
    let directory = scratch();
    let path = directory.path().join("table.ibd");
    let contents = vec![7; 1 << 20];
    fs::write(&path, &contents).unwrap();
    for line in [
        "batch --io buffered --operation write --file table.ibd",
        "commit --io buffered --file table.ibd",
    ] {
        bad(
            directory.path(),
            line,
            1,
            "would destroy what is in table.ibd",
        );
        assert!(fs::read(&path).unwrap() == contents, "{line}");
    }
    let line = "commit --io buffered --file table.ibd --destructive --runtime 30ms --warm-up 0s \
                --threads 1 --methods fdatasync --group-commit on";
    let output = iolane(directory.path(), line);
    assert_eq!(output.status.code(), Some(0));
    assert!(fs::read(&path).unwrap() != contents, "with consent it is");
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}
