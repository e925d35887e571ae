//! Keeps the lead right while a loop device is used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::loop_devices::{accounted, loop_devices_on};
use crate::served::correction::Accounted;
use crate::served::server::Server;
use crate::sys::go_first;

/// Between two looks at what the kernel has accounted.
const PERIOD: Duration = Duration::from_millis(20);
/// Between two looks at which loop devices there are.
const DEVICES_PERIOD: Duration = Duration::from_secs(1);

/// A thread that tells a server what the kernel has accounted of the loop
/// devices on its file. Ends when dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(server: &Arc<Server>, file: &Path) -> io::Result<Watch> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, server, file) = (Arc::clone(&stop), Arc::downgrade(server), file.to_owned());
        let thread = thread::Builder::new()
            .name("disk-watch".to_owned())
            .spawn(move || watch(&server, &file, &stopped))?;
        Ok(Watch {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported when it happened.
            let _ = thread.join();
        }
    }
}

fn watch(server: &Weak<Server>, file: &Path, stopped: &AtomicBool) {
    // As late as other threads of the disk, or it would tell of what was.
    go_first();
    let mut devices = Vec::new();
    let mut listed: Option<Instant> = None;
    while !stopped.load(Ordering::Relaxed) {
        thread::sleep(PERIOD);
        let Some(server) = server.upgrade() else {
            return;
        };
        if !server.has_news() {
            continue;
        }
        if listed.is_none_or(|at| at.elapsed() >= DEVICES_PERIOD) {
            devices = loop_devices_on(file);
            listed = Some(Instant::now());
        }
        if let Some(seen) = of_all(&devices) {
            server.correct_lead(seen);
        }
    }
}

/// Nothing where there are none, or one of them keeps no accounts.
fn of_all(devices: &[PathBuf]) -> Option<Accounted> {
    let accounts = devices.iter().map(|device| accounted(device).ok());
    accounts.reduce(|all, one| {
        let mut all = all?;
        all.add(one?);
        Some(all)
    })?
}
