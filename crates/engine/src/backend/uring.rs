//! io_uring as a backend: one system call submits a batch and collects what
//! finished.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::bell::Bell;
use super::countdown::Countdown;
use super::slots::Slots;
use super::{Backend, BackendKind, BufferRegion, BuffersReport, Completed, PinnedOp, Wake};
use crate::sys::eventfd::{EventFd, WhenZero};
use crate::sys::uring::{ALARM, Ring, RingMode, is_transient};

/// Submission queue entries. More do not make submission cheaper, and these
/// (16 KiB) stay in the first-level cache.
const SQ_ENTRIES_MAX: u32 = 256;

/// How often an operation that ended with EAGAIN or EINTR is submitted again
/// before its caller hears of it.
const RETRIES_MAX: u8 = 8;

/// Longest wait while operations could not be handed to the kernel for want
/// of memory: then it is tried again.
const RETRY_WAIT: Duration = Duration::from_millis(1);

/// Most that the kernel registers as one buffer (io_uring_register(2)).
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// `IORING_MAX_REG_BUFFERS` of the kernel.
const BUFFERS_MAX: usize = 1 << 14;

pub(crate) struct UringBackend {
    // First, so that its drop comes first: it waits for the kernel, which
    // still writes to the memory of the operations in `slots`.
    ring: Ring,
    slots: Slots,
    /// Slots in use that found the submission queue full, or are to be
    /// submitted again.
    waiting: VecDeque<u32>,
    alarm_watched: bool,
    bell: Arc<Bell<Arc<EventFd>>>,
    /// Registered memory, by address; the position is the kernel's index.
    buffers: Vec<BufferRegion>,
}

impl UringBackend {
    /// To be driven by the calling thread alone: the ring refuses others.
    ///
    /// An error's text names the failing call and, where known, the remedy.
    pub fn new(capacity: u32) -> Result<UringBackend, String> {
        UringBackend::with_modes(&RingMode::ALL, capacity)
    }

    /// [`new`](UringBackend::new), in the first of `modes` that the kernel knows.
    pub fn with_modes(modes: &[RingMode], capacity: u32) -> Result<UringBackend, String> {
        let alarm = EventFd::new(WhenZero::Block).map_err(|error| format!("eventfd: {error}"))?;
        let alarm = Arc::new(alarm);
        // One more each than operations: the read that watches the alarm.
        let sq_entries = (capacity + 1).min(SQ_ENTRIES_MAX).next_power_of_two();
        let ring = Ring::new(modes, sq_entries, capacity + 1, Arc::clone(&alarm))
            .map_err(|error| explain_setup(&error))?;
        if !ring.has_enter_timeout() {
            return Err("io_uring_enter has no timeout (Linux 5.11 or newer is needed)".into());
        }
        Ok(UringBackend {
            ring,
            slots: Slots::new(capacity),
            waiting: VecDeque::with_capacity(capacity as usize),
            alarm_watched: false,
            bell: Arc::new(Bell::new(alarm)),
            buffers: Vec::new(),
        })
    }

    pub fn mode(&self) -> RingMode {
        self.ring.mode()
    }

    /// Writes the entry of a slot. False when the queue is full.
    fn queue(&mut self, slot: u32) -> bool {
        let op = self.slots.get(slot);
        let buffer = registered_buffer(&self.buffers, op);
        self.ring.push(op, u64::from(slot), buffer)
    }

    /// Moves what waits into the submission queue, as far as there is room.
    fn queue_waiting(&mut self) {
        while let Some(&slot) = self.waiting.front() {
            if !self.queue(slot) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Takes what finished from the ring.
    fn drain(&mut self, out: &mut Vec<Completed>) {
        let UringBackend {
            ring,
            slots,
            waiting,
            alarm_watched,
            ..
        } = self;
        ring.drain(|user_data, result| {
            if user_data == ALARM {
                *alarm_watched = false;
                return;
            }
            let slot = user_data as u32;
            if result < 0 && slots.retry(slot, -result, RETRIES_MAX) {
                waiting.push_back(slot);
                return;
            }
            let token = slots.remove(slot);
            out.push(Completed { token, result });
        });
    }

    /// Submits and blocks for one completion or the alarm, `timeout` at most.
    fn submit_and_block(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.queue_waiting();
        if !self.alarm_watched {
            self.alarm_watched = self.ring.push_alarm();
        }
        if !self.waiting.is_empty() || !self.alarm_watched {
            // More than the queue holds: all but the last queueful goes first.
            self.flush()?;
            if !self.alarm_watched {
                self.alarm_watched = self.ring.push_alarm();
            }
        }
        let stuck = !self.waiting.is_empty() || !self.alarm_watched;
        let entered = if stuck {
            self.ring.wait(Some(retry_wait(timeout)))
        } else {
            self.ring.submit_and_wait(timeout)
        };
        match entered {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            Err(error) if is_transient(&error) => {
                // Nothing was submitted: wait for a completion to free memory.
                match self.ring.wait(Some(retry_wait(timeout))) {
                    Err(error) if !is_transient(&error) => Err(error),
                    _ => Ok(()),
                }
            }
            entered => entered,
        }
    }

    /// Flushes and takes what finished, without blocking; no system call when
    /// there is neither.
    fn poll(&mut self, out: &mut Vec<Completed>) -> io::Result<()> {
        self.queue_waiting();
        if self.ring.queued() > 0 || self.ring.has_deferred_work() {
            match self.ring.submit_and_poll() {
                Err(error) if !is_transient(&error) => return Err(error),
                _ => {}
            }
        }
        if !self.waiting.is_empty() {
            self.flush()?;
        }
        self.drain(out);
        Ok(())
    }
}

impl Backend for UringBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Uring
    }

