//! Ctrl-C while a store is checked or copied.

use std::fs;
use std::io::{PipeReader, Read, Write, pipe};
use std::path::Path;
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

/// The thread that takes up signals, while it waits for one: in which system
/// call, and how often it has gone to sleep.
fn at_rest(child: &Child) -> Option<(String, u64)> {
    /// Read and receive, on x86-64 and on aarch64.
    const READS: [&str; 4] = ["0 ", "45 ", "63 ", "207 "];
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let told = |task: &Path, name| fs::read_to_string(task.join(name)).unwrap_or_default();
    let task = tasks.find(|task| told(task, "comm") == "signals\n")?;
    let call = told(&task, "syscall");
    let status = told(&task, "status");
    let sleeps = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    let is_read = READS.iter().any(|read| call.starts_with(read));
    is_read.then(|| (call, sleeps.trim().parse().unwrap()))
}

/// Waits until the thread is at rest, as it was `before` or otherwise.
fn wait_at_rest(child: &Child, before: Option<&(String, u64)>) -> (String, u64) {
    let since = Instant::now();
    loop {
        if let Some(now) = at_rest(child)
            && before.is_none_or(|before| before.0 == now.0 && before.1 < now.1)
        {
            return now;
        }
        assert!(since.elapsed() < PATIENCE, "the signal is not taken up");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Until the program has taken it up: its thread has woken, and waits again.
fn interrupt(child: &Child) {
    let before = wait_at_rest(child, None);
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    wait_at_rest(child, Some(&before));
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
