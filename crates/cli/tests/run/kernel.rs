//! Mode `kernel`: priorities of the kernel's, by the names of processes.

use std::fs;
use std::process::{Command, Output};

use crate::place::{on_disk, report};
use crate::servers::has;

/// Waits until its own priority is one of class idle, and has a file open meanwhile.
const SCRIPT: &str = "exec 3>$0; tries=0
until ionice -p $$ | grep -q idle; do
    tries=$((tries + 1)); [ $tries -lt 600 ] || exit 9; sleep 0.05
done";

fn run(rules: &str) -> Option<(Output, serde_json::Value)> {
    if !has("ionice") {
        iolane_testing::skipped("ionice is not installed");
        return None;
    }
    let place = on_disk();
    let (to, by) = (place.path().join("report.json"), place.path().join("rules"));
    fs::write(&by, rules).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(["run", "--mode", "kernel", "--rules"])
        .arg(&by)
        .arg("--report")
        .arg(&to)
        .args(["--", "sh", "-c", SCRIPT])
        .arg(place.path().join("marked-file"))
        .output()
        .unwrap();
    Some((output, report(&to)))
}

#[test]
fn a_process_has_the_level_of_the_rule_that_names_it() {
    let rules = "[[rule]]\nrole = 'batch'\nprocess = '*marked-file*'\nlevel = 'background'\n";
    let Some((output, report)) = run(rules) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(report["schema"], "iolane.run.kernel/1");
    let role = &report["report"]["roles"][0];
    assert_eq!(
        (&role["role"], &role["level"]),
        (&"batch".into(), &"background".into())
    );
    for disk in report["report"]["disks"].as_array().unwrap() {
        // What was changed is back.
        let path = format!(
            "/sys/block/{}/queue/scheduler",
            disk["disk"].as_str().unwrap()
        );
        let now = fs::read_to_string(path).unwrap();
        let before = disk["scheduler_before"].as_str();
        assert!(
            before.is_none_or(|before| now.contains(&format!("[{before}]"))),
            "{report}"
        );
    }
}

#[test]
fn what_only_a_library_can_do_is_refused() {
    for option in ["--check", "--read-ahead=logical"] {
        let output = Command::new(env!("CARGO_BIN_EXE_iolane"))
            .args(["run", "--mode", "kernel", option, "--", "true"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{option}: {output:?}");
    }
}
