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
    let changing: Vec<&Value> = loads
        .iter()
        .filter(|one| !one["reaction"].is_null())
        .collect();
    assert!(!changing.is_empty());
    for load in changing {
        let runs = load["runs"].as_array().unwrap();
        assert_eq!(runs[0]["reaction"], load["reaction"]);
        let reacts = |run: &Value| run["reaction"]["ratio"].as_f64().unwrap() > 0.0;
        assert!(runs.iter().all(reacts), "{load}");
    }

    let again = self::document(&format!(
        "--models {} --load-seed {}",
        load["model"].as_str().unwrap(),
        load["load_seed"]
    ));
    assert_eq!(&again["loads"][0], load);
}

#[test]
fn in_hindsight_the_best_window_is_judged_in_place_of_lanes() {
    let arguments = "--models aws-gp3 --loads 2 --seed 5 --hindsight";
    let document = document(arguments);
    let of = |load: usize| &document["loads"][load];
    for load in [of(0), of(1)] {
        let judged = load["runs"][0]["policy"].as_str().unwrap();
        let window = judged.strip_prefix("hindsight ").expect(judged);
        assert!(window.parse::<u32>().unwrap().is_power_of_two());
        assert_eq!(load["runs"][1]["policy"], "noop");
    }
    let text = String::from_utf8(regret(arguments).stdout).unwrap();
    assert!(text.contains("what it regrets is chance"), "{text}");
    let again = format!("--load-seed {} --hindsight --verbose", of(0)["load_seed"]);
    assert!(text.contains(&again), "{text}");
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
        ("--repeat 2", "are for real disks"),
        ("--models nvme-ssd --directory /tmp", "are simulated"),
    ] {
        let output = regret(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(message), "{error}");
    }
}

/// A disk is needed; the system's temporary directory is often memory.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Loads with syncs, pauses, open loops, bursts and a change, on a real disk.
#[test]
fn a_real_disk_is_measured_and_nothing_is_left_on_it() {
    let directory = scratch();
    let target = format!(
        "--directory {} --size 64m --warm-up 20ms --runtime 50ms",
        directory.path().display()
    );
    let measured = document(&format!("{target} --loads 6 --seed 1"));
    let loads = measured["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 6);
    for load in loads {
        let runs = load["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 11);
        for run in runs {
            assert!(run["foreground_p99_ns"].as_u64().unwrap() > 0, "{load:#}");
            assert!(run.get("spread").is_none());
        }
        let lower = runs
            .iter()
            .map(|run| run["lower_operations"].as_u64().unwrap());
        assert!(lower.sum::<u64>() > 0, "{load:#}");
    }
    assert_eq!(measured["target"]["kind"], "scratch_file");

    let seed = &loads[0]["load_seed"];
    let repeated = document(&format!("{target} --load-seed {seed} --repeat 2"));
    let load = &repeated["loads"][0];
    // Rates are the disk's, what is done is not.
    let words = |load: &Value| {
        let text = load["description"].as_str().unwrap();
        text.split(',').next().unwrap().to_owned()
    };
    assert_eq!(words(load), words(&loads[0]));
    let run = &load["runs"][0];
    let [least, most] = [0, 1].map(|end| run["spread"]["foreground_p99_ns"][end].as_u64().unwrap());
    let median = run["foreground_p99_ns"].as_u64().unwrap();
    assert!(least <= median && median <= most, "{run}");
    let again = &load["measured_again"];
    let window = again["hindsight"]["policy"].as_str().unwrap();
    assert!(window.starts_with("hindsight "), "{again}");
    assert_eq!(again["lanes"]["policy"], "lanes");
    for judged in ["hindsight", "lanes"] {
        for of in ["latency_regret", "throughput_regret"] {
            assert!(again[judged][of].as_f64().unwrap() >= 1.0, "{again}");
            let summary = &repeated["summary"]["measured_again"][judged];
            assert_eq!(summary[of]["worst"], again[judged][of]);
        }
    }
    assert!(loads[0]["measured_again"].is_null());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_is_written_to_needs_consent() {
    let directory = scratch();
    let path = directory.path().join("data");
    std::fs::write(&path, vec![7; 64 << 20]).unwrap();
    let output = regret(&format!("--file {} --loads 1", path.display()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--destructive"));
    assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 7));
}
