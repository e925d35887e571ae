//! Takes away what a process has mounted when that was killed.
//!
//! A process that serves a disk and uses it cannot even end when it is killed:
//! a thread of it waits for an answer that nobody gives any more, and the kernel
//! gives up on the server's descriptor when the last thread has gone. So another
//! process, a child that does nothing else, is told by the kernel when the thread
//! that made it ends (`PR_SET_PDEATHSIG`), aborts the mount, and takes away what
//! stands on it.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use iolane_disk::served::fuse::take_away_by_force;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::cleanup::remove_own;
use crate::session::Session;
use crate::sys::parent::signal_at_its_end;

/// The word by which `main` knows a survivor: no command of a user's.
pub const NAME: &str = "take-away-after";

/// How long the kernel may take to let go of loop devices and mounts.
const WAIT_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Until it is dropped, somebody watches over this process.
pub struct Survivor(Option<Watch>);

/// The thread that has the child, and what ends it when dropped.
type Watch = (mpsc::Sender<()>, thread::JoinHandle<()>);

impl Survivor {
    /// Before anything is mounted on the directory `mount`. Its own directory
    /// `own`, if there is one, goes too, with the files in it. Where no process
    /// can be made there is none: then the next run clears the mount.
    pub fn watch(mount: &Path, own: Option<&Path>, session: &Session) -> Survivor {
        Survivor(Survivor::begin(mount, own, session))
    }

    fn begin(mount: &Path, own: Option<&Path>, session: &Session) -> Option<Watch> {
        let mut command = Command::new(session.program.as_ref()?);
        command
            .arg(NAME)
            .arg(std::process::id().to_string())
            // As the kernel names them; later nothing may look at them.
            .arg(mount.canonicalize().ok()?)
            .args(own.map(Path::canonicalize).transpose().ok()?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (end, ended) = mpsc::channel();
        let (began, begun) = mpsc::channel();
        // The signal comes when this very thread ends, and it waits for nothing
        // that cannot be interrupted.
        let thread = thread::Builder::new()
            .name("survivor".to_owned())
            .spawn(move || {
                let mut child = command.spawn();
                // Before it is to be told, nothing may be mounted: of a thread that has
                // ended earlier the kernel tells nobody. The end of its output is enough.
                if let Ok(child) = &mut child
                    && let Some(output) = &mut child.stdout
                {
                    let _ = output.read(&mut [0]);
                }
                let _ = began.send(());
                let _ = ended.recv();
                if let Ok(mut child) = child {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            });
        let thread = thread.ok()?;
        let _ = begun.recv();
        Some((end, thread))
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
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
    let _ = std::io::stdout().write_all(b"\n");
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
    let start = Instant::now();
    while start.elapsed() < WAIT_MAX {
        // No longer than needed: another server may want the place.
        if take_away_by_force(&mount) && own.as_deref().is_none_or(remove_own) {
            return;
        }
        thread::sleep(PAUSE);
    }
}
