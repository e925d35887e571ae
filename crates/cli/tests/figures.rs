//! `iolane figures`: the figures against the documents, and the documents that
//! come out.

use std::path::Path;
use std::process::{Command, Output};

use iolane_cli::args::common::{OutputArgs, OutputFormat};
use iolane_cli::args::figures::FiguresArgs;
use iolane_cli::bench::Bench;
use iolane_cli::figures::report::{Figure, Verdict};
use iolane_cli::figures::{Figures, measure};
use iolane_cli::session::Session;
use iolane_testing::{ended_by, mounted_in, skipped};
use serde_json::Value;

fn figure(name: &str) -> Figure {
    let options = Figures::options(FiguresArgs {
        real: false,
        table_size: 64 << 20,
        cache_size: 1 << 30,
        directory: None,
        model: None,
        names: vec![name.to_owned()],
        list: false,
        seed: 1,
        output: OutputArgs {
            output_format: OutputFormat::Text,
            output: None,
            report: None,
        },
    })
    .unwrap();
    let mut outcome = measure(&options, None, &Session::quiet()).unwrap();
    outcome.figures.remove(0)
}

fn ours(figure: &Figure, what: &str) -> f64 {
    let found = figure.comparison(what);
    found.unwrap_or_else(|| panic!("{what} is compared")).ours
}

/// Every value is at most 15 % off, but for those named here, which the page
/// explains.
fn assert_fits_but_for(figure: &Figure, excepted: &[&str]) {
    for one in &figure.comparisons {
        let differs = one.verdict == Verdict::Differs;
        let is_excepted = excepted.contains(&one.what.as_str());
        assert_eq!(differs, is_excepted, "{}: {one:?}", figure.name);
        assert_eq!(differs, one.explanation.is_some(), "{one:?}");
    }
}

#[test]
fn throughput_by_outstanding_requests_is_the_papers() {
    assert_fits_but_for(&figure("hall-bonnet-1"), &[]);
    assert_fits_but_for(&figure("hall-bonnet-2"), &[]);
}

#[test]
fn latency_by_outstanding_requests_is_the_papers() {
    let figure = figure("hall-bonnet-3");
    let reads = "direct reads, 128 outstanding";
    assert_fits_but_for(&figure, &[reads]);
    // What 128 pages take at the paper's own 4.5 to 5 MB/s, less 15 %.
    let ms = ours(&figure, reads);
    assert!((0.85 * 400.0..=1.15 * 444.0).contains(&ms), "{ms}");
}

#[test]
fn a_mix_of_priorities_behaves_as_the_papers() {
    let figure = figure("hall-bonnet-7");
    assert_fits_but_for(
        &figure,
        &[
            "total, 10 % high",
            "low priority, 10 % high",
            "low priority, 50 % high",
        ],
    );
    let total = |share| ours(&figure, &format!("total, {share} % high"));
    assert!(total(10) > 3.0 && total(30) > total(10));
    let low = |share| ours(&figure, &format!("low priority, {share} % high"));
    assert!(low(30) > 1.4 * low(10));
    assert!((low(70) / low(30) - 1.0).abs() < 0.15, "flat");

    // Larger groups of low requests, earlier knees.
    let knees: Vec<Option<f64>> = figure.tables[1]
        .rows
        .iter()
        .map(|row| serde_json::to_value(&row[1]).unwrap().as_f64())
        .collect();
    let below_10 = knees.len() - 1;
    assert_eq!(knees[below_10], None, "{knees:?}");
    let knees: Vec<f64> = knees[..below_10].iter().map(|knee| knee.unwrap()).collect();
    assert!(
        knees.windows(2).all(|pair| pair[0] > pair[1] + 2.0),
        "{knees:?}"
    );
}

