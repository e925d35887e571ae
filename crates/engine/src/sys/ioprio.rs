//! `ioprio_set(2)`: may this process use the real-time class?

const WHO_PROCESS: libc::c_int = 1;

/// Tries to give the calling thread `value`, then puts the old priority back.
/// `Ok` means that the kernel lets this process use it.
pub(crate) fn permitted(value: u16) -> bool {
    // SAFETY: two integers in, one out; 0 names the calling thread.
    let old = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    if old < 0 {
        return false;
    }
    let set = |value: libc::c_long| {
        // SAFETY: three integers; changes nothing but the calling thread's I/O priority.
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) == 0 }
    };
    let permitted = set(libc::c_long::from(value));
    if permitted {
        set(old);
    }
    permitted
}
