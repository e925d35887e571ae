//! Being told of the end of the thread that made this process:
//! `prctl(PR_SET_PDEATHSIG)`.

/// From now on the kernel sends `signal` to this process when the thread that
/// made it ends. Not for an end before the call.
pub fn signal_at_its_end(signal: i32) {
    // SAFETY: integers only. It fails for numbers that are no signal.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) };
}
