//! A device: one scheduler, one lock, one driver thread.
//!
//! | file | subject |
//! |---|---|
//! | `identity` | which whole disk a file lies on |
//! | `state` | what the lock protects: scheduler, table of requests, statistics |
//! | `driver` | the thread that hands transfers to the backend |
//! | `flight`, `flights` | transfers in the backend, to their full length |
//! | `inodes` | numbers of files, and what all handles of a file share |
//!
//! **Threads.** The driver thread is started by the first request that has to queue. It alone
//! touches the backend; only the waker is shared. It runs callbacks, so these must not block:
//! a blocking call inside one is refused ([`Cause::InCallback`]). The thread pool and Linux AIO
//! on buffered files, where `io_submit` blocks, have worker threads of their own, a simulated disk has
//! one (`simulated/clock`). A driver that panics aborts the process, as operations in flight could
//! neither be reaped nor let go; a callback's panic is caught and counted.
//!
//! **Locks.** [`DeviceShared::state`] protects the scheduler, the table of requests and the
//! statistics. No system call, no callback and no drop of a caller's value happens under it. The
//! condition variables in `room`, one per level, belong to it. `inodes` has a lock of its own, taken
//! when files are opened and closed, never together with the other. Devices share nothing.
//!
//! **Fork.** A child has none of these threads, and may find any lock held. What was made before the
//! fork knows that it was (`sys/fork`: a counter that an atfork handler raises in the child, looked
//! at before any lock is taken) and refuses requests with [`Cause::Forked`]; nothing in it locks, wakes or
//! waits for what is the parent's. A child that returns from a completion callback would run the
//! parent's driver: it is aborted.

mod driver;
mod flight;
mod flights;
mod identity;
mod inodes;
mod state;

pub use driver::Registered;
pub use identity::DeviceInfo;

pub(crate) use driver::OpenBackend;
pub(crate) use flight::kernel as kernel_cause;
pub(crate) use identity::identify;
pub(crate) use inodes::{Inode, InodeKey, Inodes};
pub(crate) use state::{Entry, kind_of};

use crate::backend::{BackendError, BackendReport, FORKED};
use crate::completion::lock;
use crate::engine::Settings;
use crate::error::Cause;
use crate::pending::Identify;
use crate::statistics::{DeviceStatistics, Done, Outstanding, Tag};
use crate::sys::clock::now_ns;
use crate::sys::fork::Process;
use driver::Driver;
use iolane_sched::{
    Config, ConfigError, Level, Policy, Request, RequestId, Snapshot, WindowConfig,
};
use state::State;
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

thread_local! {
    static DRIVER_THREAD: Cell<bool> = const { Cell::new(false) };
}

fn mark_driver_thread() {
    DRIVER_THREAD.set(true);
}

/// Does this thread run completion callbacks? Then it must not block.
pub(crate) fn in_driver() -> bool {
    DRIVER_THREAD.get()
}

/// What to do when the allocation group of a level is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    Wait,
    Refuse,
}

/// A request that was not taken.
pub(crate) struct Refused {
    pub entry: Entry,
    pub cause: Cause,
}

pub(crate) struct DeviceShared {
    pub info: DeviceInfo,
    pub settings: Arc<Settings>,
    pub inodes: Mutex<Inodes>,
    state: Mutex<State>,
    /// Per level: where threads wait for room in its allocation group.
    room: [Condvar; Level::COUNT],
    /// Started by the first request that has to queue.
    driver: OnceLock<Result<Driver, BackendError>>,
    /// Where its requests are carried out.
    process: Process,
    /// What `state` began with.
    config: Config,
    /// In children, where the lock of `state` may be held by a thread that is
    /// not there: the state of a device that nothing was asked of.
    orphaned: OnceLock<Box<Mutex<State>>>,
}

