//! Arguments to options, and results to documents.

use std::path::Path;

use clap::FromArgMatches;
use serde_json::Value;

use super::batch::Batch;
use super::commit::Commit;
use super::hugepages::Hugepages;
use super::mix::{Arrival, Mix, MixLoad};
use super::sweep::Sweep;
use super::*;
use crate::args::needs;
use crate::environment::Environment;
use crate::output::html::page;
use crate::system::SystemPaths;

fn options<B: Bench>(line: &str) -> Result<B::Options, String> {
    let command = B::Arguments::augment_args(clap::Command::new("bench").no_binary_name(true));
    let parsed = command.try_get_matches_from(line.split_whitespace());
    let matches = parsed.map_err(|error| error.to_string())?;
    let words = |failure: Failure| format!("{failure} {}", failure.remedy());
    needs::check(&matches, B::NEEDS).map_err(words)?;
    let arguments = B::Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    B::options(arguments).map_err(words)
}

/// As in JSON: what the measuring code and the user see.
fn shown<B: Bench>(line: &str) -> Value {
    let options = options::<B>(line).unwrap_or_else(|message| panic!("{line}: {message}"));
    serde_json::to_value(options).unwrap()
}

#[track_caller]
fn refused<B: Bench>(line: &str, expected: &str) {
    match options::<B>(line) {
        Ok(_) => panic!("{line:?} was accepted"),
        Err(message) => assert!(message.contains(expected), "{line}: {message}"),
    }
}

#[test]
fn sweep_options() {
    let options = shown::<Sweep>("");
    assert_eq!(
        options["depths"],
        serde_json::json!([1, 2, 4, 8, 16, 32, 64, 128, 256])
    );
    assert_eq!(options["io"], "direct");
    assert_eq!(options["block_size_bytes"], 16384);
    assert_eq!(options["runtime_ns"], 5_000_000_000u64);
    let options = shown::<Sweep>(
        "--depths 1..3+1 --operation write --block-size 4kB --backend io_uring --io buffered --runtime 10s",
    );
    assert_eq!(options["depths"], serde_json::json!([1, 2, 3]));
    assert_eq!(options["block_size_bytes"], 4000);
    assert_eq!(options["backend"], "io_uring");
    assert_eq!(options["runtime_ns"], 10_000_000_000u64);
}

#[test]
fn a_write_sweep_writes_and_needs_consent() {
    let options = options::<Sweep>("--operation write --file /dev/x --destructive").unwrap();
    let request = Sweep::target(&options).unwrap();
    assert!(request.writes && !request.reads && request.direct && request.destructive);
    assert_eq!(request.file.as_deref(), Some(Path::new("/dev/x")));
}

#[test]
fn nonsense_is_refused() {
    refused::<Sweep>("--depths 0", "0 is outside 1 to 16384");
    refused::<Sweep>("--depths 1,70000", "outside 1 to 16384");
    refused::<Sweep>("--depths 4..2", "does not go up");
    refused::<Sweep>("--block-size 0", "0 is outside 512 B to 64 MiB");
    refused::<Sweep>("--block-size 1g", "outside 512 B to 64 MiB");
    refused::<Sweep>("--runtime 10", "has no unit");
    refused::<Sweep>("--runtime 0s", "0s is zero");
    refused::<Sweep>("--size 4k", "outside 1 MiB to");
    refused::<Sweep>("--repeat 0", "outside 1 to 1000");
    refused::<Sweep>("--backend aio", "invalid value");
    refused::<Sweep>("--file a --directory b", "cannot be used with");
    refused::<Mix>("--foreground-rate 500", "as in 500/s");
    refused::<Mix>(
        "--foreground-rate 500/s --foreground-depth 2",
        "cannot be used with",
    );
    refused::<Mix>("--outstanding 200", "--high-share");
    refused::<Mix>("--high-share 10", "--outstanding");
    refused::<Mix>(
        "--outstanding 9 --high-share 10 --background-depth 2",
        "cannot be used with",
    );
    refused::<Mix>("--outstanding 9 --high-share 100", "outside 1 to 99");
    refused::<Mix>("--outstanding 1 --high-share 10", "at least 2");
    refused::<Mix>("--policies noop,noop", "names something twice");
    refused::<Mix>("--policies cfq", "invalid value");
    refused::<Mix>("--objective latency=5ms --policies noop", "lanes");
    refused::<Mix>("--objective speed=5", "elasticity=0 to 10");
    refused::<Mix>("--kernel-schedulers all", "--allow-scheduler-change");
    refused::<Mix>("--deadlines 1s,2s", "2 deadlines given, 5 are needed");
    refused::<Mix>("--deadlines 5s,4s,3s,2s,1s", "must not get shorter");
    refused::<Batch>("--batch-sizes 1..4096", "cannot be built from 1000 pending");
    refused::<Batch>("--batch-sizes 5000", "outside 1 to 4096");
    refused::<Commit>("--threads 0", "outside 1 to 1024");
    refused::<Commit>("--record-size 2m", "outside 1 B to 1 MiB");
    refused::<Commit>("--io direct,direct", "names something twice");
    refused::<Batch>("--merging on,on", "names something twice");
    refused::<Hugepages>("--cache-size 1m", "outside 2 MiB to");
    refused::<Hugepages>("--processes 257", "outside 1 to 256");
    refused::<Hugepages>("--direct-reads 5", "--file");
}

