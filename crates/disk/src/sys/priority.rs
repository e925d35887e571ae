//! A thread that the machine's other work does not hold up.

use std::cell::Cell;

/// Least of the real-time priorities: above every ordinary thread, and no
/// more is needed.
const PRIORITY: libc::c_int = 1;

thread_local! {
    static DONE: Cell<bool> = const { Cell::new(false) };
}

/// Lets the calling thread go before all ordinary ones (`SCHED_FIFO`,
/// sched(7)), where that is allowed: a disk is not slower when its host is
/// busy. Threads that it starts are ordinary again. Costs nothing when called
/// again.
pub fn go_first() {
    if DONE.get() {
        return;
    }
    DONE.set(true);
    // SAFETY: all zeros are valid; the field that matters is set below.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = PRIORITY;
    // SAFETY: valid for reading during the call; 0 is the calling thread. Where
    // it is refused, the thread stays what it is.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    };
}
