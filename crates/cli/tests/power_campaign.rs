//! A store on a file system on a loop device on a served disk, whose power is
//! cut: a short one of `make power-campaign`.

use std::path::Path;
use std::process::Command;

use iolane_testing::skipped;

/// Of `scripts/power-campaign`: this machine does not allow it.
const SKIPPED: i32 = 77;

/// Cuts the power under `what`, such as `store-ext4`, so many times, with a program of
/// the environment's variable `variable` where there is one.
fn cut(what: &str, cuts: &str, variable: Option<(&str, &Path)>) {
    let seed = std::env::var("IOLANE_SEED").unwrap_or_else(|_| "31".to_owned());
    println!("IOLANE_SEED={seed}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/power-campaign");
    let output = Command::new(script)
        .args(["--cuts", cuts, "--size", "256m", "--seed", &seed])
        .arg(what)
        .env("IOLANE", env!("CARGO_BIN_EXE_iolane"))
        .envs(variable)
        .output()
        .unwrap();
    if output.status.code() == Some(SKIPPED) {
        return skipped(String::from_utf8_lossy(&output.stderr).trim());
    }
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(&format!("{what}: {cuts} cuts")), "{said}");
    assert!(
        said.ends_with(" acknowledged commits, all there\n"),
        "{said}"
    );
}

#[test]
fn a_store_has_its_commits_after_the_power_was_cut_below_it() {
    let iolane = Path::new(env!("CARGO_BIN_EXE_iolane"));
    let commits = iolane.with_file_name("examples").join("commits");
    if !commits.exists() {
        return skipped("the store's example commits is not built: cargo test --workspace does");
    }
    cut("store-ext4", "3", Some(("COMMITS", &commits)));
}

#[test]
fn a_server_with_the_storage_engine_has_them_and_its_binary_log_the_same_rows() {
    cut("mariadb-iolane-ext4", "2", None);
}