#[test]
fn mix_options() {
    let defaults = options::<Mix>("").unwrap();
    let MixLoad::Separate {
        foreground,
        background,
    } = &defaults.load
    else {
        panic!("two streams by default");
    };
    assert_eq!(foreground.arrival, Arrival::Depth(1));
    assert_eq!(
        (background.depth, background.block_sizes_bytes.as_slice()),
        (128, &[16384][..])
    );
    let open = options::<Mix>(
        "--foreground-rate 500/s --background-block-size 4k,64k --background-operation write",
    )
    .unwrap();
    let request = Mix::target(&open).unwrap();
    assert!(request.reads && request.writes);
    assert_eq!(request.transfer_sizes_bytes, [4096, 65536, 16384]);
    assert_eq!(
        open.load.description(),
        "Foreground: random reads of 16 KiB, 500 per second. Background: random writes of 4 KiB, 64 KiB, 128 outstanding."
    );
    let shared = shown::<Mix>(
        "--outstanding 200 --high-share 10,20,..,90 --operation write --deadlines 250ms,1s,3s,6s,12s --windows 1..8",
    );
    assert_eq!(
        shared["load"]["shared"]["high_shares_percent"]
            .as_array()
            .unwrap()
            .len(),
        9
    );
    assert_eq!(shared["deadlines_ns"][0], 250_000_000);
    assert_eq!(shared["windows"], serde_json::json!([1, 2, 4, 8]));
}

#[test]
fn batch_and_commit_options() {
    let batch = shown::<Batch>("");
    assert_eq!(
        batch["batch_sizes"],
        serde_json::json!([1, 32, 64, 128, 256, 512, 1024])
    );
    assert_eq!(
        batch["block_sizes_bytes"],
        serde_json::json!([2048, 4096, 16384, 1 << 20])
    );
    assert_eq!(
        batch["backends"],
        serde_json::json!(["io_uring", "linux-aio", "threads"])
    );
    let commit = options::<Commit>("").unwrap();
    assert_eq!(commit.settings().len(), 24);
    let request = Commit::target(&commit).unwrap();
    assert!(request.writes && request.direct);
}

#[test]
fn mix_json_has_the_published_shape() {
    let document = serde_json::to_value(samples::mix()).unwrap();
    let run = &document["runs"][3];
    assert_eq!(run["policy"], "lanes");
    for side in ["foreground", "background"] {
        assert!(run[side]["operations_per_second"].as_f64().unwrap() > 0.0);
        for name in ["count", "mean", "p50", "p99", "p99.9", "max"] {
            assert!(run[side]["latency_ns"][name].is_number(), "{side} {name}");
        }
    }
    let sum =
        ["foreground", "background"].map(|side| run[side]["bytes_per_second"].as_f64().unwrap());
    assert_eq!(
        run["total_bytes_per_second"].as_f64().unwrap(),
        sum[0] + sum[1]
    );
    assert_eq!(document["runs"][8]["window"], 1);
    assert_eq!(document["runs"][6]["kind"], "kernel_ioprio");
    let learned = &run["learned"][0];
    assert_eq!(learned["window_requests"], 6.2);
    assert_eq!(learned["rate_limit"]["unit"], "requests");
    assert!(document["runs"][0].get("learned").is_none());
}

