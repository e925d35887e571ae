//! A safe io_uring: entries only from [`PinnedOp`]s, and a drop that waits
//! for the kernel.

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};

use super::eventfd::EventFd;
use super::op::{BufferRegion, PinnedOp};
use crate::backend::OpCode;

/// The user data of the read that watches the alarm; no operation has it.
pub(crate) const ALARM: u64 = u64::MAX;

/// `MAX_RW_COUNT` of the kernel for 4 KiB pages: the most that one system
/// call transfers. A longer buffer ends as a short transfer, as in read(2).
const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;

/// How completions get from the interrupt to the ring, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingMode {
    /// Only one thread submits, and completions are processed when it enters
    /// the kernel, without interrupting it (6.1), and without the array of
    /// indices between the queue and its entries (6.6).
    DeferredNoArray,
    /// The same with the array (6.1).
    Deferred,
    /// Completions are processed at the next system call of the thread (5.19).
    Cooperative,
    /// Completions interrupt the thread.
    Plain,
}

impl RingMode {
    pub const ALL: [RingMode; 4] = [
        RingMode::DeferredNoArray,
        RingMode::Deferred,
        RingMode::Cooperative,
        RingMode::Plain,
    ];
}

impl fmt::Display for RingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingMode::DeferredNoArray => "single issuer, deferred task work, no index array",
            RingMode::Deferred => "single issuer, deferred task work",
            RingMode::Cooperative => "cooperative task work",
            RingMode::Plain => "plain ring",
        })
    }
}

/// One ring, used by the thread that created it alone (raw pointers inside
/// keep it from being sent).
pub(crate) struct Ring {
    ring: IoUring,
    mode: RingMode,
    alarm: Arc<EventFd>,
    /// Where the kernel puts the alarm's counter. Nobody reads it.
    alarm_counter: Box<UnsafeCell<u64>>,
    /// Entries written and not yet taken by the kernel.
    queued: u32,
    /// Entries taken by the kernel whose completion was not seen yet.
    in_kernel: u32,
}

impl Ring {
    /// `in_flight_max` is the most completions that can be outstanding, the
    /// alarm's included: the completion queue has room for all of them, so it
    /// cannot overflow.
    ///
    /// The first of `modes` that the kernel knows is taken.
    pub fn new(
        modes: &[RingMode],
        sq_entries: u32,
        in_flight_max: u32,
        alarm: Arc<EventFd>,
    ) -> io::Result<Ring> {
        let cq_entries = in_flight_max.max(sq_entries).next_power_of_two();
        let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
        for &mode in modes {
            match build(mode, sq_entries, cq_entries) {
                Ok(ring) => {
                    return Ok(Ring {
                        ring,
                        mode,
                        alarm,
                        alarm_counter: Box::new(UnsafeCell::new(0)),
                        queued: 0,
                        in_kernel: 0,
                    });
                }
                // A kernel that does not know a flag refuses it with EINVAL.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    pub fn mode(&self) -> RingMode {
        self.mode
    }

    /// Whether `io_uring_enter` takes a timeout (5.11).
    pub fn has_enter_timeout(&self) -> bool {
        self.ring.params().is_feature_ext_arg()
    }

    /// Entries that the kernel has not taken yet.
    pub fn queued(&self) -> u32 {
        self.queued
    }

    /// Whether completions wait to be processed inside the kernel.
    pub fn has_deferred_work(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    /// Writes an entry. False when the queue is full.
    ///
    /// The operation must stay promised (see [`PinnedOp::new`]) until
    /// [`drain`](Ring::drain) has delivered `user_data`.
    #[must_use]
    pub fn push(&mut self, op: &PinnedOp, user_data: u64, buffer: Option<u16>) -> bool {
        let entry = entry_for(op, buffer).user_data(user_data);
        // SAFETY: the `PinnedOp` vouches for the memory, and `drop` waits.
        unsafe { self.push_entry(&entry) }
    }

    /// Starts to watch the alarm, for one ring. False when the queue is full.
    #[must_use]
    pub fn push_alarm(&mut self) -> bool {
        let entry = opcode::Read::new(
            Fd(self.alarm.as_raw_fd()),
            self.alarm_counter.get().cast(),
            size_of::<u64>() as u32,
        )
        .build()
        .user_data(ALARM);
        // SAFETY: counter and descriptor live as long as `self`, whose `drop`
        // waits for this read.
        unsafe { self.push_entry(&entry) }
    }

    /// # Safety
    /// What the entry names stays valid until its completion was seen.
    unsafe fn push_entry(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: promised by the caller.
        let pushed = unsafe { self.ring.submission().push(entry) }.is_ok();
        self.queued += u32::from(pushed);
        pushed
    }

    /// Submits everything queued, without a look at completions.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(self.queued, 0, EnterFlags::empty(), None)
    }

    /// Submits everything queued and processes completions, without waiting.
    pub fn submit_and_poll(&mut self) -> io::Result<()> {
        self.enter(self.queued, 0, EnterFlags::GETEVENTS, None)
    }

    /// Submits everything queued and waits for one completion. A timeout that
    /// passed is not an error.
    pub fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.enter(self.queued, 1, EnterFlags::GETEVENTS, timeout)
    }

    /// Waits for one completion and submits nothing.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.enter(0, 1, EnterFlags::GETEVENTS, timeout)
    }