impl DeviceShared {
    pub(crate) fn new(
        info: DeviceInfo,
        config: Config,
        settings: Arc<Settings>,
    ) -> Result<DeviceShared, ConfigError> {
        Ok(DeviceShared {
            info,
            settings,
            inodes: Mutex::default(),
            state: Mutex::new(State::new(config.clone())?),
            room: Default::default(),
            driver: OnceLock::new(),
            process: Process::this(),
            config,
            orphaned: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        if self.is_orphaned() {
            return lock(self.orphaned.get_or_init(|| {
                let state = State::new(self.config.clone());
                Box::new(Mutex::new(state.expect("the device was made with it")))
            }));
        }
        lock(&self.state)
    }

    /// Is this a child of the process that has the device's driver?
    pub(crate) fn is_orphaned(&self) -> bool {
        !self.process.is_this()
    }

    fn driver(self: &Arc<Self>) -> Result<&Driver, &BackendError> {
        if self.is_orphaned() {
            return Err(&FORKED);
        }
        self.driver.get_or_init(|| driver::start(self)).as_ref()
    }

    fn wake(&self) {
        if let Some(Ok(driver)) = self.driver.get() {
            driver.waker.wake();
        }
    }

    /// The fast path. `Ok(None)`: the request must queue.
    pub(crate) fn start(
        &self,
        request: Request,
        tag: Option<Tag>,
    ) -> Result<Option<Started>, Cause> {
        if self.is_orphaned() {
            return Err(Cause::Forked);
        }
        let now_ns = now_ns();
        let mut state = self.lock();
        if state.closing {
            return Err(Cause::Closed);
        }
        let id = state.start(now_ns, request, tag);
        Ok(id.map(|id| Started {
            id,
            request,
            tag,
            now_ns,
        }))
    }

    /// The end of the fast path: lets go what became possible.
    pub(crate) fn finish_started(&self, started: &Started, result: Result<u32, ()>) {
        if self.is_orphaned() {
            return; // It began in the parent.
        }
        let now_ns = now_ns();
        let done = Done {
            submitted_ns: started.now_ns,
            dispatched_ns: started.now_ns,
            bytes: result.unwrap_or(0),
            merged: false,
            failed: result.is_err(),
            tag: started.tag,
        };
        let mut state = self.lock();
        state.finish_started(now_ns, started.id, &started.request, &done);
        let wake = state.scheduler.has_queued() && state.pump(now_ns);
        self.announce_room(&state);
        drop(state);
        if wake {
            self.wake();
        }
    }

    /// Queues one request.
    pub(crate) fn submit(
        self: &Arc<Self>,
        entry: Entry,
        when_full: WhenFull,
        identify: Option<&dyn Identify>,
    ) -> Result<(), Box<Refused>> {
        let mut submission = match self.begin() {
            Ok(submission) => submission,
            Err(cause) => return Err(Box::new(Refused { entry, cause })),
        };
        submission.add(entry, when_full, identify)
    }

    /// Takes the lock for submitting any number of requests, which the driver
    /// learns of when the submission is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Submission<'_>, Cause> {
        match self.driver() {
            Ok(_) => {}
            Err(BackendError::Forked) => return Err(Cause::Forked),
            Err(error) => return Err(Cause::Backend(error.clone())),
        }
        Ok(Submission {
            device: self,
            state: Some(self.lock()),
        })
    }

    pub(crate) fn promote(&self, id: RequestId, level: Level) -> bool {
        if self.is_orphaned() {
            return false;
        }
        let mut state = self.lock();
        let promoted = state.promote(id, level);
        let wake = promoted && state.pump(now_ns());
        self.announce_room(&state);
        drop(state);
        if wake {
            self.wake();
        }
        promoted
    }

    pub(crate) fn cancel(&self, id: RequestId) -> bool {
        if self.is_orphaned() {
            return false;
        }
        let now_ns = now_ns();
        let mut state = self.lock();
        let entry = state.cancel(now_ns, id);
        // What waited for the cancelled one may go now.
        let wake = entry.is_some() && state.pump(now_ns);
        self.announce_room(&state);
        drop(state);
        if wake {
            self.wake();
        }
        entry.is_some()
    }

    /// Threads that wait for room in an allocation group.
    #[cfg(test)]
    pub(crate) fn waiting_for_room(&self) -> u32 {
        self.lock().waiting_for_room.iter().sum()
    }

    /// Wakes as many waiting submitters as there is room for.
    fn announce_room(&self, state: &State) {
        for level in Level::ALL {
            let waiting = state.waiting_for_room[level.index()];
            if waiting > 0 {
                for _ in 0..waiting.min(state.room(level)) {
                    self.room[level.index()].notify_one();
                }
            }
        }
    }

    /// Refuses new requests; the driver ends when all others have completed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.driver_asleep = false;
        drop(state);
        for room in &self.room {
            room.notify_all();
        }
        self.wake();
    }

    /// Waits for the driver's end, after [`close`](DeviceShared::close).
    pub(crate) fn join(&self) {
        if in_driver() {
            return; // A callback let the engine go; it cannot wait for itself.
        }
        if let Some(Ok(driver)) = self.driver.get()
            && let Some(thread) = lock(&driver.thread).take()
        {
            // An error would be a panic; the driver aborts on those.
            let _ = thread.join();
        }
    }
}

/// A request that its own thread carries to the device.
pub(crate) struct Started {
    id: RequestId,
    request: Request,
    tag: Option<Tag>,
    now_ns: u64,
}

/// Requests being submitted under one lock, with one wake-up.
pub(crate) struct Submission<'a> {
    device: &'a DeviceShared,
    /// Empty only while it is moved through a wait.
    state: Option<MutexGuard<'a, State>>,
}

