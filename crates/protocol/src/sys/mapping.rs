//! The memory in this process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::raw::syscall6;
use crate::Memory;

/// Bytes of the memory. Pages that nobody touches take none.
pub const BYTES: usize = size_of::<Memory>();

/// Maps the memory behind a descriptor, for as long as the process lives.
///
/// # Errors
/// The error's number.
pub fn map(descriptor: BorrowedFd<'_>) -> Result<&'static Memory, i32> {
    let address = map_raw(descriptor)?;
    // SAFETY: it was mapped just now, with `BYTES` bytes, and is never unmapped.
    // All zeros is a valid `Memory`; what others write to are atomics, but for
    // the rules, which the broker fills in before it gives the descriptor to anybody.
    Ok(unsafe { &*address })
}

/// The same for the one that makes it, before it gives the descriptor to anybody.
///
/// # Errors
/// What the kernel says.
pub fn map_new(
    descriptor: BorrowedFd<'_>,
    fill: impl FnOnce(&mut Memory),
) -> io::Result<&'static Memory> {
    let address = map_raw(descriptor).map_err(io::Error::from_raw_os_error)?;
    // SAFETY: as in `map`, and nobody else has the memory yet.
    fill(unsafe { &mut *address });
    // SAFETY: as in `map`.
    Ok(unsafe { &*address })
}

fn map_raw(descriptor: BorrowedFd<'_>) -> Result<*mut Memory, i32> {
    let arguments = [
        0,
        BYTES,
        (libc::PROT_READ | libc::PROT_WRITE) as usize,
        libc::MAP_SHARED as usize,
        descriptor.as_raw_fd() as usize,
        0,
    ];
    // SAFETY: a new mapping at an address that the kernel chooses.
    let result = unsafe { syscall6(libc::SYS_mmap, arguments) };
    if (-4095..0).contains(&result) {
        return Err(-result as i32);
    }
    let advice = [
        result as usize,
        BYTES,
        libc::MADV_DONTDUMP as usize,
        0,
        0,
        0,
    ];
    // A crash of the process would otherwise write all of it into its core file, and give memory
    // to the pages that nobody has touched.
    // SAFETY: the mapping that was made just now.
    unsafe { syscall6(libc::SYS_madvise, advice) };
    Ok(ptr::with_exposed_provenance_mut(result as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn a_core_file_has_none_of_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        let memory = map(file.as_fd()).unwrap();
        let begin = format!("{:x}-", ptr::from_ref(memory).addr());
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let ours = maps.lines().skip_while(|line| !line.starts_with(&begin));
        let flags = ours.skip(1).find(|line| line.starts_with("VmFlags:"));
        assert!(flags.unwrap().contains(" dd "), "{flags:?}");
    }
}
