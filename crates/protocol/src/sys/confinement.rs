//! How far the process is confined to system calls of somebody's choice (seccomp(2)).

use super::raw::syscall6;

/// Of the kernel's text, so much is looked at: what stands before the line is as long as the list of
/// groups.
const STATUS_BYTES_MAX: usize = 4096;
const LINE: &[u8] = b"\nSeccomp_filters:";

/// How many filters the process lives under; `None` if the kernel does not say (before Linux 5.9,
/// or without `/proc`). By calls that the dynamic loader makes as well: under any filter under
/// which a program starts they are allowed.
pub fn filters() -> Option<u32> {
    let path = c"/proc/self/status";
    let open = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
        0,
        0,
        0,
    ];
    let mut text = [0u8; STATUS_BYTES_MAX];
    // SAFETY: the path is a C string; the descriptor is ours until it is closed; the buffer is as
    // long as the call is told.
    let length = unsafe {
        let descriptor = usize::try_from(syscall6(libc::SYS_openat, open)).ok()?;
        let buffer = text.as_mut_ptr() as usize;
        let length = syscall6(libc::SYS_read, [descriptor, buffer, text.len(), 0, 0, 0]);
        syscall6(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
        usize::try_from(length).ok()?
    };
    filters_in(&text[..length])
}

fn filters_in(status: &[u8]) -> Option<u32> {
    let at = status.windows(LINE.len()).position(|part| part == LINE)?;
    let rest = &status[at + LINE.len()..];
    let line = &rest[..rest.iter().position(|&byte| byte == b'\n')?];
    str::from_utf8(line).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        let text = b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t12\nCpus_allowed:\t3\n";
        assert_eq!(filters_in(text), Some(12));
        assert_eq!(filters_in(&text[..37]), None, "cut off");
        assert_eq!(filters_in(b""), None);
    }
}
