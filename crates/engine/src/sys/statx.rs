//! `statx(2)`: what direct I/O needs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The grid of direct I/O on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectAlign {
    pub memory_bytes: u32,
    pub offset_bytes: u32,
}

/// `None` where the kernel (before 6.1) or the filesystem does not tell;
/// `Some` with zeros where it says that there is no direct I/O.
pub(crate) fn direct_align(file: &File) -> io::Result<Option<DirectAlign>> {
    // SAFETY: all-zero is a valid `statx` structure of plain integers.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the path an empty C string (the file
    // itself), and `stat` is valid for writes.
    let rc = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &mut stat,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    if stat.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(None);
    }
    Ok(Some(DirectAlign {
        memory_bytes: stat.stx_dio_mem_align,
        offset_bytes: stat.stx_dio_offset_align,
    }))
}
