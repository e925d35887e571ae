//! The driver thread of a device: hands transfers to the backend, reaps them,
//! and runs what waits for their completion.
//!
//! One round: account for what was reaped and dispatch, under the lock; push;
//! run completers, outside of the lock. What callbacks submit is dispatched at
//! the next round, and reaches the kernel in the same system call that waits
//! for the next completion.

use super::flight::Step;
use super::flights::Flights;
use super::state::{Entry, Finished};
use super::{DeviceShared, mark_driver_thread};
use crate::backend::{Backend, BackendError, BackendReport, Completed, Wake};
use crate::sys::clock::now_ns;
use crate::sys::span::pin;
use iolane_sched::Level;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Completion callbacks run on it; pages of a stack that are not touched take
/// no memory.
const STACK_BYTES: usize = 256 * 1024;

/// How long pushed operations may wait for callbacks before they are flushed
/// by a system call of their own: below this, saving the call is worth more.
const FLUSH_DELAY_NS_MAX: u64 = 20_000;

/// Operations that an idle device gets ahead of the rest of a batch: it takes
/// about as long for them as the kernel takes to prepare a dozen more.
const HEAD_START: usize = 2;

/// Pause before a system call that failed as a whole is repeated. The kernel
/// does that when it is short of memory.
const BACKEND_PAUSE: Duration = Duration::from_millis(1);

/// Opens a backend for a number of operations. A function, so that tests can
/// put a failing one in between.
pub(crate) type OpenBackend =
    dyn Fn(u32) -> Result<(Box<dyn Backend>, BackendReport), BackendError> + Send + Sync;

/// What other threads know of a running driver.
pub(crate) struct Driver {
    pub waker: Arc<dyn Wake>,
    pub report: BackendReport,
    pub registered: Registered,
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

/// Starts the driver of `device`; returns when its backend is open.
pub(crate) fn start(device: &Arc<DeviceShared>) -> Result<Driver, BackendError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let own = Arc::clone(device);
    let spawned = thread::Builder::new()
        .name(format!("iolane-{}", device.info.name))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            mark_driver_thread();
            // io_uring's single-issuer mode wants the ring made by its user.
            let in_flight_max = own.lock().scheduler.config().in_flight_max;
            let backend = match (own.settings.open_backend)(in_flight_max) {
                Ok((mut backend, report)) => {
                    let registered = register(&own, backend.as_mut());
                    // The receiver waits; it cannot be gone.
                    let _ = sender.send(Ok((backend.waker(), report, registered)));
                    backend
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            // A driver that panicked has operations in flight that nobody
            // reaps; neither their memory nor their waiters can be let go.
            if catch_unwind(AssertUnwindSafe(|| Round::new(own, backend).run())).is_err() {
                std::process::abort();
            }
        });
    let thread = spawned.map_err(no_thread)?;
    match receiver.recv() {
        Ok(Ok((waker, report, registered))) => Ok(Driver {
            waker,
            report,
            registered,
            thread: Mutex::new(Some(thread)),
        }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(no_thread("it ended before its backend was open")),
    }
}

/// What became of registering an arena with the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// How many of its bytes are registered.
    pub bytes: u64,
    /// Why not all of them. Transfers work without, at a higher cost each.
    pub refusal: Option<String>,
}

fn register(device: &DeviceShared, backend: &mut dyn Backend) -> Registered {
    let Some(arena) = &device.settings.arena else {
        return Registered::default();
    };
    let regions = crate::sys::span::regions_of(arena);
    let report = backend.register_buffers(&regions);
    Registered {
        bytes: report.bytes,
        refusal: report.refusal,
    }
}

fn no_thread(reason: impl std::fmt::Display) -> BackendError {
    BackendError::NoneUsable {
        refused: vec![(
            crate::backend::BackendKind::Threads,
            format!("the driver thread could not be started: {reason}"),
        )],
    }
}

struct Round {
    // First, so that it is dropped first: before the arena that it may have
    // registered, which the device's settings hold.
    backend: Box<dyn Backend>,
    device: Arc<DeviceShared>,
    ioprio: [u16; Level::COUNT],
    flights: Flights,
    completed: Vec<Completed>,
    /// Tokens of flights that ended in this round.
    ended: Vec<u32>,
    /// Tokens of flights to push.
    to_push: Vec<u32>,
    finished: Vec<Finished>,
    /// The scheduler holds requests back.
    backlogged: bool,
}

impl Round {
    fn new(device: Arc<DeviceShared>, backend: Box<dyn Backend>) -> Round {
        let gap_bytes_max = device.lock().scheduler.config().merge_gap_bytes_max;
        Round {
            ioprio: device.settings.io_priority.table(),
            flights: Flights::new(backend.capacity(), gap_bytes_max),
            device,
            backend,
            completed: Vec::new(),
            ended: Vec::new(),
            to_push: Vec::new(),
            finished: Vec::new(),
            backlogged: false,
        }
    }

