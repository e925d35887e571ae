//! How a sleeping driver thread is woken, and how nobody pays for it while it
//! is awake.
//!
//! One atomic word holds the driver's state: [`AWAKE`], [`SLEEPING`] (blocked
//! or about to be) or [`NOTIFIED`] (a waker was used since the driver last
//! looked).
//!
//! - The driver goes `AWAKE -> SLEEPING` by compare-and-exchange. If that
//!   fails, the state was `NOTIFIED`: it becomes `AWAKE`, and the driver does
//!   not block. After blocking, it swaps in `AWAKE`.
//! - A waker swaps in `NOTIFIED`. Only if it found `SLEEPING`, it rings the
//!   alarm (a system call).
//! - A pool thread that finished an operation clears `SLEEPING` and, only if
//!   it was set, rings the alarm. It leaves `NOTIFIED` alone, so that a
//!   completion is never taken for a wake. The driver looks for finished
//!   operations once more between `SLEEPING` and blocking.
//!
//! No wake is lost, because every step is a read-modify-write of the same
//! word, and those have one order: either the waker comes first, and then the
//! driver's exchange fails (or, for a pool thread, its second look finds the
//! operation: the exchange has acquired what the pool thread released), or
//! the driver comes first, and then the waker finds `SLEEPING` and rings. A
//! plain load in the waker would not do: it could be ordered before the
//! waker's own store to the queue that the driver is to look at.
//!
//! The alarm keeps its ring until the driver blocks. When the driver woke up
//! for another reason in between, the next block ends at once, and the driver,
//! which finds neither `NOTIFIED` nor a completion, blocks again.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;

use super::Wake;
use crate::sys::eventfd::EventFd;

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const NOTIFIED: u8 = 2;

/// What ends the driver's blocking call.
pub(crate) trait Alarm: Send + Sync {
    fn ring(&self);
}

impl Alarm for std::sync::Arc<EventFd> {
    fn ring(&self) {
        EventFd::ring(self);
    }
}

impl Alarm for Thread {
    fn ring(&self) {
        self.unpark();
    }
}

/// What a pool thread uses to say that an operation finished.
pub(crate) trait Nudge: Send + Sync {
    fn nudge(&self);
}

pub(crate) struct Bell<A> {
    state: AtomicU8,
    alarm: A,
}

impl<A> Bell<A> {
    pub fn new(alarm: A) -> Bell<A> {
        Bell {
            state: AtomicU8::new(AWAKE),
            alarm,
        }
    }

    pub fn alarm(&self) -> &A {
        &self.alarm
    }

    /// For the driver, before it blocks. False: it was notified, and must not.
    #[must_use]
    pub fn begin_sleep(&self) -> bool {
        let slept =
            self.state
                .compare_exchange(AWAKE, SLEEPING, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_err() {
            self.state.swap(AWAKE, Ordering::AcqRel);
        }
        slept.is_ok()
    }

    /// For the driver, after it blocked. Whether the waker was used.
    pub fn end_sleep(&self) -> bool {
        self.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

impl<A: Alarm> Wake for Bell<A> {
    fn wake(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING {
            self.alarm.ring();
        }
    }
}

impl<A: Alarm> Nudge for Bell<A> {
    fn nudge(&self) {
        if self.state.fetch_and(!SLEEPING, Ordering::AcqRel) & SLEEPING != 0 {
            self.alarm.ring();
        }
    }
}
