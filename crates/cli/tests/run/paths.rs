//! Rules for files whose path nobody knows: those that need none match.

use std::fs;

use crate::place::{has_disk, iolane_run_by, on_disk, probe, report};

const RULES: &str = "[[rule]]\nrole = 'named'\npath = ['hot*', '/*']\nlevel = 'critical'\n\
                     [[rule]]\nrole = 'star'\npath = ['other', '*']\noperation = 'write'\nlevel = 'foreground'\n\
                     [[rule]]\nrole = 'any'\nlevel = 'background'\n";

/// Roles and how many requests they had, by operation. `None`, and the test is skipped: there is nothing to be seen here.
fn roles(pattern: &str) -> Option<Vec<(String, u64)>> {
    /// It may not have a root of its own.
    const NOT_ALLOWED: i32 = 77;
    let (directory, place) = (on_disk(), on_disk());
    let rules = place.path().join("rules.toml");
    fs::write(&rules, RULES).unwrap();
    let to = place.path().join("report.json");
    let output = iolane_run_by(&rules, &to)
        .arg(probe("probe_paths"))
        .arg(pattern)
        .arg(directory.path())
        .output()
        .unwrap();
    if output.status.code() == Some(NOT_ALLOWED) {
        iolane_testing::skipped("neither root nor a name space may change its root here");
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    let report = report(&to);
    if !has_disk(&report) {
        return None;
    }
    let disks = report["report"]["disks"].as_array().unwrap().iter();
    let roles = disks.flat_map(|disk| disk["roles"].as_array().unwrap());
    let mut roles: Vec<_> = roles
        .map(|role| {
            let requests = role["requests"].as_u64().unwrap();
            (role["role"].as_str().unwrap().to_owned(), requests)
        })
        .filter(|&(_, requests)| requests > 0)
        .collect();
    roles.sort();
    Some(roles)
}

fn has_roles(pattern: &str, expected: &[(&str, u64)]) {
    if let Some(roles) = roles(pattern) {
        let roles: Vec<_> = roles
            .iter()
            .map(|(role, count)| (role.as_str(), *count))
            .collect();
        assert_eq!(roles, expected);
    }
}

#[test]
fn a_path_that_is_known_is_held_against_rules() {
    has_roles("known", &[("named", 20), ("named", 20)]);
}

#[test]
fn after_chroot_rules_without_a_path_match() {
    has_roles("enclosed", &[("any", 20), ("star", 20)]);
}

#[test]
fn behind_a_path_that_is_too_long_rules_without_a_path_match() {
    has_roles("deep", &[("any", 20), ("star", 20)]);
}
