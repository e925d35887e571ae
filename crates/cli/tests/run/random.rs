//! Random courses of calls, each with and without the library: the same results, errors and
//! contents. `IOLANE_TEST_SEED` is the first course, `IOLANE_COURSES` how many there are of each
//! kind of rules.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, Output};

use crate::place::{on_disk, random_probe, report, scheduled};

/// Of each kind of rules: a course takes about half a second, with and without.
const COURSES: u64 = 4;

/// Whose requests all wait, but for those of the thread beside.
const ALL_BACKGROUND: &str = "[[rule]]\nrole = 'beside'\npath = 'foreground'\nlevel = 'foreground'\n\
    [[rule]]\nrole = 'others'\nlevel = 'background'\nsinks = true\npaced = true\n";
/// Whose asynchronous reads go together.
const ALL_PREFETCH: &str = "[[rule]]\nrole = 'asynchronous'\nasynchronous = true\nlevel = 'prefetch'\n\
    [[rule]]\nrole = 'others'\nlevel = 'foreground'\nsinks = true\npaced = true\n";
/// Beside a profile that refuses rings.
const FOLLOWED: &str = "io_uring = 'follow'\n";

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number"))
    })
}

/// What all files hold, but that of the thread beside, which is cut off somewhere.
fn contents(directory: &Path) -> BTreeMap<String, (usize, u64)> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries
        .map(|entry| {
            let bytes = fs::read(entry.path()).unwrap();
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            let name = entry.file_name().into_string().unwrap();
            (name, (bytes.len(), hasher.finish()))
        })
        .filter(|(name, _)| name != "foreground")
        .collect()
}

/// How a program has ended, and what it said.
fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        output.status
    )
}

/// The first line that is another one, with those before it.
fn difference(one: &str, other: &str) -> String {
    const BEFORE: usize = 6;
    let (one, other): (Vec<_>, Vec<_>) = (one.lines().collect(), other.lines().collect());
    let at = (0..one.len().max(other.len())).find(|&at| one.get(at) != other.get(at));
    let Some(at) = at else {
        return String::new();
    };
    format!(
        "after {:#?}\nwithout: {:?}\nwith:    {:?}",
        &one[at.saturating_sub(BEFORE)..at.min(one.len())],
        one.get(at),
        other.get(at)
    )
}

/// Courses with and without the library, by rules.
fn compare(rules: &str, options: &[&str]) {
    let first = number("IOLANE_TEST_SEED", 1);
    let program = random_probe();
    let mut scheduled_in_all = 0;
    let mut has_disk = true;
    for seed in first..first + number("IOLANE_COURSES", COURSES) {
        // One path for both: a course prints what does not depend on it.
        let (without, with, place) = (on_disk(), on_disk(), on_disk());
        let alone = Command::new(&program)
            .arg(seed.to_string())
            .arg(without.path())
            .output()
            .unwrap();
        let rules_file = place.path().join("rules.toml");
        fs::write(&rules_file, rules).unwrap();
        let to = place.path().join("report.json");
        let mut run = Command::new(env!("CARGO_BIN_EXE_iolane"));
        run.args(["run", "--rules"]).arg(&rules_file).args(options);
        run.arg("--report").arg(&to).arg("--").arg(&program);
        let under = run.arg(seed.to_string()).arg(with.path()).output().unwrap();
        let replay = format!(
            "{} {seed} DIRECTORY, and the same behind `iolane run --rules FILE {}--` with\n{rules}",
            program.display(),
            options
                .iter()
                .map(|option| format!("{option} "))
                .collect::<String>(),
        );
        let (alone, under) = (said(&alone), said(&under));
        assert!(alone == under, "{}\n{replay}", difference(&alone, &under));
        assert_eq!(contents(without.path()), contents(with.path()), "{replay}");
        let report = report(&to);
        has_disk &= !report["report"]["disks"].as_array().unwrap().is_empty();
        scheduled_in_all += scheduled(&report);
    }
    if has_disk {
        assert!(scheduled_in_all > 0);
    } else {
        iolane_testing::skipped("the build's directory lies on no disk: nothing is scheduled");
    }
}

#[test]
fn of_any_program() {
    compare("", &["--profile", "generic"]);
}

#[test]
fn of_a_database() {
    compare(FOLLOWED, &["--profile", "mariadb"]);
}

#[test]
fn that_wait() {
    compare(ALL_BACKGROUND, &[]);
}

#[test]
fn that_go_together() {
    compare(ALL_PREFETCH, &[]);
}

#[test]
fn with_read_ahead() {
    compare(ALL_PREFETCH, &["--read-ahead", "logical"]);
}
