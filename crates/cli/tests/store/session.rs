//! Help, documents, and the page about stores.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Place;

#[test]
fn failures_are_documents_when_asked_for() {
    let place = Place::new();
    let output = place.run(&["check", "nothing", "--output-format", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iolane.error/1");
    assert_eq!(document["error"]["kind"], "setup");
}

#[test]
fn every_command_has_its_help() {
    let place = Place::new();
    for name in [
        "create", "load", "scan", "range", "check", "stats", "backup", "dump",
    ] {
        let help = place.good(&[name, "--help"]);
        assert!(help.contains("Directory of the store"), "{name}: {help}");
        assert!(help.contains("--pool-size <SIZE>"), "{name}");
    }
}

/// The session in docs/store.md, line by line: `...` stands for any text in a
/// line.
#[test]
fn the_documented_session_runs_as_written() {
    let place = Place::new();
    let program = Path::new(env!("CARGO_BIN_EXE_iolane")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/store.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```console\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let session: String = blocks.collect();
    let mut commands = 0;
    for step in session.split("$ ").skip(1) {
        let (command, expected) = step.split_once('\n').unwrap();
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(place.root.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        let same = found.lines().count() == expected.lines().count()
            && found
                .lines()
                .zip(expected.lines())
                .all(|(line, like)| is_like(line, like));
        assert!(same, "$ {command}\n{found}\nbut the page says\n{expected}");
        commands += 1;
    }
    assert!(commands >= 10);
}

fn is_like(line: &str, like: &str) -> bool {
    match like.split_once("...") {
        None => line == like,
        Some((before, behind)) => line.starts_with(before) && line.ends_with(behind),
    }
}