impl Submission<'_> {
    /// Queues a request; blocks for room in its allocation group if so wanted.
    /// `identify` learns the id before anyone can see the completion.
    pub(crate) fn add(
        &mut self,
        mut entry: Entry,
        when_full: WhenFull,
        identify: Option<&dyn Identify>,
    ) -> Result<(), Box<Refused>> {
        loop {
            let Some(state) = &mut self.state else {
                unreachable!("the guard is put back after each wait");
            };
            if state.closing {
                let cause = Cause::Closed;
                return Err(Box::new(Refused { entry, cause }));
            }
            let now_ns = now_ns();
            match state.enqueue(now_ns, entry) {
                Ok(id) => {
                    if let Some(identify) = identify {
                        identify.identify(id);
                    }
                    return Ok(());
                }
                Err(refused) => match (&refused.cause, when_full) {
                    (&Cause::QueueFull { level, .. }, WhenFull::Wait) => {
                        entry = refused.entry;
                        self.wait_for_room(level);
                    }
                    _ => return Err(refused),
                },
            }
        }
    }

    fn wait_for_room(&mut self, level: Level) {
        // Those queued before must be on their way, or there is never room.
        if let Some(state) = &mut self.state
            && state.pump(now_ns())
        {
            self.device.wake();
        }
        let Some(mut state) = self.state.take() else {
            unreachable!("the guard is put back after each wait");
        };
        if state.room(level) == 0 && !state.closing {
            state.waiting_for_room[level.index()] += 1;
            state = self.device.room[level.index()]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting_for_room[level.index()] -= 1;
        }
        self.state = Some(state);
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        if let Some(mut state) = self.state.take() {
            let wake = state.driver_asleep && state.pump(now_ns());
            drop(state);
            if wake {
                self.device.wake();
            }
        }
    }
}

/// One whole disk (or one filesystem without a disk) with its scheduler.
///
/// Devices share nothing: no lock, no thread, no queue. Cheap to clone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, OpenOptions, Policy, WindowConfig};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, b"x")?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let device = file.device();
/// println!("{} through {}", device.info().name, device.backend()?);
/// device.set_policy(Policy::Noop, WindowConfig::Fixed(32))?;
/// assert_eq!(device.snapshot().policy, Policy::Noop);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Device(pub(crate) Arc<DeviceShared>);

impl Device {
    /// What the kernel says about it.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Which backend carries queued requests, and why. Starts the driver
    /// thread if nothing did before.
    ///
    /// # Errors
    /// No backend could be opened. Blocking calls work all the same, as long
    /// as none of them has to queue.
    pub fn backend(&self) -> Result<&BackendReport, BackendError> {
        match self.0.driver() {
            Ok(driver) => Ok(&driver.report),
            Err(error) => Err(error.clone()),
        }
    }

    /// What became of the arena that the engine was given
    /// ([`EngineBuilder::arena`](crate::EngineBuilder::arena)): bytes
    /// registered with the kernel, and why not all of them.
    ///
    /// # Errors
    /// As [`backend`](Device::backend).
    pub fn registered(&self) -> Result<Registered, BackendError> {
        match self.0.driver() {
            Ok(driver) => Ok(driver.registered.clone()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Counts and times since the engine first used the device. Copies all
    /// histograms under the device's lock: some ten microseconds. In a child of
    /// the engine's process, all zeros.
    pub fn statistics(&self) -> DeviceStatistics {
        self.0.lock().statistics.snapshot(now_ns())
    }

    /// How many requests were outstanding, and for how long, since the engine
    /// first used the device (those of a class since it was first looked at or
    /// used). Copies under the device's lock what a microsecond is enough for.
    pub fn outstanding(&self) -> Outstanding {
        self.0.lock().statistics.outstanding(now_ns())
    }

    /// The scheduler's state now.
    pub fn snapshot(&self) -> Snapshot {
        self.0.lock().scheduler.snapshot()
    }

    /// Changes the policy and the window; what is queued stays queued.
    ///
    /// # Errors
    /// A window that the policy does not have. Nothing changed.
    pub fn set_policy(&self, policy: Policy, window: WindowConfig) -> Result<(), ConfigError> {
        let mut state = self.0.lock();
        state.scheduler.set_policy(policy, window)?;
        let wake = state.pump(now_ns());
        drop(state);
        if wake {
            self.0.wake();
        }
        Ok(())
    }

    /// Changes the window alone.
    ///
    /// # Errors
    /// A window that the policy does not have. Nothing changed.
    pub fn set_window(&self, window: WindowConfig) -> Result<(), ConfigError> {
        self.set_policy(self.snapshot().policy, window)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("info", &self.0.info)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}
