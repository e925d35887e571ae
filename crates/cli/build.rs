//! The version with the commit that was built, as far as there is one.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As many digits of a commit as tell it apart.
const DIGITS: usize = 9;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let commit = published(&own).or_else(|| of_repository(&own));
    let version = match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=IOLANE_VERSION={version}");
}

/// What `cargo package` wrote down: there is no repository around a published crate.
fn published(own: &Path) -> Option<String> {
    let text = fs::read_to_string(own.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    Some(commit.get(..DIGITS)?.to_owned())
}

/// Of this project's repository, not of one that a copy of its files happens to lie in.
fn of_repository(own: &Path) -> Option<String> {
    let top = git(own, &["rev-parse", "--show-toplevel"])?;
    let root = own.parent()?.parent()?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    let branch = git(own, &["symbolic-ref", "--quiet", "HEAD"]);
    let watched = ["HEAD", "packed-refs"].map(str::to_owned);
    for name in watched.into_iter().chain(branch) {
        let path = git(own, &["rev-parse", "--git-path", &name])?;
        let path = own.join(path);
        // One that is missing would have everything built each time.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(own, &["rev-parse", &format!("--short={DIGITS}"), "HEAD"])
}

/// Nothing where there is no git, or no repository.
fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output()
        .ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let said = said.trim();
    (output.status.success() && !said.is_empty()).then(|| said.to_owned())
}