#[test]
fn with_priority_the_random_reader_is_as_if_alone() {
    let figure = figure("hall-bonnet-8");
    assert_fits_but_for(
        &figure,
        &[
            "random, high priority (lanes)",
            "random, high priority (prio-deadline)",
        ],
    );
    let alone = ours(&figure, "random alone");
    assert!(ours(&figure, "random, equal priority") > 1.7 * alone);
    let priority = ours(&figure, "random, high priority (lanes, page by page)");
    assert!(priority <= 1.15 * alone, "{priority} ms, {alone} ms alone");
    let sequential = "sequential with low priority (lanes, page by page), of its latency alone";
    assert!(ours(&figure, sequential) < 110.0);
}

#[test]
fn cfq_and_anticipatory_collapse_on_eight_committing_threads() {
    let figure = figure("schedulers-revisited");
    assert_fits_but_for(
        &figure,
        &[
            "deadline, 8 threads",
            "noop, 8 threads",
            "cfq, 1 thread",
            "cfq, 8 threads",
            "anticipatory, 8 threads",
            "deadline, 8 threads, busy",
        ],
    );
    for name in ["deadline", "noop"] {
        let one = ours(&figure, &format!("{name}, 1 thread"));
        let eight = ours(&figure, &format!("{name}, 8 threads"));
        assert!(eight > 2.0 * one, "{name}: {one}, {eight}");
    }
    let alone = ours(&figure, "cfq, 1 thread");
    let collapsed = ours(&figure, "cfq, 8 threads");
    assert!(collapsed < 0.25 * alone);
    let anticipatory = ours(&figure, "anticipatory, log in two places, 8 threads");
    assert!(anticipatory < 0.25 * alone && anticipatory > collapsed);
}

#[test]
fn many_small_reads_in_one_call_are_as_fast_as_large_ones() {
    let figure = figure("bug-68659");
    assert_fits_but_for(&figure, &["1 MiB, 64 at once"]);
    let few = ours(&figure, "16 KiB, 1 at once");
    let many = ours(&figure, "16 KiB, 64 at once");
    assert!(many > 6.0 * few, "{few}, {many}");
    assert!((many / ours(&figure, "1 MiB, 1 at once") - 1.0).abs() < 0.1);
}

#[test]
fn the_same_seed_gives_the_same_figure() {
    let document = || serde_json::to_string(&figure("bug-68659")).unwrap();
    assert_eq!(document(), document());
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command.arg("figures").args(arguments);
    command
}

fn iolane(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// On tables of a few pages.
fn measured_in<'a>(directory: &'a Path, options: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["--real", "--table-size", "4m", "--directory"];
    arguments.push(directory.to_str().unwrap());
    arguments.extend(options);
    arguments
}

#[test]
fn what_is_measured_is_listed_and_needs_a_word() {
    let list = iolane(&["--list"]);
    assert!(list.status.success());
    let list = String::from_utf8(list.stdout).unwrap();
    for name in [
        "hall-bonnet-4",
        "hall-bonnet-5",
        "hall-bonnet-6",
        "hall-bonnet-9",
        "linux-2003-3.1",
        "linux-2003-3.3",
        "linux-2003-5.3",
        "percona-2013",
    ] {
        let line = list.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("needs --real"), "{line}");
        let refused = iolane(&[name]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(refused.stdout.is_empty());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("needs --real"));
    }
}

#[test]
fn a_storage_managers_figures_are_measured_and_leave_nothing() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let options = ["hall-bonnet-4", "hall-bonnet-9", "--output-format", "json"];
    let output = iolane(&measured_in(directory.path(), &options));
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["target"]["kind"], "directory");
    assert!(document["options"]["model"].is_null());
    let figures = document["figures"].as_array().unwrap();
    let names: Vec<&Value> = figures.iter().map(|figure| &figure["name"]).collect();
    assert_eq!(names, ["hall-bonnet-4", "hall-bonnet-9"]);
    assert_eq!(figures[0]["comparisons"].as_array().unwrap().len(), 3);
    assert_eq!(figures[1]["tables"][0]["rows"].as_array().unwrap().len(), 3);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A copy of a preset, with a blank in its name.
const MODEL_FILE: &str = "a disk.toml";

