//! Tests of the backends: one suite over all of them, what only some have, and
//! the choice among them.

mod particular;
mod select;
mod subject;
mod suite;
mod transfers;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use super::*;
use crate::sys::fixture::pin;
use subject::{Subject, TestFile};

const CAPACITY: u32 = 64;
const BLOCK: usize = 4096;

/// Far above what any operation here takes, unless the disk stalls; one that is
/// lost takes longer than any number of these.
const LOST_AFTER: Duration = Duration::from_secs(20);
const LOST_AFTER_TIMES: u32 = 10;

fn opened(kind: BackendKind, capacity: u32) -> Box<dyn Backend> {
    let (backend, report) = open(BackendChoice::Only(kind), capacity).expect("backend opens");
    assert_eq!(report.chosen(), kind);
    assert_eq!(backend.kind(), kind);
    backend
}

/// Reaps until `count` operations finished.
fn reap_all(backend: &mut dyn Backend, count: usize) -> Vec<Completed> {
    let mut done = Vec::new();
    while done.len() < count {
        reap_some(backend, &mut done);
    }
    assert_eq!(done.len(), count);
    done
}

/// Appends at least one completion.
fn reap_some(backend: &mut dyn Backend, done: &mut Vec<Completed>) {
    let before = done.len();
    let mut in_vain = 0;
    while in_vain < LOST_AFTER_TIMES {
        let start = Instant::now();
        backend.reap(Some(LOST_AFTER), done).expect("reap");
        if done.len() > before {
            // One that only the timeout brought to light did not wake anyone.
            assert!(start.elapsed() < LOST_AFTER, "operations found late");
            return;
        }
        // Else a waker has ended it.
        in_vain += u32::from(start.elapsed() >= LOST_AFTER);
    }
    panic!("operations lost");
}

fn run(backend: &mut dyn Backend, op: Op) -> i32 {
    backend.push(pin(op));
    let done = reap_all(backend, 1);
    assert_eq!(done[0].token, op.token);
    done[0].result
}

struct Scratch {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::Builder::new()
            .prefix("iolane-backend-")
            // Not /tmp, which is often a tmpfs.
            .tempdir_in("/var/tmp")
            .expect("scratch directory");
        let path = dir.path().join("data");
        Scratch { _dir: dir, path }
    }

    fn buffered(&self) -> File {
        self.open(0).expect("scratch file")
    }

    /// None, with a message, where the file system has no direct I/O.
    fn direct(&self) -> Option<File> {
        match self.open(libc::O_DIRECT) {
            Ok(file) => Some(file),
            Err(error) => {
                iolane_testing::skipped(format_args!(
                    "no O_DIRECT in {}: {error}",
                    self.path.display()
                ));
                None
            }
        }
    }

    fn open(&self, flags: i32) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(flags)
            .open(&self.path)
    }
}

/// Pseudo-random numbers from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// Runs one test alone, in a process of its own, with `mark` in its
/// environment.
fn child(test: &str, mark: &str) {
    let output = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(mark, "1")
        .output()
        .expect("child starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
