//! How far the process is confined to system calls of somebody's choice (seccomp(2)).

use super::raw::syscall6;

const LINE: &[u8] = b"\nSeccomp_filters:";
/// The kernel's text is read by so much: before the line stands a list of groups of any length.
const PIECE_BYTES: usize = 2048;
/// Of the piece before, so much is kept: the line with its number may lie in both.
const KEPT_BYTES: usize = 64;

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
    // SAFETY: the path is a C string.
    let descriptor = usize::try_from(unsafe { syscall6(libc::SYS_openat, open) }).ok()?;
    let found = find(|piece| {
        let (buffer, length) = (piece.as_mut_ptr() as usize, piece.len());
        // SAFETY: the descriptor is ours until it is closed; the buffer is as long as the call is told.
        let length = unsafe { syscall6(libc::SYS_read, [descriptor, buffer, length, 0, 0, 0]) };
        usize::try_from(length).unwrap_or(0)
    });
    // SAFETY: takes a number; nobody else knows the descriptor.
    unsafe { syscall6(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]) };
    found
}

/// What the line says. `read` fills the beginning of a buffer, and gives how much of it; 0 is the end.
fn find(mut read: impl FnMut(&mut [u8]) -> usize) -> Option<u32> {
    let mut text = [0u8; KEPT_BYTES + PIECE_BYTES];
    let mut kept = 0;
    loop {
        let length = read(&mut text[kept..]);
        if length == 0 {
            return None;
        }
        let end = kept + length;
        if let Some(filters) = filters_in(&text[..end]) {
            return Some(filters);
        }
        kept = end.min(KEPT_BYTES);
        text.copy_within(end - kept..end, 0);
    }
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

    #[test]
    fn groups_may_be_many() {
        let groups = "1234567 ".repeat(3000);
        let text = format!("Name:\tx\nGroups:\t{groups}\nSeccomp_filters:\t7\nCpus_allowed:\t3\n");
        for most in [1, 100, 5000] {
            let mut rest = text.as_bytes();
            let found = find(|piece| {
                let length = most.min(piece.len()).min(rest.len());
                let (now, later) = rest.split_at(length);
                piece[..length].copy_from_slice(now);
                rest = later;
                length
            });
            assert_eq!(found, Some(7), "{most} at once");
        }
        assert_eq!(find(|_| 0), None);
    }
}
