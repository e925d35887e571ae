//! The drop-ins for services, under a running systemd where that is possible.

use std::path::Path;
use std::process::Command;

use crate::servers::has;

/// What `scripts/run-unit` returns for what the machine does not allow.
const NOT_HERE: i32 = 77;

fn drop_in(name: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(["run", "--print-unit", name])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn what_has_no_unit_is_refused() {
    let (code, said, error) = drop_in("oracle");
    assert_eq!((code, said.as_str()), (Some(2), ""));
    assert!(error.contains("mariadb, mysql, postgresql"), "{error}");
    for beside in [["--", "true"], ["--profile", "postgresql"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_iolane"))
            .args(["run", "--print-unit", "mariadb"])
            .args(beside)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{beside:?}");
    }
}

fn as_a_service(database: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-unit");
    if !has("nsenter") || !has("pgrep") {
        iolane_testing::skipped("nsenter or pgrep is not installed");
        return;
    }
    let output = Command::new(script)
        .arg(database)
        .env("IOLANE", env!("CARGO_BIN_EXE_iolane"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => {}
        Some(NOT_HERE) => {
            let why = said
                .lines()
                .last()
                .unwrap_or("the machine does not allow it");
            iolane_testing::skipped(why);
        }
        _ => panic!("{}\n{said}", String::from_utf8_lossy(&output.stdout)),
    }
}

#[test]
fn mariadb_as_a_service() {
    as_a_service("mariadb");
}

#[test]
fn postgresql_as_a_service() {
    as_a_service("postgresql");
}
