//! What the standard library does not offer on files.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

/// What a file demands of a direct transfer (statx(2), `STATX_DIOALIGN`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectAlignment {
    /// Of the buffer's address, in bytes.
    pub memory_bytes: u32,
    /// Of offset and length, in bytes.
    pub offset_bytes: u32,
}

/// `None` when the kernel or the file system does not say (Linux before 6.1);
/// zeros when the file takes no direct transfers.
pub fn direct_alignment(file: &File) -> Option<DirectAlignment> {
    let mut statx = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is open, the path is an empty C string as
    // AT_EMPTY_PATH asks, and `statx` is writable and of the right size.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            statx.as_mut_ptr(),
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: statx succeeded; the struct is plain integers and was zeroed.
    let statx = unsafe { statx.assume_init() };
    (statx.stx_mask & libc::STATX_DIOALIGN != 0).then_some(DirectAlignment {
        memory_bytes: statx.stx_dio_mem_align,
        offset_bytes: statx.stx_dio_offset_align,
    })
}

/// Reserves blocks for the first `length` bytes (fallocate(2)).
pub fn allocate(file: &File, length: u64) -> io::Result<()> {
    let length = offset(length)?;
    // SAFETY: no memory is passed.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Where the next data starts at or after `from`, `None` when there is none.
/// Reserved blocks that were never written count as no data, except for what
/// the page cache holds of them.
pub fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    seek(file, from, libc::SEEK_DATA)
}

/// Where the next hole starts at or after `from`; the end of the file is one.
pub fn next_hole(file: &File, from: u64) -> io::Result<Option<u64>> {
    seek(file, from, libc::SEEK_HOLE)
}

fn seek(file: &File, from: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    // SAFETY: no memory is passed.
    let found = unsafe { libc::lseek(file.as_raw_fd(), offset(from)?, whence) };
    if let Ok(found) = u64::try_from(found) {
        return Ok(Some(found));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENXIO) => Ok(None),
        _ => Err(error),
    }
}

/// Asks the kernel to drop the file's clean pages from the page cache.
pub fn drop_cached(file: &File) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// Room on a file system, in bytes (statvfs(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What the calling user may still take.
    pub available_bytes: u64,
    pub total_bytes: u64,
}

/// Room on the file system of `path`.
pub fn space(path: &Path) -> io::Result<Space> {
    let file = File::open(path)?;
    let mut stat = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the descriptor is open, `stat` is writable and of the right size.
    let result = unsafe { libc::fstatvfs(file.as_raw_fd(), stat.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fstatvfs succeeded; the struct is plain integers and was zeroed.
    let stat = unsafe { stat.assume_init() };
    Ok(Space {
        available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

fn offset(value: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Whether the process has the rights of root.
pub fn is_root() -> bool {
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Whether the kernel offers io_uring to this process: the error that an empty
/// `io_uring_setup(2)` meets tells. With a working io_uring it is `EFAULT`,
/// because the parameters are missing.
pub fn io_uring_refusal() -> Option<io::Error> {
    // SAFETY: a null parameter pointer is never dereferenced by the kernel
    // without checking; the call fails with EFAULT and makes no descriptor.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 1u32, std::ptr::null_mut::<u8>()) };
    debug_assert!(result < 0, "io_uring_setup without parameters must fail");
    let error = io::Error::last_os_error();
    (error.raw_os_error() != Some(libc::EFAULT)).then_some(error)
}
