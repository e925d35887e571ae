//! What is there once: the broker's life and its bell.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys::futex;

/// "iolane" and two zeros.
pub const MAGIC: u64 = u64::from_le_bytes(*b"iolane\0\0");
/// Of the layout. Library and program of different versions do not talk.
pub const VERSION: u32 = 6;
/// Calls that are counted by name.
pub const CALLS_MAX: usize = 64;

/// The broker looks at nothing but its bell.
const ASLEEP: u32 = 2;
/// The broker comes by itself in a moment; only what waits for it rings.
const DOZING: u32 = 1;
const AWAKE: u32 = 0;

/// How long a process that waits looks at the broker's pulse before it takes it
/// for stopped.
pub const STOPPED_NS: u64 = 1_000_000_000;

/// The first words of the memory.
#[repr(C, align(64))]
pub struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    /// Whether calls are counted by name.
    counting: AtomicU32,
    /// Owned by the broker's thread in the kernel's robust list: its death
    /// sets a bit here, whatever it died of.
    life: AtomicU32,
    /// The broker has ended as it should.
    closed: AtomicU32,
    bell: AtomicU32,
    rest: AtomicU32,
    /// A process has said that the broker died.
    mourned: AtomicU32,
    /// Grows with every round of the broker.
    pulse: AtomicU64,
    /// The pulse at which somebody gave up waiting, plus 1.
    stopped_at: AtomicU64,
    /// Requests that went unscheduled because no cell was free.
    no_cell: AtomicU64,
    calls: [AtomicU64; CALLS_MAX],
    scheduled_calls: [AtomicU64; CALLS_MAX],
    /// What became of pages that were read ahead.
    pub read_ahead: ReadAhead,
    /// What became of requests on io_uring's rings.
    pub rings: Rings,
}

/// Reads, writes and syncs of files that are scheduled, on rings.
#[repr(C)]
pub struct Rings {
    followed: AtomicU64,
    passed: AtomicU64,
}

impl Rings {
    /// One was taken out of its ring.
    pub fn count_followed(&self) {
        self.followed.fetch_add(1, Ordering::Relaxed);
    }

    /// One stayed in its ring, and went unscheduled.
    pub fn count_passed(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// Both.
    pub fn counts(&self) -> (u64, u64) {
        let [followed, passed] =
            [&self.followed, &self.passed].map(|count| count.load(Ordering::Relaxed));
        (followed, passed)
    }
}

/// Pages that processes read ahead.
#[repr(C)]
pub struct ReadAhead {
    read: AtomicU64,
    used: AtomicU64,
    passed: AtomicU64,
}

impl ReadAhead {
    /// So many were asked for.
    pub fn count_read(&self, pages: usize) {
        self.read.fetch_add(pages as u64, Ordering::Relaxed);
    }

    /// The program took one.
    pub fn count_used(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// So many were passed over, or could not be used.
    pub fn count_passed(&self, pages: usize) {
        self.passed.fetch_add(pages as u64, Ordering::Relaxed);
    }

    /// Asked for, taken, and not used.
    pub fn counts(&self) -> (u64, u64, u64) {
        let [read, used, passed] =
            [&self.read, &self.used, &self.passed].map(|count| count.load(Ordering::Relaxed));
        (read, used, passed)
    }
}

impl Header {
    /// The broker begins.
    pub fn open(&self, counting: bool) {
        self.counting.store(u32::from(counting), Ordering::Relaxed);
        self.version.store(VERSION, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether this library can talk to that broker.
    pub fn is_known(&self) -> bool {
        self.magic.load(Ordering::Acquire) == MAGIC
            && self.version.load(Ordering::Relaxed) == VERSION
    }

    /// The word of the life line.
    pub fn life(&self) -> &AtomicU32 {
        &self.life
    }

    /// The broker ends: nobody waits for it any more.
    pub fn close(&self) {
        self.closed.store(1, Ordering::SeqCst);
    }

    /// Whether the broker has ended, or was killed.
    pub fn is_over(&self) -> bool {
        self.closed.load(Ordering::SeqCst) != 0
            || self.life.load(Ordering::SeqCst) & libc::FUTEX_OWNER_DIED != 0
    }

    /// Whether the broker was killed, or its thread has come to an end that nobody meant.
    pub fn is_dead(&self) -> bool {
        self.closed.load(Ordering::SeqCst) == 0 && self.is_over()
    }

    /// Whether a process has said so already.
    pub fn is_mourned(&self) -> bool {
        self.mourned.load(Ordering::Relaxed) != 0
    }

    /// Whether the caller is the one to say so, of all processes.
    pub fn mourn(&self) -> bool {
        self.mourned.swap(1, Ordering::Relaxed) == 0
    }

    /// Whether a request is scheduled: the broker lives and is not known to be
    /// stopped.
    pub fn is_serving(&self) -> bool {
        !self.is_over() && self.stopped_at.load(Ordering::Relaxed) != self.pulse() + 1
    }

    /// The broker's round.
    pub fn beat(&self) {
        self.pulse.fetch_add(1, Ordering::SeqCst);
    }

    /// Rounds of the broker.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::SeqCst)
    }

    /// Tells everybody that the broker has not moved since this pulse.
    pub fn mark_stopped(&self, pulse: u64) {
        self.stopped_at.store(pulse + 1, Ordering::SeqCst);
    }

    /// Whether somebody found the broker stopped; asked by the broker itself.
    pub fn was_marked_stopped(&self) -> bool {
        self.stopped_at.swap(0, Ordering::SeqCst) != 0
    }

    /// Wakes the broker if it does nothing, also where it would come by itself if
    /// `urgent`.
    pub fn ring(&self, urgent: bool) {
        let rest = self.rest.load(Ordering::SeqCst);
        if rest == ASLEEP || (urgent && rest == DOZING) {
            self.rest.store(AWAKE, Ordering::SeqCst);
            self.bell.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.bell, 1);
        }
    }

    /// The broker rests until somebody rings or the time is over, unless `idle`
    /// says, after the others can see that it rests, that there is something to do.
    /// `dozes`: it comes by itself in a moment.
    pub fn rest(&self, dozes: bool, timeout_ns: u64, has_work: impl Fn() -> bool) {
        let bell = self.bell.load(Ordering::SeqCst);
        let state = if dozes { DOZING } else { ASLEEP };
        self.rest.store(state, Ordering::SeqCst);
        if !has_work() {
            futex::wait(&self.bell, bell, timeout_ns);
        }
        self.rest.store(AWAKE, Ordering::SeqCst);
    }

    /// Counts a call by its number if that is wanted.
    pub fn count_call(&self, call: usize) {
        if self.counting.load(Ordering::Relaxed) != 0 {
            self.calls[call].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one that asked for leave.
    pub fn count_scheduled(&self, call: usize) {
        if self.counting.load(Ordering::Relaxed) != 0 {
            self.scheduled_calls[call].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often it was called, and how often that asked for leave.
    pub fn calls(&self, call: usize) -> (u64, u64) {
        (
            self.calls[call].load(Ordering::Relaxed),
            self.scheduled_calls[call].load(Ordering::Relaxed),
        )
    }

    /// Counts a request that went unscheduled because no cell was free.
    pub fn count_no_cell(&self) {
        self.no_cell.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn no_cell(&self) -> u64 {
        self.no_cell.load(Ordering::Relaxed)
    }
}
