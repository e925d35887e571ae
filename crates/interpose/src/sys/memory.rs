//! Copies of the program's memory that the kernel makes, as it does for read(2) and write(2): it looks
//! whether the memory is there.

use std::ptr;

use iolane_protocol::sys::raw::syscall6;

use super::environment;

/// Copies what lies there, if there is anything: nothing is sure of a program's memory that the
/// kernel has not looked at, and another thread may destroy a context meanwhile.
pub fn copy_from<T: Copy>(from: usize, to: &mut [T]) -> bool {
    let bytes = size_of_val(to);
    // SAFETY: writes into `to` alone, whose types are integers of the kernel's; reads where it can.
    unsafe {
        copy(
            libc::SYS_process_vm_readv,
            to.as_mut_ptr().expose_provenance(),
            from,
            bytes,
        )
    }
}

/// Copies to where the program wants it, if it may be written there. Otherwise a part may have been copied.
///
/// # Safety
/// As for read(2) of so many bytes.
pub unsafe fn copy_to(from: &[u8], to: usize) -> bool {
    // SAFETY: the caller's promise; reads `from` alone.
    unsafe {
        copy(
            libc::SYS_process_vm_writev,
            from.as_ptr().expose_provenance(),
            to,
            from.len(),
        )
    }
}

/// # Safety
/// The kernel reads or writes, as the call says, so much there, where it can.
unsafe fn copy(call: libc::c_long, own: usize, there: usize, bytes: usize) -> bool {
    let [own, there] = [own, there].map(|address| libc::iovec {
        iov_base: ptr::with_exposed_provenance_mut(address),
        iov_len: bytes,
    });
    let arguments = [
        environment::process_number() as usize,
        ptr::from_ref(&own).expose_provenance(),
        1,
        ptr::from_ref(&there).expose_provenance(),
        1,
        0,
    ];
    // SAFETY: the caller's promise.
    let result = unsafe { syscall6(call, arguments) };
    usize::try_from(result) == Ok(bytes)
}