    /// Until the engine is closed and everything outstanding has completed.
    fn run(&mut self) {
        loop {
            let Some(timeout) = self.account_and_dispatch() else {
                return;
            };
            let mut pushed = self.push();
            if pushed && self.backlogged {
                // The device waits for these; callbacks can add nothing to
                // them, as what they submit has to queue.
                let flushed = self.backend.flush();
                self.note(flushed);
                pushed = false;
            }
            if self.finished.is_empty() {
                self.reap(timeout);
            } else {
                self.run_completers(pushed);
            }
        }
    }

    /// Under the lock: takes what ended out of the table, dispatches, and goes
    /// to sleep if there is nothing else to do. Returns how long to sleep, or
    /// `None` when all is done.
    fn account_and_dispatch(&mut self) -> Option<Option<Duration>> {
        // Failures first: a failed sync decides about the others of its file.
        if !self
            .ended
            .iter()
            .all(|&token| self.flights.get(token).is_ok())
        {
            let flights = &self.flights;
            self.ended.sort_by_key(|&token| flights.get(token).is_ok());
        }
        let now_ns = now_ns();
        let mut state = self.device.lock();
        for &token in &self.ended {
            state.finish(now_ns, self.flights.get(token), &mut self.finished);
            self.flights.give_back(token);
        }
        self.ended.clear();
        state.dispatch(now_ns);
        let again = self.to_push.len();
        state.hand_over(&mut self.flights, &self.ioprio, &mut self.to_push);
        state.statistics.handed_over(self.to_push.len() - again);
        self.backlogged = state.scheduler.has_queued();
        self.device.announce_room(&state);
        state.driver_asleep = self.finished.is_empty();
        if !state.driver_asleep {
            return Some(None);
        }
        if state.closing && state.is_drained() {
            return None;
        }
        state.driver_timer_ns = state.scheduler.next_timer();
        let timer = state.driver_timer_ns;
        Some(timer.map(|at| Duration::from_nanos(at.saturating_sub(now_ns))))
    }

    /// Pushes what is to go. The kernel prepares all operations of a system
    /// call before the device sees the first; a device that has nothing else
    /// to do gets a few by a call of their own, to be busy meanwhile.
    fn push(&mut self) -> bool {
        let count = self.to_push.len();
        let idle = self.backlogged && self.flights.in_use() == count;
        let head_start = if idle && count > 2 * HEAD_START {
            HEAD_START
        } else {
            0
        };
        let mut flushed = Ok(());
        for (index, token) in self.to_push.drain(..).enumerate() {
            if index > 0 && index == head_start {
                flushed = self.backend.flush();
            }
            let op = self.flights.get(token).operation(u64::from(token));
            self.backend.push(pin(op));
        }
        self.note(flushed);
        count > 0
    }

    fn run_completers(&mut self, mut unflushed: bool) {
        let flush_at_ns = now_ns() + FLUSH_DELAY_NS_MAX;
        let mut finished = std::mem::take(&mut self.finished);
        for (entry, result) in finished.drain(..) {
            let Entry {
                completer, file, ..
            } = entry;
            // Before anyone learns of the completion: who closes the last
            // handle then has closed the file.
            drop(file);
            // A callback's panic is its own affair; the device goes on.
            if catch_unwind(AssertUnwindSafe(|| completer.finish(result))).is_err() {
                self.device.lock().statistics.callback_panics += 1;
            }
            // A callback forked, and this is the child. It shares the kernel's
            // queues with its parent: what it took from them, or submitted to
            // them, would be missing there.
            if self.device.is_orphaned() {
                std::process::abort();
            }
            if unflushed && now_ns() >= flush_at_ns {
                let flushed = self.backend.flush();
                self.note(flushed);
                unflushed = false;
            }
        }
        // Keeps the memory; callbacks never add to it.
        self.finished = finished;
    }

    fn reap(&mut self, timeout: Option<Duration>) {
        let reaped = self.backend.reap(timeout, &mut self.completed);
        self.note(reaped);
        for Completed { token, result } in self.completed.drain(..) {
            let token = token as u32;
            match self.flights.get_mut(token).completed(result) {
                Step::Again => self.to_push.push(token),
                Step::Done => self.ended.push(token),
            }
        }
    }

    /// A failed call is repeated for ever: operations in flight cannot be let
    /// go before the kernel gives them back.
    fn note(&mut self, result: std::io::Result<()>) {
        if result.is_err() {
            self.device.lock().statistics.backend_errors += 1;
            thread::sleep(BACKEND_PAUSE);
        }
    }
}
