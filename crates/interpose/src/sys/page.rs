//! A page that a child of a fork finds empty.

use std::ptr;

use crate::client::OwnPage;

/// Zeros, and zeros again in a child. `None` on kernels before Linux 4.14.
pub fn wiped_on_fork() -> Option<&'static OwnPage> {
    const BYTES: usize = 4096;
    const { assert!(size_of::<OwnPage>() <= BYTES) };
    // SAFETY: a new mapping of its own, which is never unmapped; all zeros are a
    // valid `OwnPage`, of which all fields are atomic.
    unsafe {
        let page = libc::mmap(
            ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED || libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) != 0 {
            return None;
        }
        Some(&*page.cast())
    }
}
