//! Programs without a profile of their own have the generic one.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::place::{has_disk, on_disk, report};
use crate::servers::has;

/// `iolane run` with these options and a shell's line, and where its report is.
fn run(directory: &Path, options: &[&str], line: &str) -> (Output, serde_json::Value) {
    let to = directory.join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command.arg("run").args(options).arg("--report").arg(&to);
    command
        .args(["--", "sh", "-c", line])
        .current_dir(directory);
    (successful(&mut command), report(&to))
}

fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// Role, operation and level of all that was done, each once.
fn done(report: &serde_json::Value) -> Vec<(String, String, String)> {
    let disks = report["report"]["disks"].as_array().unwrap();
    let roles = disks
        .iter()
        .flat_map(|disk| disk["roles"].as_array().unwrap());
    let text = |role: &serde_json::Value, field: &str| role[field].as_str().unwrap().to_owned();
    let mut done: Vec<_> = roles
        .map(|role| {
            (
                text(role, "role"),
                text(role, "operation"),
                text(role, "level"),
            )
        })
        .collect();
    done.sort();
    done.dedup();
    done
}

/// Small writes and a sync, a large write, a short read and a long one.
const LINE: &str = "dd if=/dev/zero of=small bs=4k count=4 oflag=direct conv=fsync && \
                    dd if=/dev/zero of=large bs=8M count=2 oflag=direct && \
                    dd if=small of=/dev/null bs=4k iflag=direct && \
                    dd if=large of=/dev/null bs=8M iflag=direct";

fn expect(report: &serde_json::Value, expected: &[(&str, &str, &str)]) {
    let done = done(report);
    for &(role, operation, level) in expected {
        let is_there = done.iter().any(|one| {
            (one.0.as_str(), one.1.as_str(), one.2.as_str()) == (role, operation, level)
        });
        assert!(is_there, "{role}, {operation}, {level}: {done:?}");
    }
}

#[test]
fn levels_go_by_what_a_request_is() {
    let place = on_disk();
    for options in [&[][..], &["--profile", "generic"]] {
        let (_, report) = run(place.path(), options, LINE);
        if !has_disk(&report) {
            return;
        }
        expect(
            &report,
            &[
                ("syncs", "sync", "foreground"),
                ("small writes", "write", "foreground"),
                ("large writes", "write", "normal"),
                ("reads", "read", "foreground"),
                // The second read of 8 MiB: its thread has read much by then.
                ("reads", "read", "background"),
            ],
        );
        assert!(done(&report).iter().all(|one| one.0 != "other"));
    }
}

#[test]
fn rules_of_the_user_come_before() {
    let place = on_disk();
    let rules = place.path().join("rules.toml");
    fs::write(
        &rules,
        "[[rule]]\nrole = 'mine'\npath = 'small'\noperation = 'write'\nlevel = 'critical'\n",
    )
    .unwrap();
    let options = ["--rules", rules.to_str().unwrap()];
    let (output, report) = run(place.path(), &options, LINE);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("warning"), "{said}");
    if !has_disk(&report) {
        return;
    }
    expect(
        &report,
        &[
            ("mine", "write", "critical"),
            ("syncs", "sync", "foreground"),
            ("large writes", "write", "normal"),
        ],
    );
    assert!(done(&report).iter().all(|one| one.0 != "small writes"));
}

fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    let output = successful(command.arg("run").args(arguments));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_without_a_profile_of_its_own_is_told() {
    let warning =
        "warning: no rules for true: its requests have levels by their kind and size alone";
    assert!(said(&["--", "true"]).starts_with(warning));
    for options in [&["--profile", "generic"], &["--profile", "sqlite"]] {
        let said = said(&[options, &["--", "true"][..]].concat());
        assert!(!said.contains("warning"), "{said}");
    }
    // Levels by kind and size need the library.
    let kernel = said(&["--mode", "kernel", "--", "true"]);
    let report = "no rule names a thread or process of this command: nothing was changed\n";
    assert!(kernel.starts_with(report), "{kernel}");
}

#[test]
fn a_program_in_go_is_told() {
    if !has("etcd") {
        iolane_testing::skipped("etcd is not installed (etcd-server)");
        return;
    }
    let said = said(&["--", "etcd", "--version"]);
    let warnings = [
        "etcd is written in Go and makes its system calls by itself",
        "statically linked",
    ];
    assert!(warnings.iter().any(|one| said.contains(one)), "{said}");
}