#[test]
fn every_result_is_one_json_object_with_runs() {
    for document in [
        serde_json::to_string(&samples::sweep()),
        serde_json::to_string(&samples::mix_with_shares()),
        serde_json::to_string(&samples::batch()),
        serde_json::to_string(&samples::commit()),
    ] {
        let document: Value = serde_json::from_str(&document.unwrap()).unwrap();
        assert!(!document["runs"].as_array().unwrap().is_empty());
    }
}

#[test]
fn repetitions_are_merged_run_by_run() {
    let mut sweep = samples::sweep();
    let before = sweep.runs[0].load.operations;
    sweep.merge(samples::sweep());
    assert_eq!(sweep.runs[0].load.operations, 2 * before);
    assert_eq!(sweep.runs[0].load.spread().unwrap().repetitions, 2);
    let mut mix = samples::mix();
    let before = mix.runs[3].total_bytes_per_second;
    mix.merge(samples::mix());
    assert!((mix.runs[3].total_bytes_per_second / before - 1.0).abs() < 1e-9);
    let mut commit = samples::commit();
    let before = (commit.runs[3].syncs, commit.runs[3].commits_per_sync);
    commit.merge(samples::commit());
    assert_eq!(
        (commit.runs[3].syncs, commit.runs[3].commits_per_sync),
        (2 * before.0, before.1)
    );
    let mut batch = samples::batch();
    let before = batch.runs[0].cpu.ns_per_operation;
    batch.merge(samples::batch());
    assert!((batch.runs[0].cpu.ns_per_operation / before - 1.0).abs() < 1e-9);
}

#[test]
fn tables_say_what_was_found() {
    let sweep = samples::sweep().text(Style::PLAIN);
    assert!(
        sweep.contains("Knee: depth 4 gives 68 % of the best throughput"),
        "{sweep}"
    );
    assert!(sweep.contains("Full: depth 32"), "{sweep}");
    let mix = samples::mix().text(Style::PLAIN);
    let last = mix.trim_end().lines().last().unwrap();
    assert!(
        last.starts_with("lanes: foreground p99 15.") && last.contains("x lower than noop ("),
        "{last}"
    );
    assert!(
        last.ends_with(" at 99 % of its total throughput."),
        "{last}"
    );
    for part in [
        "kernel bfq+ioprio",
        "window 128",
        "Learned by lanes: 6.20 requests in flight are enough;",
        "a rate limit of 48.0K requests/s.",
    ] {
        assert!(mix.contains(part), "{part}: {mix}");
    }
    assert!(samples::commit().text(Style::PLAIN).contains("fdatasync"));
    assert!(samples::batch().text(Style::PLAIN).contains("linux-aio"));
    for text in [sweep, mix] {
        assert!(!text.contains('\x1b'));
    }
}

fn demo_page<O: Outcome>(name: &str, outcome: &O) -> String {
    let environment = Environment::read(
        &SystemPaths::default(),
        None,
        format!("iolane bench {name}"),
    );
    let warnings = ["75.0 % of a <file> was never written".to_owned()];
    page(
        &format!("iolane bench {name}"),
        &environment,
        &warnings,
        &outcome.html(),
    )
}

#[test]
fn reports_are_self_contained_and_escaped() {
    let directory = std::env::var_os("IOLANE_DEMO_PAGES");
    for (name, page) in [
        ("sweep", demo_page("sweep", &samples::sweep())),
        ("mix", demo_page("mix", &samples::mix())),
        ("shares", demo_page("mix", &samples::mix_with_shares())),
        ("batch", demo_page("batch", &samples::batch())),
        ("commit", demo_page("commit", &samples::commit())),
        ("hugepages", demo_page("hugepages", &samples::hugepages())),
    ] {
        assert!(page.contains("<svg") && page.contains("a &lt;file&gt; was"));
        for outside in ["<script", "<link", "src=", "href=", "url(", "NaN", "inf "] {
            assert!(!page.contains(outside), "{name} has {outside}");
        }
        // For a look at them in a browser.
        if let Some(directory) = &directory {
            std::fs::write(Path::new(directory).join(format!("{name}.html")), page).unwrap();
        }
    }
}