#[test]
fn figures_can_be_had_on_a_modelled_disk() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let show = Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(["disk", "show", "constant-100us"])
        .output()
        .unwrap();
    let model = elsewhere.path().join(MODEL_FILE);
    std::fs::write(&model, show.stdout).unwrap();
    let model = model.to_str().unwrap();
    let options = ["hall-bonnet-4", "--model", model, "--output-format", "json"];
    let output = iolane(&measured_in(directory.path(), &options));
    if output.status.code() == Some(2) {
        skipped(String::from_utf8_lossy(&output.stderr));
    } else {
        assert!(output.status.success(), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["options"]["model"], model);
        let method = &document["figures"][0]["method"];
        let on = method[0].as_str().unwrap();
        assert!(on.contains("modelled disk"), "{on}");
        // What can be typed again.
        let line = method[1].as_str().unwrap();
        assert!(line.starts_with("iolane bench store scan "), "{line}");
        assert!(line.ends_with(&format!(" --model '{model}'")), "{line}");
        let read = document["figures"][0]["tables"][0]["rows"][0][2].as_f64();
        assert!(read > Some(0.0), "{document:#}");
    }
    assert!(mounted_in(directory.path()).is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn ctrl_c_takes_the_modelled_disk_away() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let options = ["linux-2003-5.3", "--model", "constant-100us"];
    let mut command = command(&measured_in(directory.path(), &options));
    ended_by("INT", &mut command, directory.path(), |directory| {
        let mounted = mounted_in(directory);
        mounted.iter().any(|place| place.ends_with("files"))
    });
}

#[test]
fn what_has_no_effect_on_a_figure_is_refused() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let refused = |arguments: &[&str], said: &str| {
        let output = command(arguments).current_dir(directory.path()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(said), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{output:?}");
    };
    refused(&["--model", "constant-100us"], "--real");
    refused(&["--cache-size", "8m"], "--real");
    refused(&["--real", "--cache-size", "2m"], "outside 4 MiB");
    let memory = ["--real", "linux-2003-3.1", "--model", "constant-100us"];
    refused(&memory, "no disk has a part");
    let unknown = ["--real", "hall-bonnet-4", "--model", "no-such-disk"];
    refused(&unknown, "no-such-disk");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_buffer_caches_figures_are_measured_or_explained() {
    let output = iolane(&[
        "--real",
        "linux-2003-3.1",
        "linux-2003-3.3",
        "--cache-size",
        "4m",
        "--output-format",
        "json",
    ]);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["target"].is_null(), "no disk is touched");
    assert_eq!(document["options"]["cache_size_bytes"], 4 << 20);
    let figures = document["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 2);
    for figure in figures {
        let plain = &figure["tables"][0]["rows"][0];
        assert!(plain[0].as_str().unwrap().ends_with("KiB"), "{figure:#}");
        let line = figure["method"][1].as_str().unwrap();
        assert!(line.starts_with("iolane bench hugepages "), "{line}");
        let notes = figure["notes"].as_array().unwrap();
        let none = |note: &Value| note.as_str().unwrap().starts_with("No 1 GiB pages: ");
        assert!(notes.iter().any(none), "{notes:?}");
    }
}

#[test]
fn documents_have_the_documented_fields() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("figures.html");
    let output = iolane(&[
        "bug-68659",
        "--output-format",
        "json",
        "--report",
        report.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iolane.figures/1");
    assert_eq!(document["options"]["names"][0], "bug-68659");
    assert_eq!(document["catalogue"].as_array().unwrap().len(), 16);
    let figure = &document["figures"][0];
    assert_eq!(figure["name"], "bug-68659");
    let first = &figure["comparisons"][0];
    assert_eq!(first["document"]["min"], 161.86);
    assert_eq!(first["verdict"], "given");
    let table = &figure["tables"][0];
    assert_eq!(table["columns"][1]["unit"], "MB/s");
    assert_eq!(
        table["rows"][0].as_array().unwrap().len(),
        table["columns"].as_array().unwrap().len()
    );
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("href="));
}
