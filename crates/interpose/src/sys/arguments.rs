//! What is looked at of a call's arguments.

use std::ffi::c_int;

use libc::iovec;

use super::memory;
use crate::client::{self, Client};
use crate::descriptor::{self, Behind};

/// Bytes of all pieces together. What the kernel will refuse counts as nothing, pieces that are not there among it:
/// the call itself says so. So does all where nobody asks, as the library is off or nothing is scheduled behind the
/// descriptor.
///
/// # Safety
/// As for readv(2) and its relatives.
pub unsafe fn length_of(descriptor: c_int, pieces: *const iovec, count: c_int) -> usize {
    const PIECES_MAX: usize = 1024; // IOV_MAX
    let Ok(count @ 1..=PIECES_MAX) = usize::try_from(count) else {
        return 0;
    };
    let is_nobodys =
        |client: Client| descriptor::behind(client.memory, descriptor) == Behind::NoDisk;
    if !client::is_on()
        || client::of_request().is_some_and(is_nobodys)
        || !memory::may_read(pieces.addr(), count * size_of::<iovec>())
    {
        return 0;
    }
    // SAFETY: they are there, and whoever hands them to the kernel lets them be.
    unsafe { sum_of(pieces, count) }
}

/// # Safety
/// There are so many pieces.
unsafe fn sum_of(pieces: *const iovec, count: usize) -> usize {
    (0..count).fold(0, |sum: usize, index| {
        // SAFETY: the caller's promise.
        sum.saturating_add(unsafe { (*pieces.add(index)).iov_len })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn pieces_add_up() {
        let piece = |iov_len| iovec {
            iov_base: ptr::null_mut(),
            iov_len,
        };
        let pieces = [piece(3), piece(usize::MAX)];
        // SAFETY: there are two.
        unsafe {
            assert_eq!(sum_of(pieces.as_ptr(), 1), 3);
            assert_eq!(sum_of(pieces.as_ptr(), 2), usize::MAX);
            assert_eq!(length_of(0, ptr::null(), 2), 0);
            assert_eq!(length_of(0, pieces.as_ptr(), -1), 0);
        }
    }
}