    fn enter(
        &mut self,
        to_submit: u32,
        want: u32,
        flags: EnterFlags,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let entered = match timeout {
            // SAFETY: without an argument the kernel reads no memory but the ring.
            None => unsafe {
                submitter.enter::<libc::sigset_t>(to_submit, want, flags.bits(), None)
            },
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                let args = SubmitArgs::new().timespec(&timespec);
                let flags = flags | EnterFlags::EXT_ARG;
                // SAFETY: EXT_ARG says what `args` is; it and the time outlive the call.
                unsafe { submitter.enter(to_submit, want, flags.bits(), Some(&args)) }
            }
        };
        match entered {
            Ok(taken) => {
                let taken = u32::try_from(taken).unwrap_or(u32::MAX);
                debug_assert!(taken <= self.queued);
                self.queued -= taken;
                self.in_kernel += taken;
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes every completion from the ring: user data and result.
    pub fn drain(&mut self, mut each: impl FnMut(u64, i32)) {
        for completion in self.ring.completion() {
            self.in_kernel -= 1;
            each(completion.user_data(), completion.result());
        }
    }

    /// Registers memory for [`push`](Ring::push) with `buffer`, which counts
    /// the pieces in this order.
    pub fn register_buffers(&mut self, pieces: &[BufferRegion]) -> io::Result<()> {
        let vectors: Vec<libc::iovec> = pieces
            .iter()
            .map(|piece| libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(piece.start()),
                iov_len: piece.len(),
            })
            .collect();
        // SAFETY: the creator of a `BufferRegion` promised that it stays mapped.
        unsafe { self.ring.submitter().register_buffers(&vectors) }
    }
}

impl Drop for Ring {
    /// Waits until the kernel is done with all memory that it was given.
    /// Entries that it has not taken yet are forgotten.
    fn drop(&mut self) {
        self.alarm.ring();
        loop {
            self.drain(|_, _| ());
            if self.in_kernel == 0 {
                return;
            }
            if let Err(error) = self.wait(None)
                && !is_transient(&error)
            {
                // Returning would free memory that the kernel still writes.
                eprintln!("iolane: cannot wait for operations in flight: {error}");
                std::process::abort();
            }
        }
    }
}

/// Whether `io_uring_enter` may succeed when called again: interrupted by a
/// signal, out of memory for requests, completions to be taken first.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

fn build(mode: RingMode, sq_entries: u32, cq_entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_cqsize(cq_entries);
    match mode {
        RingMode::DeferredNoArray | RingMode::Deferred => {
            builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag()
                .setup_submit_all();
            if mode == RingMode::DeferredNoArray {
                builder.setup_no_sqarray();
            }
        }
        RingMode::Cooperative => {
            builder
                .setup_coop_taskrun()
                .setup_taskrun_flag()
                .setup_submit_all();
        }
        RingMode::Plain => {}
    }
    builder.build(sq_entries)
}

fn entry_for(pinned: &PinnedOp, buffer: Option<u16>) -> squeue::Entry {
    let op = pinned.op();
    let fd = Fd(op.fd);
    match (op.code, pinned.single_vector()) {
        // No priority here: the kernel refuses a sync that has one.
        (OpCode::SyncData, _) => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        (OpCode::SyncAll, _) => opcode::Fsync::new(fd).build(),
        // One vector: its address goes into the entry, and the kernel has no
        // vector to copy in.
        (OpCode::Read, Some(vector)) => {
            let base = vector.iov_base.cast();
            let len = vector.iov_len.min(TRANSFER_BYTES_MAX) as u32;
            match buffer {
                Some(index) => opcode::ReadFixed::new(fd, base, len, index)
                    .offset(op.offset)
                    .ioprio(op.ioprio)
                    .build(),
                None => opcode::Read::new(fd, base, len)
                    .offset(op.offset)
                    .ioprio(op.ioprio)
                    .build(),
            }
        }
        (OpCode::Write, Some(vector)) => {
            let base = vector.iov_base.cast_const().cast();
            let len = vector.iov_len.min(TRANSFER_BYTES_MAX) as u32;
            match buffer {
                Some(index) => opcode::WriteFixed::new(fd, base, len, index)
                    .offset(op.offset)
                    .ioprio(op.ioprio)
                    .rw_flags(pinned.rw_flags())
                    .build(),
                None => opcode::Write::new(fd, base, len)
                    .offset(op.offset)
                    .ioprio(op.ioprio)
                    .rw_flags(pinned.rw_flags())
                    .build(),
            }
        }
        (OpCode::Read, None) => opcode::Readv::new(fd, op.iov, op.iov_count)
            .offset(op.offset)
            .ioprio(op.ioprio)
            .build(),
        (OpCode::Write, None) => opcode::Writev::new(fd, op.iov, op.iov_count)
            .offset(op.offset)
            .ioprio(op.ioprio)
            .rw_flags(pinned.rw_flags())
            .build(),
    }
}
