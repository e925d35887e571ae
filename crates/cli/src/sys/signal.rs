//! Signals to a child.

use std::process::Child;

/// Sends a signal to a child that has not been waited for.
pub fn send(child: &Child, signal: i32) {
    // SAFETY: takes numbers. The child is not reaped before it is waited for, so the
    // number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}
