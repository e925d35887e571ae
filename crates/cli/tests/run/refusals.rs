//! What is wrong shows before the command is started.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::place::on_disk;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iolane"))
        .arg("run")
        .args(arguments)
        .output()
        .unwrap()
}

/// Exit code 2, and the command has not run.
fn refused(arguments: &[&str], says: &str) {
    let directory = on_disk();
    let trace = directory.path().join("ran");
    let touch = format!("touch {}", trace.display());
    let output = run(&[arguments, &["--", "sh", "-c", &touch]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(says), "{error}");
    assert!(!trace.exists());
}

#[test]
fn wrong_configurations_are_refused() {
    let directory = on_disk();
    let rules = directory.path().join("rules.toml");
    fs::write(&rules, "[[rule]]\nrole = 'x'\nlevel = 'hot'\n").unwrap();
    refused(
        &["--rules", rules.to_str().unwrap()],
        "line 3: there is no level 'hot'",
    );
    refused(&["--rules", "/no/such"], "cannot read /no/such");
    refused(&["--profile", "nothing"], "there is no profile 'nothing'");
    refused(&["--report", "/no/such/file"], "/no/such/file");
    refused(&["--library", "/no/such.so"], "/no/such.so");
    let library = directory.path().join("a library.so");
    fs::write(&library, "").unwrap();
    refused(
        &["--library", library.to_str().unwrap()],
        "a blank or a colon in its path",
    );
    refused(
        &["--library", rules.to_str().unwrap()],
        "it is no library for this machine",
    );
    refused(&["--library", "/"], "cannot use /");
}

/// It is not taken for the command.
#[test]
fn an_option_that_does_not_exist_is_refused() {
    for arguments in [&["--chekc", "--", "true"][..], &["--chekc", "true"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("unexpected argument '--chekc'"), "{error}");
    }
    let output = run(&["echo", "--chekc", "-n"]);
    assert_eq!(output.stdout, b"--chekc -n\n");
}

/// Without read-ahead it would have no effect.
#[test]
fn memory_for_read_ahead_needs_read_ahead() {
    for without in [&[][..], &["--read-ahead", "off"]] {
        let arguments = [without, &["--read-ahead-memory", "4m", "--", "true"]].concat();
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("--read-ahead logical"), "{error}");
    }
}

