//! How late the kernel may wake a sleeping thread: `PR_SET_TIMERSLACK` of
//! `prctl(2)`, 50 us by default.

/// As little as possible, for the calling thread.
pub(crate) fn set_smallest() {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: integers only; changes nothing but the calling thread's timers.
    // It cannot fail for a value above 0.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
}
