//! Memory that is found once and stays.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use iolane_protocol::Memory;

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

/// The shared memory, once it is mapped. A word and no more: of a cell that is being
/// filled when another thread forks, a child would wait for ever.
pub struct Shared(AtomicPtr<Memory>);

impl Shared {
    pub const fn none() -> Shared {
        Shared(AtomicPtr::new(ptr::null_mut()))
    }

    pub fn set(&self, memory: &'static Memory) {
        self.0
            .store(ptr::from_ref(memory).cast_mut(), Ordering::Release);
    }

    pub fn get(&self) -> Option<&'static Memory> {
        // SAFETY: nothing, or what `set` was given, which lives for ever.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}
