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
    let said = String::from_utf8_lossy(&version.stdout);
    assert_eq!(said, concat!("iolane ", env!("IOLANE_VERSION"), "\n"));
    let rest = said.strip_prefix(concat!("iolane ", env!("CARGO_PKG_VERSION")));
    let commit = rest.unwrap().trim();
    // None without a repository.
    let digits = commit.trim_matches(['(', ')']);
    assert!(digits.is_empty() || digits.len() >= 9, "{said}");
    assert!(
        digits.chars().all(|digit| digit.is_ascii_hexdigit()),
        "{said}"
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

#[test]
fn bash_completes_sub_commands_and_options() {
    let script = "source <(\"$0\" completions bash)
        COMP_WORDS=(iolane \"$@\") COMP_CWORD=$#
        _iolane iolane \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
        echo \"${COMPREPLY[@]}\"";
    for (typed, expected) in [
        (&["ben"][..], "bench"),
        (&["bench", "swe"], "sweep"),
        (&["bench", "mix", "--foreground-ra"], "--foreground-rate"),
        (&["bench", "mix", "--io", "dir"], "direct"),
    ] {
        let output = Command::new("bash")
            .args(["-c", script, env!("CARGO_BIN_EXE_iolane")])
            .args(typed)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), expected, "{output:?}");
    }
}

#[test]
fn completions_of_the_other_shells_know_every_command() {
    for shell in ["zsh", "fish"] {
        let output = iolane(&["completions", shell]);
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["demo", "hugepages", "figures", "backup", "foreground-rate"] {
            assert!(script.contains(word), "{word} in that of {shell}");
        }
    }
    let other = iolane(&["completions", "tcsh"]);
    assert_eq!(other.status.code(), Some(1));
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let output = iolane(&["man", "--directory", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty());
    for (name, content) in [
        ("iolane", "Exit codes"),
        ("iolane-demo", "demo"),
        ("iolane-bench-mix", r"\-\-foreground\-rate"),
        ("iolane-disk-serve", r"\-\-backing"),
        ("iolane-store-load", r"\-\-transaction\-rows"),
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".TH"), "{page}");
        assert!(page.contains(content), "{content} in {page}");
    }
    let refused = iolane(&["man", "--directory", "/proc/nowhere"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// What a terminal shows, escape sequences and all.
fn on_a_terminal(line: &str, environment: &[(&str, &str)]) -> String {
    let program = env!("CARGO_BIN_EXE_iolane");
    let output = Command::new("script")
        .args(["-qec", &format!("'{program}' {line}"), "/dev/null"])
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn only_a_terminal_that_wants_colours_gets_them() {
    for (line, expected) in [
        ("--help", "Usage"),
        ("disk list", "aws-gp3"),
        ("nonsense", "unrecognized"),
    ] {
        let shown = on_a_terminal(line, &[]);
        assert!(shown.contains(expected), "{shown}");
        // A list has nothing to set off.
        assert_eq!(shown.contains('\x1b'), line != "disk list", "{shown}");
        for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let shown = on_a_terminal(line, &[plain]);
            assert!(shown.contains(expected), "{shown}");
            assert!(!shown.contains('\x1b'), "{plain:?}: {shown}");
        }
        let words: Vec<&str> = line.split(' ').collect();
        let piped = iolane(&words);
        for stream in [piped.stdout, piped.stderr] {
            assert!(!stream.contains(&0x1b), "{line}");
        }
    }
}
