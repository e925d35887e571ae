//! Ctrl-C while a store is checked or copied.

use std::fs;
use std::io::{PipeReader, Read, Write, pipe};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Place, complaint};

/// Bytes that a pipe takes, pipe(7).
const PIPE_BYTES: usize = 64 << 10;
/// Far more than it takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that stops at its first line of progress, as nobody reads what it
/// says there: so a signal comes before what it announces has begun.
fn held_up(command: &mut Command) -> (Child, PipeReader) {
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(&[b'.'; PIPE_BYTES]).unwrap();
    let child = command
        .stdout(Stdio::piped())
        .stderr(writer)
        .spawn()
        .unwrap();
    (child, reader)
}

/// Waits until the program hangs in a write to standard error.
fn wait_for_a_line(child: &Child) {
    /// Of write(2) on x86-64 and on aarch64.
    const WRITES: [&str; 2] = ["1 0x2 ", "64 0x2 "];
    let since = Instant::now();
    loop {
        let call = fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap();
        if WRITES.iter().any(|write| call.starts_with(write)) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "it says nothing: {call}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    // The thread for signals takes it up.
    let handler = format!("/proc/{id}/status");
    let since = Instant::now();
    while fs::read_to_string(&handler)
        .unwrap()
        .lines()
        .any(|line| line.starts_with("ShdPnd:") && !line.ends_with("0000000000000000"))
    {
        assert!(since.elapsed() < PATIENCE, "the signal stays pending");
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(200));
}

#[test]
fn an_interrupted_check_or_backup_leaves_nothing() {
    let place = Place::new();
    place.people("s");
    for arguments in [&["check", "s"][..], &["backup", "s", "t"]] {
        let mut command = place.command(arguments);
        let (child, mut reader) = held_up(&mut command);
        // Its copy of the pipe's end must go, or the pipe has no end.
        drop(command);
        wait_for_a_line(&child);
        interrupt(&child);
        let mut said = Vec::new();
        reader.read_to_end(&mut said).unwrap();
        let mut output = child.wait_with_output().unwrap();
        assert!(output.stdout.is_empty(), "{arguments:?}");
        output.stderr = said.split_off(PIPE_BYTES);
        let said = complaint(&output, 3, &format!("{arguments:?}"));
        assert!(
            said.starts_with("stopped by Ctrl-C before the end"),
            "{said}"
        );
        for left in ["t", "t.part"] {
            assert!(!place.path(left).exists(), "{arguments:?} left {left}");
        }
    }
    place.good(&["check", "s"]);
    place.good(&["backup", "s", "t"]);
    assert_eq!(
        place.good(&["scan", "s", "person"]),
        place.good(&["scan", "t", "person"])
    );
}
