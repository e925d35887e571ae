//! A thread that the machine's other work does not hold up.

use std::cell::Cell;

/// Least of the real-time priorities: above every ordinary thread, and no
/// more is needed.
const PRIORITY: libc::c_int = 1;

thread_local! {
    static DONE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Lets the calling thread go before all ordinary ones (`SCHED_FIFO`,
/// sched(7)), where that is allowed: a disk is not slower when its host is
/// busy. Threads that it starts are ordinary again. Costs nothing when called
/// again. False where it is not allowed.
pub fn go_first() -> bool {
    if let Some(done) = DONE.get() {
        return done;
    }
    // SAFETY: all zeros are valid; the field that matters is set below.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = PRIORITY;
    // SAFETY: valid for reading during the call; 0 is the calling thread. Where
    // it is refused, the thread stays what it is.
    let refused = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    };
    DONE.set(Some(refused == 0));
    refused == 0
}
