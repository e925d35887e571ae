//! Threads that do blocking transfers: the "simulated asynchronous I/O" of the
//! paper, and what Linux AIO needs for buffered files.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::bell::Nudge;
use super::{Completed, PinnedOp};
use crate::sys::syscalls;

/// Most threads of one pool. Beyond it a device's queue is long, not full.
pub(crate) const THREADS_MAX: usize = 64;

/// A thread only calls preadv and the like. The standard library raises this
/// to what the platform needs at least.
const STACK_BYTES: usize = 64 * 1024;

/// A bounded pool, used by one driver thread. Threads are started when all
/// others are busy, and end when the pool is dropped.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Pushed and not flushed.
    batch: Vec<PinnedOp>,
    /// Pushed and not drained.
    in_flight: u32,
}

struct Shared {
    work: Mutex<Work>,
    work_came: Condvar,
    done: Mutex<Vec<Completed>>,
    driver: Arc<dyn Nudge>,
}

struct Work {
    queue: VecDeque<PinnedOp>,
    /// Threads without an operation, those being started included.
    idle: usize,
    closing: bool,
}

impl Pool {
    /// All tables are made for `capacity` operations in flight.
    pub fn new(capacity: u32, driver: Arc<dyn Nudge>) -> Pool {
        let capacity = capacity as usize;
        Pool {
            shared: Arc::new(Shared {
                work: Mutex::new(Work {
                    queue: VecDeque::with_capacity(capacity),
                    idle: 0,
                    closing: false,
                }),
                work_came: Condvar::new(),
                done: Mutex::new(Vec::with_capacity(capacity)),
                driver,
            }),
            threads: Vec::new(),
            batch: Vec::with_capacity(capacity),
            in_flight: 0,
        }
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub fn push(&mut self, op: PinnedOp) {
        self.in_flight += 1;
        self.batch.push(op);
    }

    /// Hands the batch to the threads, under one lock.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let (to_wake, to_start) = {
            let mut work = lock(&self.shared.work);
            work.queue.extend(self.batch.drain(..));
            let queued = work.queue.len();
            let to_wake = queued.min(work.idle);
            let to_start = queued
                .saturating_sub(work.idle)
                .min(THREADS_MAX - self.threads.len());
            work.idle += to_start;
            (to_wake, to_start)
        };
        for _ in 0..to_wake {
            self.shared.work_came.notify_one();
        }
        self.start(to_start);
    }

    /// Appends what finished.
    pub fn drain(&mut self, out: &mut Vec<Completed>) {
        if self.in_flight == 0 {
            return;
        }
        let mut done = lock(&self.shared.done);
        self.in_flight -= done.len() as u32;
        out.append(&mut done);
    }

    fn start(&mut self, count: usize) {
        for started in 0..count {
            let shared = Arc::clone(&self.shared);
            let spawned = thread::Builder::new()
                .name(format!("iolane-io-{}", self.threads.len()))
                .stack_size(STACK_BYTES)
                .spawn(move || shared.serve());
            match spawned {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    let mut work = lock(&self.shared.work);
                    work.idle -= count - started;
                    // Those that run will get to it. Without any, nobody would.
                    if self.threads.is_empty() {
                        let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                        let refused = work.queue.drain(..).map(|op| Completed {
                            token: op.op().token,
                            result: -errno,
                        });
                        lock(&self.shared.done).extend(refused);
                    }
                    return;
                }
            }
        }
    }
}

impl Drop for Pool {
    /// Finishes what was flushed, and joins the threads.
    fn drop(&mut self) {
        lock(&self.shared.work).closing = true;
        self.shared.work_came.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has no operation any more.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of a pool thread.
    fn serve(&self) {
        syscalls::block_signals();
        let mut ioprio_now = 0;
        while let Some(op) = self.next() {
            let ioprio = op.op().ioprio;
            if ioprio != ioprio_now {
                // A hint: refused, the transfer runs with the one before. It is
                // remembered all the same, not to ask for each transfer.
                let _ = syscalls::set_thread_ioprio(ioprio);
                ioprio_now = ioprio;
            }
            let completed = Completed {
                token: op.op().token,
                result: syscalls::transfer(&op),
            };
            // Before the driver can know: what it pushes next is for this
            // thread, and needs no new one.
            lock(&self.work).idle += 1;
            lock(&self.done).push(completed);
            self.driver.nudge();
        }
    }

    /// The next operation. None when the pool closes and all work is done.
    fn next(&self) -> Option<PinnedOp> {
        let mut work = lock(&self.work);
        loop {
            if let Some(op) = work.queue.pop_front() {
                work.idle -= 1;
                return Some(op);
            }
            if work.closing {
                return None;
            }
            work = self
                .work_came
                .wait(work)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// No state under these locks can be left half changed by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
