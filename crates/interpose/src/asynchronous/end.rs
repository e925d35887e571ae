//! The end of the process: what waits for leave goes to the kernel.

use std::sync::atomic::{AtomicBool, Ordering};

use iolane_protocol::CELLS_PER_CLIENT;

use super::{PARKED_COUNT, leave};
use crate::client;
use crate::sys::aio;

/// Nothing is parked any more, and nobody asks for events.
static IS_NEAR: AtomicBool = AtomicBool::new(false);
/// How long what is parked may take to leave then, where its context has no room.
pub const NAPS_MAX: u32 = 1000;

pub fn is_near() -> bool {
    IS_NEAR.load(Ordering::SeqCst)
}

/// The process is about to end, or to execute another program: what is parked goes to the kernel, which sees to it that it
/// is done. [`goes_on`]: it is not to be, after all. A signal's handler may call this in the middle of anything.
pub fn ends() {
    if client::is_guest() || client::of_request().is_none() {
        return;
    }
    IS_NEAR.store(true, Ordering::SeqCst);
    if PARKED_COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    (0..CELLS_PER_CLIENT).for_each(leave);
    // Another thread may be about to submit the last ones.
    for _ in 0..NAPS_MAX {
        if PARKED_COUNT.load(Ordering::SeqCst) == 0 {
            return;
        }
        aio::nap();
    }
}

/// See [`ends`].
pub fn goes_on() {
    IS_NEAR.store(false, Ordering::SeqCst);
}
