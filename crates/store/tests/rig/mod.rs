//! What watches over a test that must neither hang nor panic elsewhere.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// Without progress for so many seconds of running, a test hangs. A process
/// that is stopped meanwhile does not count them.
const PATIENCE_S: u64 = 120;

/// Ends the process when a test makes no progress.
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    at: Arc<Mutex<(u64, String)>>,
}

impl Watchdog {
    pub fn start() -> Watchdog {
        let stop = Arc::new(AtomicBool::new(false));
        let at = Arc::new(Mutex::new((0, String::new())));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&at));
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                let mut at = seen.lock().unwrap();
                at.0 += 1;
                if at.0 > PATIENCE_S && !stopped.load(Ordering::Relaxed) {
                    eprintln!("no progress for {PATIENCE_S} s: {}", at.1);
                    std::process::abort();
                }
            }
        });
        Watchdog { stop, at }
    }

    /// What begins now.
    pub fn at(&self, words: &str) {
        *self.at.lock().unwrap() = (0, words.to_owned());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts panics of the threads that stores and engines start, which reach
/// nobody else.
pub struct Panics;

impl Panics {
    pub fn count() -> Panics {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                let thread = std::thread::current();
                if thread.name().is_some_and(|name| name.starts_with("iolane")) {
                    PANICS.fetch_add(1, Ordering::Relaxed);
                }
                before(panic);
            }));
        });
        Panics
    }

    /// Since the beginning of the process.
    pub fn so_far(&self) -> u64 {
        PANICS.load(Ordering::Relaxed)
    }
}
