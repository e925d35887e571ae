//! The built binary: version, help, exit codes.

use std::process::{Command, Output, Stdio};

fn iolane(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn version_and_help_go_to_standard_output() {
    let version = iolane(&["--version"]);
    assert!(version.status.success());
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        concat!("iolane ", env!("CARGO_PKG_VERSION"), "\n")
    );
    for arguments in [&["help"][..], &["--help"]] {
        let help = iolane(arguments);
        assert!(help.status.success());
        assert!(String::from_utf8_lossy(&help.stdout).contains("Exit codes: 0 good, 1 usage"));
        assert!(help.stderr.is_empty());
    }
}

#[test]
fn usage_errors_exit_with_1_and_keep_standard_output_clean() {
    for arguments in [
        &["nonsense"][..],
        &["--nonsense"],
        &[],
        &["bench"],
        &["bench", "nonsense"],
    ] {
        let output = iolane(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_usage_error_is_one_json_document_when_asked_for() {
    let output = iolane(&["bench", "nonsense", "--output-format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iolane.error/1");
    assert_eq!(document["error"]["kind"], "usage");
}

#[test]
fn a_closed_pipe_exits_with_0() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_iolane"))
        .arg("help")
        .stdout(Stdio::from(writer))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_result_for_a_closed_standard_output_is_lost_and_an_error() {
    let run = |redirection: &str| {
        let line = format!("exec \"$0\" disk list {redirection}");
        let program = env!("CARGO_BIN_EXE_iolane");
        Command::new("sh")
            .args(["-c", &line, program])
            .output()
            .unwrap()
    };
    for redirection in [">&-", ">/dev/full"] {
        let output = run(redirection);
        assert_eq!(output.status.code(), Some(3), "{redirection}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.starts_with("error: writing to standard output failed: "),
            "{said}"
        );
        assert!(!said.contains("--size"), "{said}");
    }
    assert!(run(">/dev/null").status.success(), "nobody wants it");
}
