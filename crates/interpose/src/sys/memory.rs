//! The program's memory, which may be missing where a call says that it is: the kernel looks.

use std::ptr;

use iolane_protocol::sys::raw::syscall6;

use super::environment;

/// No page is smaller.
const PAGE_BYTES: usize = 4096;
/// Of a thread's signal mask.
const MASK_BYTES: usize = 8;

/// Copies what lies there, if there is anything: nothing is sure of a program's memory that the
/// kernel has not looked at, and another thread may destroy a context meanwhile.
pub fn copy_from<T: Copy>(from: usize, to: &mut [T]) -> bool {
    let bytes = size_of_val(to);
    let own = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let there = libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(from),
        iov_len: bytes,
    };
    let arguments = [
        environment::process_number() as usize,
        ptr::from_ref(&own).expose_provenance(),
        1,
        ptr::from_ref(&there).expose_provenance(),
        1,
        0,
    ];
    // SAFETY: writes into `to` alone, whose types are integers of the kernel's; reads where it can.
    let result = unsafe { syscall6(libc::SYS_process_vm_readv, arguments) };
    usize::try_from(result) == Ok(bytes)
}

/// Whether there is memory that may be read, of so many bytes, at least 8. The kernel reads a signal mask from each page, and
/// refuses to do anything with it: a call's vector lies on the caller's stack nearly always, and process_vm_readv(2) takes
/// longer.
pub fn may_read(from: usize, bytes: usize) -> bool {
    /// rt_sigprocmask(2) knows nothing of this kind, and says so after it has read the mask.
    const NO_CHANGE: usize = 99;
    each_page(from, bytes).is_some_and(|mut places| {
        places.all(|place| {
            // SAFETY: nothing is changed, and nothing is written.
            let result = unsafe {
                syscall6(
                    libc::SYS_rt_sigprocmask,
                    [NO_CHANGE, place, 0, MASK_BYTES, 0, 0],
                )
            };
            // At 0 there is no mask to read for it.
            place != 0 && result != -(libc::EFAULT as isize)
        })
    })
}

/// What was looked at last, for what lies in few pages.
#[derive(Clone, Copy)]
pub struct Readable {
    /// The number of a page that may be read; none has this one.
    page: usize,
}

impl Readable {
    /// Nothing was.
    pub const fn nothing() -> Readable {
        Readable { page: usize::MAX }
    }

    /// Whether so many bytes are known to be there.
    pub const fn has(&self, from: usize, bytes: usize) -> bool {
        let last = from.wrapping_add(bytes - 1);
        from / PAGE_BYTES == self.page && last / PAGE_BYTES == self.page
    }

    /// As [`may_read`]: asks the kernel where they are not.
    pub fn look(&mut self, from: usize, bytes: usize) -> bool {
        if !self.has(from, bytes) {
            if !may_read(from, bytes) {
                return false;
            }
            self.page = from.wrapping_add(bytes - 1) / PAGE_BYTES;
        }
        true
    }
}

/// A place for a signal mask in each page, from the first bytes to the last; `None`: there are too few.
fn each_page(from: usize, bytes: usize) -> Option<impl Iterator<Item = usize>> {
    let last = bytes.checked_sub(MASK_BYTES)?;
    let places = (0..last).step_by(PAGE_BYTES).chain([last]);
    Some(places.map(move |at| from.wrapping_add(at)))
}

/// Copies to where the program wants it, if it may be written there. Otherwise a part may have been written.
///
/// # Safety
/// As for read(2) of so many bytes into memory that no other thread takes away meanwhile.
pub unsafe fn copy_to(from: &[u8], to: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if !may_write(to, from.len()) {
            return false;
        }
        ptr::copy_nonoverlapping(
            from.as_ptr(),
            ptr::with_exposed_provenance_mut(to),
            from.len(),
        );
    }
    true
}

/// Whether there is memory that may be written. The kernel writes the signal mask into each page: process_vm_writev(2),
/// which would copy as well, takes nearly three times as long as this and a copy.
///
/// # Safety
/// As for read(2).
unsafe fn may_write(to: usize, bytes: usize) -> bool {
    each_page(to, bytes).is_some_and(|mut places| {
        places.all(|place| {
            // SAFETY: the caller's promise. Nothing is set: there is no new mask.
            unsafe {
                syscall6(
                    libc::SYS_rt_sigprocmask,
                    [libc::SIG_BLOCK as usize, 0, place, MASK_BYTES, 0, 0],
                ) == 0
            }
        })
    })
}
