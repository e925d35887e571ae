//! Takes away what a process has mounted when that was killed.
//!
//! A process that serves a disk and uses it cannot even end when it is killed:
//! a thread of it waits for an answer that nobody gives any more, and the kernel
//! gives up on the server's descriptor when the last thread has gone. So another
//! process, a child that does nothing else, is told by the kernel when the thread
//! that made it ends (`PR_SET_PDEATHSIG`), aborts the mount, and takes away what
//! stands on it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use iolane_disk::served::fuse::take_away_by_force;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::session::Session;
use crate::sys::parent::signal_at_its_end;

/// The word by which `main` knows a survivor: no command of a user's.
pub const NAME: &str = "take-away-after";

/// How long the kernel may take to let go of loop devices and mounts.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Until it is dropped, somebody watches over this process.
pub struct Survivor {
    /// Dropped, it ends the thread that has the child.
    end: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Survivor {
    /// Before anything is mounted on `mount`. Its own directory `own`, if there
    /// is one, goes too, with the files in it. Where no process can be made
    /// there is none: then the next run clears the mount.
    pub fn watch(mount: &Path, own: Option<&Path>, session: &Session) -> Survivor {
        let mut survivor = Survivor {
            end: None,
            thread: None,
        };
        let Some(program) = session.program.clone() else {
            return survivor;
        };
        let mut command = Command::new(program);
        command
            .arg(NAME)
            .arg(std::process::id().to_string())
            .arg(mount)
            .args(own)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (end, ended) = mpsc::channel();
        let (began, begun) = mpsc::channel();
        // The signal comes when this very thread ends, and it waits for nothing
        // that cannot be interrupted.
        let thread = thread::Builder::new()
            .name("survivor".to_owned())
            .spawn(move || {
                let child = command.spawn();
                let _ = began.send(());
                let _ = ended.recv();
                if let Ok(mut child) = child {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            });
        if let Ok(thread) = thread {
            let _ = begun.recv();
            survivor.end = Some(end);
            survivor.thread = Some(thread);
        }
        survivor
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It panics on nothing.
            let _ = thread.join();
        }
    }
}

/// What the child does, with the arguments behind its name: waits for the end of
/// its parent, and takes away what that leaves. Returns when that is done, or
/// nothing is to be done any more.
pub fn survive(arguments: &[OsString]) {
    let [parent, mount, own @ ..] = arguments else {
        return;
    };
    // Those of a terminal are its parent's.
    let Ok(mut signals) = Signals::new([SIGUSR1, SIGTERM, SIGINT, SIGHUP]) else {
        return;
    };
    signal_at_its_end(SIGUSR1);
    let parent_is_there = || {
        let id = std::os::unix::process::parent_id();
        parent.to_str() == Some(&id.to_string())
    };
    // It may have ended before the kernel was told.
    if parent_is_there() {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => break,
                SIGTERM => return,
                _ => {}
            }
        }
    }
    let mount = PathBuf::from(mount);
    let own = own.first().map(PathBuf::from);
    for _ in 0..TRIES {
        // No longer than needed: another server may want the place.
        if take_away_by_force(&mount) && own.as_deref().is_none_or(remove) {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Removes a directory with its files and empty directories. Bit by bit: a
/// mount that could not be taken away is left alone.
fn remove(own: &Path) -> bool {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let _ = match is_directory {
            true => fs::remove_dir(entry.path()),
            false => fs::remove_file(entry.path()),
        };
    }
    let _ = fs::remove_dir(own);
    !own.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_files_but_not_with_what_is_deeper() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        fs::create_dir_all(own.join("empty")).unwrap();
        fs::write(own.join("backing"), "x").unwrap();
        fs::create_dir(own.join("mounted")).unwrap();
        let deeper = own.join("mounted/file");
        fs::write(&deeper, "x").unwrap();
        assert!(!remove(&own));
        assert!(deeper.exists() && !own.join("empty").exists() && !own.join("backing").exists());
        fs::remove_file(deeper).unwrap();
        assert!(remove(&own));
        assert!(!own.exists());
    }
}
