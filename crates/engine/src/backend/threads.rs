//! The thread pool as a backend: works on every kernel and under every filter.

use std::io;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

use super::bell::{Bell, Nudge};
use super::countdown::Countdown;
use super::pool::Pool;
use super::{Backend, BackendKind, Completed, PinnedOp, Wake};

pub(crate) struct ThreadsBackend {
    pool: Pool,
    capacity: u32,
    bell: Arc<Bell<Thread>>,
}

impl ThreadsBackend {
    /// To be driven by the calling thread, which the pool will unpark.
    pub fn new(capacity: u32) -> ThreadsBackend {
        let bell = Arc::new(Bell::new(thread::current()));
        ThreadsBackend {
            pool: Pool::new(capacity, Arc::clone(&bell) as Arc<dyn Nudge>),
            capacity,
            bell,
        }
    }
}

impl Backend for ThreadsBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Threads
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn push(&mut self, op: PinnedOp) {
        assert!(
            self.pool.in_flight() < self.capacity,
            "no more operations in flight than the backend's capacity"
        );
        self.pool.push(op);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pool.flush();
        Ok(())
    }

    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()> {
        self.pool.flush();
        let before = out.len();
        self.pool.drain(out);
        if out.len() > before || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let countdown = Countdown::new(timeout);
        loop {
            if !self.bell.begin_sleep() {
                self.pool.drain(out);
                return Ok(());
            }
            self.pool.drain(out);
            if out.len() == before {
                match countdown.left() {
                    None => thread::park(),
                    Some(left) => thread::park_timeout(left),
                }
            }
            let woken = self.bell.end_sleep();
            self.pool.drain(out);
            if woken || out.len() > before || countdown.is_over() {
                return Ok(());
            }
        }
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }
}
