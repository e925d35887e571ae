//! Ends a run so that nothing stays behind: the first signal raises a flag
//! that all loops poll, so that guards drop; the second one does not wait.

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is there besides this process: directories and servers.
#[derive(Default)]
struct Outside {
    directories: BTreeSet<PathBuf>,
    servers: BTreeSet<i32>,
}

/// The flag, and what a run that cannot wait must put back itself. Cheap to
/// clone.
#[derive(Clone, Default)]
pub struct Stop {
    raised: Arc<AtomicBool>,
    outside: Arc<Mutex<Outside>>,
}

impl Stop {
    /// Listens to Ctrl-C, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn listening() -> Result<Stop> {
        let stop = Stop::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let heard = stop.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    if heard.raised.swap(true, Ordering::Relaxed) {
                        heard.put_back();
                        std::process::exit(3);
                    }
                    eprintln!("stopping; a second signal does not wait");
                }
            })?;
        Ok(stop)
    }

    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// # Errors
    /// When a signal has come.
    pub fn check(&self) -> Result<()> {
        if self.is_raised() {
            bail!("stopped by a signal");
        }
        Ok(())
    }

    pub fn directory_made(&self, path: PathBuf) {
        self.with(|outside| outside.directories.insert(path));
    }

    pub fn server_started(&self, process: i32) {
        self.with(|outside| outside.servers.insert(process));
    }

    pub fn server_ended(&self, process: i32) {
        self.with(|outside| outside.servers.remove(&process));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Outside) -> T) -> T {
        let outside = self.outside.lock();
        change(&mut outside.unwrap_or_else(PoisonError::into_inner))
    }

    fn put_back(&self) {
        self.with(|outside| {
            for &process in &outside.servers {
                if let Some(process) = Pid::from_raw(process) {
                    // It may have ended by itself; it writes until it has.
                    let _ = kill_process(process, Signal::KILL);
                    let _ = waitpid(Some(process), WaitOptions::empty());
                }
            }
            for directory in &outside.directories {
                // What cannot be removed is removed by the next run.
                let _ = std::fs::remove_dir_all(directory);
            }
        });
    }
}