    fn capacity(&self) -> u32 {
        self.slots.capacity()
    }

    fn push(&mut self, op: PinnedOp) {
        let slot = self.slots.insert(op);
        if !self.waiting.is_empty() || !self.queue(slot) {
            self.waiting.push_back(slot);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queue_waiting();
        loop {
            let queued = self.ring.queued();
            if queued == 0 {
                return Ok(());
            }
            match self.ring.submit() {
                // Not one taken: no error, but no progress either.
                Ok(()) if self.ring.queued() == queued => return Ok(()),
                Ok(()) => self.queue_waiting(),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()> {
        let before = out.len();
        self.drain(out);
        if out.len() > before {
            return self.flush();
        }
        if timeout == Some(Duration::ZERO) {
            return self.poll(out);
        }
        let countdown = Countdown::new(timeout);
        loop {
            if !self.bell.begin_sleep() {
                return self.poll(out);
            }
            let entered = self.submit_and_block(countdown.left());
            let woken = self.bell.end_sleep();
            self.drain(out);
            entered?;
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

    fn register_buffers(&mut self, regions: &[BufferRegion]) -> BuffersReport {
        let registered = |buffers: &[BufferRegion]| buffers.iter().map(|b| b.len() as u64).sum();
        if !self.buffers.is_empty() {
            return BuffersReport {
                bytes: registered(&self.buffers),
                refusal: Some("buffers are registered already".into()),
            };
        }
        let mut pieces: Vec<BufferRegion> = regions
            .iter()
            .flat_map(|region| region.pieces(BUFFER_BYTES_MAX))
            .collect();
        pieces.sort_by_key(|piece| piece.start());
        let cut = pieces.len() > BUFFERS_MAX;
        pieces.truncate(BUFFERS_MAX);
        if pieces.is_empty() {
            return BuffersReport::default();
        }
        if let Err(error) = self.ring.register_buffers(&pieces) {
            return BuffersReport {
                bytes: 0,
                refusal: Some(explain_registration(&error)),
            };
        }
        self.buffers = pieces;
        BuffersReport {
            bytes: registered(&self.buffers),
            refusal: cut.then(|| format!("the kernel registers {BUFFERS_MAX} buffers at most")),
        }
    }
}

fn retry_wait(timeout: Option<Duration>) -> Duration {
    timeout.map_or(RETRY_WAIT, |timeout| timeout.min(RETRY_WAIT))
}

/// The registered buffer in which the operation's only vector lies.
fn registered_buffer(buffers: &[BufferRegion], op: &PinnedOp) -> Option<u16> {
    if buffers.is_empty() {
        return None;
    }
    let vector = op.single_vector()?;
    let start = vector.iov_base.addr();
    let index = buffers
        .partition_point(|buffer| buffer.start() <= start)
        .checked_sub(1)?;
    let end = start.checked_add(vector.iov_len)?;
    (end <= buffers[index].start() + buffers[index].len()).then_some(index as u16)
}

fn explain_setup(error: &io::Error) -> String {
    let cause = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
                .as_deref()
                .map(str::trim)
            {
                Ok("1") => "kernel.io_uring_disabled=1 and not in kernel.io_uring_group",
                Ok("2") => "kernel.io_uring_disabled=2",
                _ => "a seccomp filter",
            }
        }
        Some(libc::ENOSYS) => "a kernel built without it",
        Some(libc::ENOMEM) => "RLIMIT_MEMLOCK is too low",
        Some(libc::EMFILE) => "RLIMIT_NOFILE is too low",
        _ => return format!("io_uring_setup: {error}"),
    };
    format!("io_uring_setup: {error} ({cause})")
}

fn explain_registration(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            format!("io_uring_register: {error} (RLIMIT_MEMLOCK is too low for the buffers)")
        }
        _ => format!("io_uring_register: {error}"),
    }
}
