//! Nothing is left behind, however a run ends.
//!
//! What must be undone is a guard: dropped at the end, on an error and while a
//! panic unwinds. A signal only raises a flag, which the measuring loops poll,
//! so that they end and the guards drop. A second signal does not wait for
//! them: it runs the registered clean-ups itself and exits at once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::error::{Failure, Kind};

/// Raised when the run should end. Cheap to clone and to poll.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
    waiting: Arc<AtomicBool>,
    told: Arc<AtomicBool>,
}

impl StopFlag {
    /// Polled by every measuring loop at least every 100 ms.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The error to return when the flag is raised, otherwise nothing.
    ///
    /// # Errors
    /// [`Failure::Interrupted`].
    pub fn check(&self) -> Result<(), Failure> {
        if !self.is_raised() {
            return Ok(());
        }
        Err(Failure::Interrupted {
            signal: signal_name(self.signal.load(Ordering::Relaxed)),
        })
    }

    /// Ends the run as if `signal` had come. Returns whether the flag was
    /// raised before.
    pub fn raise(&self, signal: i32) -> bool {
        self.signal.store(signal, Ordering::Relaxed);
        self.raised.swap(true, Ordering::SeqCst)
    }

    /// Runs what may wait for others for long, and does not look at the flag
    /// meanwhile: whoever raises it is told.
    pub fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        // In this order, and looked at in the other one by the listener: one of
        // the two sees what the other did.
        self.waiting.store(true, Ordering::SeqCst);
        if self.raised.load(Ordering::SeqCst) {
            self.tell();
        }
        let waited = wait();
        self.waiting.store(false, Ordering::SeqCst);
        waited
    }

    fn tell_if_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) {
            self.tell();
        }
    }

    /// Once.
    fn tell(&self) {
        if !self.told.swap(true, Ordering::Relaxed) {
            // A closed stderr is no reason to end otherwise.
            let _ = writeln!(
                io::stderr(),
                "{}: ends when the next bytes of the input come; once more ends it at once",
                signal_name(self.signal.load(Ordering::Relaxed))
            );
        }
    }

    /// The raw flag, for code that takes no type of this crate.
    pub fn as_atomic(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.raised)
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "Ctrl-C",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

type Action = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Actions {
    next_id: u64,
    pending: BTreeMap<u64, Action>,
}

/// What must be undone when the process cannot wait for its guards to drop.
#[derive(Clone, Default)]
pub struct Cleanups(Arc<Mutex<Actions>>);

impl Cleanups {
    /// Registers an action. It runs exactly once: when the returned guard is
    /// dropped, or in [`run_all`](Self::run_all).
    #[must_use = "the action runs as soon as the guard is dropped"]
    pub fn register(&self, action: impl FnOnce() + Send + 'static) -> Registration {
        let mut actions = self.lock();
        let id = actions.next_id;
        actions.next_id += 1;
        actions.pending.insert(id, Box::new(action));
        Registration {
            cleanups: self.clone(),
            id,
        }
    }

    /// Runs what is registered, the latest first, as guards would drop.
    pub fn run_all(&self) {
        loop {
            // Taken out one by one, so that an action is never run by two
            // threads, and the lock is not held while it runs.
            let Some((_, action)) = self.lock().pending.pop_last() else {
                return;
            };
            action();
        }
    }

    /// An action that panicked must not keep the others from running.
    fn lock(&self) -> MutexGuard<'_, Actions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a directory of this program's own, with its files and empty
/// directories; says whether it is gone. Bit by bit, as nothing else may be
/// removed: a mount that could not be taken away is left alone.
pub fn remove_own(directory: &Path) -> bool {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let _ = match is_directory {
            true => fs::remove_dir(entry.path()),
            false => fs::remove_file(entry.path()),
        };
    }
    let _ = fs::remove_dir(directory);
    !directory.exists()
}

/// Runs its action when dropped.
pub struct Registration {
    cleanups: Cleanups,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let action = self.cleanups.lock().pending.remove(&self.id);
        if let Some(action) = action {
            action();
        }
    }
}

/// Listens for Ctrl-C, SIGTERM and SIGHUP until dropped.
pub struct SignalListener {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl SignalListener {
    /// # Errors
    /// When the kernel refuses the handlers or the thread.
    pub fn start(stop: StopFlag, cleanups: Cleanups) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let thread = thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if stop.raise(signal) {
                        cleanups.run_all();
                        std::process::exit(i32::from(Kind::Runtime.exit_code()));
                    }
                    stop.tell_if_waiting();
                }
            })?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> (Arc<Mutex<Vec<u32>>>, impl Fn(u32) -> Action) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let for_actions = Arc::clone(&seen);
        let action = move |number| {
            let seen = Arc::clone(&for_actions);
            Box::new(move || seen.lock().unwrap().push(number)) as Action
        };
        (seen, action)
    }

    #[test]
    fn a_dropped_guard_runs_its_action_once() {
        let (seen, action) = recorder();
        let cleanups = Cleanups::default();
        drop(cleanups.register(action(1)));
        cleanups.run_all();
        assert_eq!(*seen.lock().unwrap(), [1]);
    }

    #[test]
    fn run_all_goes_backwards_and_disarms_the_guards() {
        let (seen, action) = recorder();
        let cleanups = Cleanups::default();
        let first = cleanups.register(action(1));
        let second = cleanups.register(action(2));
        cleanups.run_all();
        drop((first, second));
        assert_eq!(*seen.lock().unwrap(), [2, 1]);
    }

    #[test]
    fn a_panic_runs_the_action() {
        let (seen, action) = recorder();
        let cleanups = Cleanups::default();
        let registration = cleanups.register(action(1));
        let panicked = thread::spawn(move || {
            let _registration = registration;
            panic!("on purpose");
        })
        .join();
        assert!(panicked.is_err());
        assert_eq!(*seen.lock().unwrap(), [1]);
    }

    #[test]
    fn a_directory_goes_with_its_files_but_not_with_what_is_deeper() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        fs::create_dir_all(own.join("empty")).unwrap();
        fs::write(own.join("backing"), "x").unwrap();
        fs::create_dir(own.join("mounted")).unwrap();
        let deeper = own.join("mounted/file");
        fs::write(&deeper, "x").unwrap();
        assert!(!remove_own(&own));
        assert!(deeper.exists() && !own.join("empty").exists() && !own.join("backing").exists());
        fs::remove_file(deeper).unwrap();
        assert!(remove_own(&own));
        assert!(!own.exists());
    }

    #[test]
    fn the_flag_names_the_signal() {
        let stop = StopFlag::default();
        assert!(stop.check().is_ok());
        assert!(!stop.raise(SIGTERM));
        assert!(stop.raise(SIGTERM), "the second one is told apart");
        let failure = stop.check().unwrap_err();
        assert!(failure.to_string().contains("SIGTERM"));
        assert_eq!(failure.kind(), Kind::Runtime);
    }
}
