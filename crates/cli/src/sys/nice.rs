//! How much of a processor the kernel gives to a thread: `setpriority(2)`, which
//! on Linux goes by threads.

/// The least: a thread of the usual kind gets about 70 times as much.
const NICE_MAX: libc::c_int = 19;

/// Lets the calling thread stand back behind all others, for good.
pub fn be_nice() {
    // SAFETY: integers only; 0 means the calling thread. To be nicer is always
    // allowed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE_MAX) };
}
