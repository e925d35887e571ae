//! Plain system calls: synchronous transfers, thread priority, signals.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};

use super::op::{PinnedOp, RWF_ATOMIC};
use crate::backend::OpCode;

/// `IOPRIO_WHO_PROCESS` of ioprio_set(2); with id 0: the calling thread.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// Does the operation now, in this thread. Bytes, or `-errno`.
pub(crate) fn transfer(pinned: &PinnedOp) -> i32 {
    let op = pinned.op();
    // IOV_MAX is 1024: what does not fit the type is refused by the kernel too.
    let count = i32::try_from(op.iov_count).unwrap_or(i32::MAX);
    // `PinnedOp` holds only offsets that fit.
    let offset = op.offset as i64;
    loop {
        // SAFETY: a `PinnedOp` vouches for its vectors and their memory.
        let result = unsafe {
            match op.code {
                OpCode::Read => libc::preadv(op.fd, op.iov, count, offset),
                // A kernel or a filter without the newer call still has this.
                OpCode::Write if !op.atomic => libc::pwritev(op.fd, op.iov, count, offset),
                OpCode::Write => libc::pwritev2(op.fd, op.iov, count, offset, pinned.rw_flags()),
                OpCode::SyncData => libc::fdatasync(op.fd) as isize,
                OpCode::SyncAll => libc::fsync(op.fd) as isize,
            }
        };
        if result >= 0 {
            // The kernel transfers at most MAX_RW_COUNT (2^31 - 4096) bytes.
            return i32::try_from(result).unwrap_or(i32::MAX);
        }
        let errno = io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        if errno != libc::EINTR {
            return -errno;
        }
    }
}

/// Writes `data` whole or not at all.
pub(crate) fn write_atomic_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    let vector = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // `File::check` holds offsets to what fits.
    let offset = offset as i64;
    // SAFETY: the descriptor is open, and the kernel reads the one vector and
    // the slice that it names, both of which outlive the call.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), &vector, 1, offset, RWF_ATOMIC) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// How a file is open: `O_DIRECT`, access and the like (`fcntl(2)`, `F_GETFL`).
pub(crate) fn status_flags(file: &File) -> io::Result<i32> {
    // SAFETY: the descriptor is open, and no memory is passed.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    match flags {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(flags),
    }
}

/// Sets the I/O priority of the calling thread; 0 for none.
pub(crate) fn set_thread_ioprio(ioprio: u16) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IOPRIO_WHO_PROCESS,
            0,
            libc::c_int::from(ioprio),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Keeps the application's signals away from the calling thread: a handler of
/// the application must not run on a pool thread's small stack.
pub(crate) fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set that pthread_sigmask reads.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// A file in memory, without a name.
pub(crate) fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a valid C string.
    let fd = unsafe { libc::memfd_create(c"iolane-probe".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// For tests: takes from the calling thread the right to any I/O priority.
#[cfg(test)]
pub(crate) fn drop_nice_capabilities() -> io::Result<()> {
    // include/uapi/linux/capability.h, the layout of version 3.
    const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    let header = Header {
        version: LINUX_CAPABILITY_VERSION_3,
        pid: 0,
    };
    // Effective, permitted and inheritable, twice 32 bits each: none.
    let none = [0u32; 6];
    // SAFETY: both structures outlive the call, which reads them.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// For tests: the I/O priority of a thread.
#[cfg(test)]
pub(crate) fn thread_ioprio(thread_id: i32) -> io::Result<u16> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, thread_id) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as u16)
}
