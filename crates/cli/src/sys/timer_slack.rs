//! How late the kernel may wake a sleeping thread: `PR_SET_TIMERSLACK` of
//! `prctl(2)`, 50 us by default.

/// Sets it for the calling thread.
pub fn set_timer_slack_ns(slack_ns: u32) {
    let slack_ns = libc::c_ulong::from(slack_ns);
    // SAFETY: integers only; changes nothing but the calling thread's timers.
    // It cannot fail for a value above 0.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
}
