//! Linux AIO as a backend: direct transfers and syncs by `io_submit`, buffered
//! transfers, which would block in it, by a pool of threads.
//!
//! Syncs go to the kernel: since 4.18 `io_submit` hands them to a kernel
//! worker (fs/aio.c, `aio_fsync`) and does not wait. The backend needs 4.19 in
//! any case, for the poll that watches its alarm.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use super::bell::{Bell, Nudge};
use super::countdown::Countdown;
use super::pool::Pool;
use super::slots::Slots;
use super::{Backend, BackendKind, Completed, OpCode, PinnedOp, Wake};
use crate::sys::aio::{AioContext, AioEvent};
use crate::sys::eventfd::{EventFd, WhenZero};

/// Longest wait while the kernel had no room for more control blocks: then it
/// is tried again.
const RETRY_WAIT: Duration = Duration::from_millis(1);

pub(crate) struct AioBackend {
    // First, so that its drop comes first: it waits for the kernel.
    context: AioContext,
    pool: Pool,
    slots: Slots,
    /// Prepared and not submitted.
    pending: Vec<u32>,
    /// Refused by `io_submit`, to be reaped.
    refused: Vec<Completed>,
    events: Vec<AioEvent>,
    bell: Arc<Bell<Arc<EventFd>>>,
}

impl AioBackend {
    /// An error's text names the failing call and, where known, the remedy.
    pub fn new(capacity: u32) -> Result<AioBackend, String> {
        let alarm = EventFd::new(WhenZero::Fail).map_err(|error| format!("eventfd: {error}"))?;
        let context = AioContext::new(capacity + 1).map_err(|error| explain_setup(&error))?;
        let bell = Arc::new(Bell::new(Arc::new(alarm)));
        let mut backend = AioBackend {
            context,
            pool: Pool::new(capacity, Arc::clone(&bell) as Arc<dyn Nudge>),
            slots: Slots::new(capacity),
            pending: Vec::with_capacity(capacity as usize + 1),
            refused: Vec::with_capacity(capacity as usize),
            events: Vec::with_capacity(capacity as usize + 1),
            bell,
        };
        backend.watch_alarm();
        backend.flush().map_err(|error| {
            format!("io_submit: {error} (poll by Linux AIO needs Linux 4.19 or newer)")
        })?;
        Ok(backend)
    }

    /// The control block after those of the operations.
    fn alarm_slot(&self) -> u32 {
        self.slots.capacity()
    }

    fn watch_alarm(&mut self) {
        let slot = self.alarm_slot();
        self.context
            .prepare_poll(slot, self.bell.alarm().as_raw_fd());
        self.pending.push(slot);
    }

    /// Turns events, refusals and the pool's results into completions.
    fn settle(&mut self, out: &mut Vec<Completed>) {
        let alarm_slot = self.alarm_slot();
        let mut alarm_rang = false;
        for event in self.events.drain(..) {
            if event.slot == alarm_slot {
                alarm_rang = true;
                continue;
            }
            out.push(Completed {
                token: self.slots.remove(event.slot),
                result: event.result,
            });
        }
        if alarm_rang {
            self.bell.alarm().clear();
            self.watch_alarm();
        }
        out.append(&mut self.refused);
        self.pool.drain(out);
    }

    fn poll(&mut self, out: &mut Vec<Completed>) -> io::Result<()> {
        self.context.poll(&mut self.events)?;
        self.settle(out);
        Ok(())
    }

    /// Blocks for an event or the alarm, `timeout` at most.
    fn block(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = if self.pending.is_empty() {
            timeout
        } else {
            Some(timeout.map_or(RETRY_WAIT, |timeout| timeout.min(RETRY_WAIT)))
        };
        match self.context.wait(timeout, &mut self.events) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            waited => waited,
        }
    }
}

impl Backend for AioBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::LinuxAio
    }

    fn capacity(&self) -> u32 {
        self.slots.capacity()
    }

    fn push(&mut self, op: PinnedOp) {
        assert!(
            self.slots.len() + self.pool.in_flight() < self.capacity(),
            "no more operations in flight than the backend's capacity"
        );
        let blocks = !op.op().direct && matches!(op.op().code, OpCode::Read | OpCode::Write);
        if blocks {
            self.pool.push(op);
            return;
        }
        let slot = self.slots.insert(op);
        self.context.prepare(slot, self.slots.get(slot));
        self.pending.push(slot);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pool.flush();
        let alarm_slot = self.alarm_slot();
        let mut done = 0;
        let mut result = Ok(());
        while done < self.pending.len() {
            let error = match self.context.submit(&self.pending[done..]) {
                Ok(taken) => {
                    done += taken;
                    continue;
                }
                Err(error) => error,
            };
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            let slot = self.pending[done];
            match errno {
                libc::EINTR => {}
                // No room: events have to be reaped first.
                libc::EAGAIN => break,
                _ if slot == alarm_slot => {
                    result = Err(error);
                    break;
                }
                _ if self.slots.retry(slot, errno, 0) => {
                    self.context.prepare(slot, self.slots.get(slot));
                }
                _ => {
                    let token = self.slots.remove(slot);
                    self.refused.push(Completed {
                        token,
                        result: -errno,
                    });
                    done += 1;
                }
            }
        }
        self.pending.drain(..done);
        result
    }

    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()> {
        let before = out.len();
        self.flush()?;
        self.poll(out)?;
        if out.len() > before || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let countdown = Countdown::new(timeout);
        loop {
            // The alarm may have to be watched again, and what found no room
            // to be tried again.
            self.flush()?;
            if !self.bell.begin_sleep() {
                return self.poll(out);
            }
            // The second look that the bell's protocol asks for.
            self.pool.drain(out);
            let blocked = if out.len() == before && self.refused.is_empty() {
                self.block(countdown.left())
            } else {
                Ok(())
            };
            let woken = self.bell.end_sleep();
            self.settle(out);
            blocked?;
            if woken || out.len() > before {
                return Ok(());
            }
            if countdown.is_over() {
                return Ok(());
            }
        }
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }
}

fn explain_setup(error: &io::Error) -> String {
    let cause = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "a seccomp filter",
        Some(libc::ENOSYS) => "a kernel built without it",
        Some(libc::EAGAIN) => "fs.aio-max-nr is used up: raise it",
        _ => return format!("io_setup: {error}"),
    };
    format!("io_setup: {error} ({cause})")
}
