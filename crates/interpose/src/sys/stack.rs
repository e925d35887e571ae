//! The stack on which a thread runs.

use iolane_protocol::sys::raw::syscall6;

/// Whether it is the one that the thread has for its signals (sigaltstack(2)).
pub fn is_another() -> bool {
    // SAFETY: zeros are a valid structure, which lives as long as the call; nothing is changed.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        let place = (&raw mut stack).expose_provenance();
        let result = syscall6(libc::SYS_sigaltstack, [0, place, 0, 0, 0, 0]);
        result == 0 && stack.ss_flags & libc::SS_ONSTACK != 0
    }
}