#[test]
fn programs_that_cannot_be_entered_are_refused() {
    let directory = on_disk();
    let missing = run(&["--", "no-such-program-here"]);
    assert_eq!(missing.status.code(), Some(2));
    let source = directory.path().join("empty.c");
    let program = directory.path().join("static");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc")
        .args(["-static", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        iolane_testing::skipped("no static C library");
        return;
    }
    let output = run(&["--mode", "user", "--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("statically linked"), "{error}");
    assert!(error.contains("--mode kernel"), "{error}");
    // By itself it takes the mode in which it can run.
    let output = run(&["--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("statically linked") && said.contains("the mode is kernel"),
        "{said}"
    );
}

/// The words of the command are not this program's.
#[test]
fn an_error_is_text_whatever_the_command_is_told() {
    for arguments in [
        &["no-such-program-here", "--output-format=json"][..],
        &["--", "no-such-program-here", "--output-format", "json"],
        &["--profile", "nothing", "true", "--output-format=json"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(output.stderr.starts_with(b"error: "), "{output:?}");
    }
}

#[test]
fn the_exit_code_is_the_commands() {
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["--", "true"]).status.code(), Some(0));
    assert_eq!(run(&[]).status.code(), Some(1));
}

/// A process without a descriptor for each process that comes goes on, and says why it schedules
/// none.
#[test]
fn a_limit_of_open_files_is_told() {
    let directory = on_disk();
    let to = directory.path().join("file");
    let program = env!("CARGO_BIN_EXE_iolane");
    // One more than it needs before anybody comes.
    let least = (8..64).find_map(|limit| {
        let write = format!(
            "ulimit -n {limit}; exec {program} run -- dd if=/dev/zero of={} count=1 conv=fsync",
            to.display()
        );
        let output = Command::new("sh").args(["-c", &write]).output().unwrap();
        (output.status.code() == Some(0)).then_some(output)
    });
    let output = least.expect("with so many it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("ulimit -n"), "{error}");
}

/// Also where not even the descriptor is to be had that is kept for this.
#[test]
fn a_limit_of_open_files_that_is_lowered_is_told() {
    let directory = on_disk();
    let output = Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(["run", "--", "sh", "-c"])
        .arg(
            "prlimit --pid $PPID --nofile=3: && dd if=/dev/zero of=\"$0\" count=1 conv=fsync; \
             prlimit --pid $PPID --nofile=1024:",
        )
        .arg(directory.path().join("file"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains("ulimit -n"), "{error}");
}

/// A shell that sets limits, and then executes this, with what the command is in `$0`, and `iolane run` or nothing before it.
fn limited(limits: &str, before: &[&str], command: &str) -> Output {
    Command::new("sh")
        .args([
            "-c",
            &format!("{limits}; exec \"$@\" sh -c \"$0\""),
            command,
        ])
        .args(before)
        .output()
        .unwrap()
}

/// The memory that is shared with the command is a file, too.
#[test]
fn a_limit_of_a_files_size_is_the_commands() {
    let directory = on_disk();
    let report = directory.path().join("report.json");
    let program = env!("CARGO_BIN_EXE_iolane");
    let run = [program, "run", "--report", report.to_str().unwrap(), "--"];
    for limits in ["ulimit -S -f 0", "ulimit -S -f 2000"] {
        let show = "ulimit -S -f; ulimit -H -f; exit 7";
        let (without, with) = (limited(limits, &[], show), limited(limits, &run, show));
        assert_eq!(with.status.code(), Some(7), "{with:?}");
        assert_eq!(with.stdout, without.stdout);
    }
    // The report's, too: it comes as one that does not fit.
    let output = limited("ulimit -S -f 0", &run, "exit 7");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{error}");
    assert!(error.ends_with("no request was scheduled\n"), "{error}");
}

#[test]
fn a_hard_limit_of_a_files_size_is_told() {
    let directory = on_disk();
    let trace = directory.path().join("ran");
    let program = env!("CARGO_BIN_EXE_iolane");
    let touch = format!("touch {}", trace.display());
    let output = limited("ulimit -f 2000", &[program, "run", "--"], &touch);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(error.contains("the hard limit of a file's size"), "{error}");
    assert!(error.contains("ulimit -f"), "{error}");
    assert!(!trace.exists());
    let in_kernel = [program, "run", "--mode", "kernel", "--"];
    let output = limited("ulimit -f 2000", &in_kernel, "exit 7");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

/// Standard input, output or error that is closed is so for the command, whatever the mode.
#[test]
fn what_was_closed_is_closed_for_the_command() {
    let program = env!("CARGO_BIN_EXE_iolane");
    let directory = on_disk();
    let file = directory.path().join("file");
    let show = "readlink /proc/$$/fd/2; readlink /proc/$$/fd/0 | sed 's/:.*//'";
    let write = format!("exec 2>{}; echo own >&2; exit 7", file.display());
    for (closed, command, code) in [
        ("<&-", "exec cat", 1),
        (">&-", "echo x", 1),
        ("2>&-", "echo x >&2", 2),
        ("<&- >&- 2>&-", "echo x", 1),
        ("<&- >&- 2>&-", &write, 7),
        ("2>&-", show, 0),
        ("</dev/null 2>&-", show, 0),
    ] {
        let with_it = |before: &str| {
            Command::new("sh")
                .args(["-c", &format!("{before} sh -c \"$0\" {closed}"), command])
                .stdin(Stdio::piped())
                .output()
                .unwrap()
        };
        let alone = with_it("exec");
        assert_eq!(
            alone.status.code(),
            Some(code),
            "{command} {closed}: {alone:?}"
        );
        for mode in ["user", "kernel"] {
            let _ = fs::remove_file(&file);
            let output = with_it(&format!("exec {program} run --mode {mode} --"));
            assert_eq!(
                output.status.code(),
                Some(code),
                "{command} {closed}: {output:?}"
            );
            assert_eq!(output.stdout, alone.stdout, "{command} {closed}");
            if command == write {
                assert_eq!(fs::read_to_string(&file).unwrap(), "own\n");
            }
        }
    }
}

/// Its standard input is the terminal's keys. The tests may run where SIGINT is ignored, as in the background of a script.
fn in_a_terminal(command: &str) -> Option<Child> {
    let script = |arguments: &[&str]| {
        let mut script = Command::new("env");
        script
            .args(["--default-signal=INT", "script"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        script
    };
    if !script(&["--version"])
        .status()
        .is_ok_and(|status| status.success())
    {
        iolane_testing::skipped("script(1), or an env(1) with --default-signal, is not installed");
        return None;
    }
    let mut started = script(&["--quiet", "--command", command, "/dev/null"]);
    Some(started.spawn().unwrap())
}

/// Ctrl-C goes to the terminal's foreground group: to the command and to this program, which need
/// not hand it on, whatever its standard input is.
#[test]
fn a_key_of_the_terminal_reaches_the_command_once() {
    let directory = on_disk();
    let trace = directory.path().join("signals");
    fs::write(&trace, "").unwrap();
    let command = format!(
        "{} run -- sh -c 'trap \"echo INT >> {trace}\" INT; echo >> {trace}.ready; until [ -s {trace} ] || [ $((i += 1)) -gt 120 ]; do sleep 0.5; done; sleep 1' </dev/null",
        env!("CARGO_BIN_EXE_iolane"),
        trace = trace.display(),
    );
    let Some(mut terminal) = in_a_terminal(&command) else {
        return;
    };
    let ready = trace.with_extension("ready");
    let start = Instant::now();
    while !ready.exists() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it does not start"
        );
        thread::sleep(Duration::from_millis(10));
    }
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    terminal.wait().unwrap();
    assert_eq!(fs::read_to_string(&trace).unwrap(), "INT\n");
}

/// What is no key, `kill -INT`, goes to this program alone, also where it stands in the terminal's foreground.
#[test]
fn an_interrupt_that_is_no_key_reaches_the_command() {
    let directory = on_disk();
    let trace = directory.path().join("ended");
    let command = format!(
        "timeout --foreground --signal=INT 1 {} run -- sleep 120 </dev/null; echo ended > {}",
        env!("CARGO_BIN_EXE_iolane"),
        trace.display(),
    );
    let Some(mut terminal) = in_a_terminal(&command) else {
        return;
    };
    let start = Instant::now();
    while !trace.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on");
        thread::sleep(Duration::from_millis(10));
    }
    terminal.wait().unwrap();
}

/// Of a report that cannot be written in the end, too; it is not lost.
#[test]
fn a_report_that_does_not_fit_comes_as_text() {
    let output = run(&["--report", "/dev/full", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("warning: writing to /dev/full"), "{error}");
    assert!(error.ends_with("no request was scheduled\n"), "{error}");
}

/// A pipe is not waited for, neither at the start nor in the end, and its reader sees the whole report.
#[test]
fn a_report_into_a_pipe_needs_a_reader() {
    let directory = on_disk();
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let say = |script: &str| {
        Command::new("timeout")
            .args(["--kill-after=1", "60", "sh", "-c", script])
            .arg(&pipe)
            .arg(env!("CARGO_BIN_EXE_iolane"))
            .output()
            .unwrap()
    };
    let output = say("exec \"$1\" run --report \"$0\" -- true");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("nobody reads the pipe"), "{error}");
    // The shell has it open for both until the report is there.
    let output = say(
        "exec 3<>\"$0\" 4<\"$0\"; cat <&4 3>&- & \"$1\" run --report \"$0\" -- true 3>&- 4<&-; exec 3>&- 4<&-; wait",
    );
    assert_eq!(output.stdout, b"no request was scheduled\n");
}

/// It comes behind what the command says, and not in its place.
#[test]
fn a_report_into_the_commands_output_leaves_that() {
    let directory = on_disk();
    let output = directory.path().join("output");
    let script = "exec \"$0\" run --report /dev/stdout -- echo said >\"$1\"";
    let status = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_iolane")])
        .arg(&output)
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let text = fs::read_to_string(&output).unwrap();
    assert_eq!(text, "said\nno request was scheduled\n");
}

#[test]
fn calls_are_listed_on_request() {
    let directory = on_disk();
    let to = directory.path().join("file");
    let of = format!("of={}", to.display());
    let output = run(&[
        "--check",
        "--",
        "dd",
        "if=/dev/zero",
        &of,
        "count=3",
        "conv=fsync",
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = |name: &str| {
        let words = error
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.into_iter().find(|words| words.first() == Some(&name))
    };
    assert_eq!(line("write").unwrap()[1], "3", "{error}");
    assert_eq!(line("fsync").unwrap()[1], "1", "{error}");
}

/// Without its variable the library does nothing.
#[test]
fn a_library_without_a_broker_is_inert() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_iolane"));
    let library = program.with_file_name("deps/libiolane_interpose.so");
    for variable in [
        "",
        "nonsense",
        "iolane-run-1-x:0:00000000000000000000000000000000",
    ] {
        let output = Command::new("sh")
            .args([
                "-c",
                "echo $((6 * 7)) && cat /proc/self/maps | grep -c memfd:iolane",
            ])
            .env("LD_PRELOAD", &library)
            .env("IOLANE_RUN", variable)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "42\n0\n",
            "{output:?}"
        );
        assert!(output.stderr.is_empty());
    }
}
