//! `iolane bench regret`: the documents that come out, and that a load can be
//! run again alone.

use std::process::{Command, Output};

use serde_json::Value;

fn regret(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command
        .args(["bench", "regret"])
        .args(arguments.split_whitespace());
    command.output().unwrap()
}

fn document(arguments: &str) -> Value {
    let output = regret(&format!("{arguments} --output-format json"));
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_document_has_the_figures_and_a_load_can_be_run_again() {
    let document = document("--models aws-gp3,constant-100us/rotational=1 --loads 3 --seed 5");
    assert_eq!(document["schema"], "iolane.bench.regret/1");
    let summary = &document["summary"];
    for of in ["latency_regret", "throughput_regret"] {
        for figure in ["median", "p95", "worst"] {
            assert!(summary[of][figure].as_f64().unwrap() >= 1.0, "{summary}");
        }
    }
    assert!(summary["worse_than_noop"].is_u64());
    assert!(summary.get("lower_work_of_window_1_min").is_some());
    assert_eq!(summary["loads"], 6);
    let models = document["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    assert_eq!(models[1]["model"], "constant-100us/rotational=1");
    assert_eq!(models[1]["loads"], 3);
    let loads = document["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 6);
    let load = &loads[4];
    let runs = load["runs"].as_array().unwrap();
    let policies: Vec<&str> = runs
        .iter()
        .map(|run| run["policy"].as_str().unwrap())
        .collect();
    assert_eq!(policies[..3], ["lanes", "noop", "window 1"]);
    assert_eq!(policies[10], "window 256");

    let again = self::document(&format!(
        "--models {} --load-seed {}",
        load["model"].as_str().unwrap(),
        load["load_seed"]
    ));
    assert_eq!(&again["loads"][0], load);
}

#[test]
fn the_worst_loads_come_with_their_command_and_picture() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("regret.html");
    let output = regret(&format!(
        "--models cloud-1ms --loads 12 --verbose --report {}",
        report.display()
    ));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n10. cloud-1ms: latency "), "{text}");
    assert!(!text.contains("\n11. cloud-1ms"), "{text}");
    let commands = text
        .lines()
        .filter(|line| line.starts_with("   iolane bench regret --models cloud-1ms --load-seed "));
    assert_eq!(commands.count(), 10);
    // Each run of every load, and the table's head.
    let runs = text
        .lines()
        .filter(|line| line.starts_with("cloud-1ms  100"));
    assert_eq!(runs.count(), 12 * 11, "{text}");
    let page = std::fs::read_to_string(report).unwrap();
    assert_eq!(page.matches("<svg").count(), 10);
}

#[test]
fn what_does_not_exist_is_refused() {
    for (arguments, message) in [
        ("--models none", "there is no modelled disk 'none'"),
        ("--loads 0", "0 is outside 1 to 100000"),
        ("--load-seed 3 --loads 2", "cannot be used with"),
    ] {
        let output = regret(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(message), "{error}");
    }
}
