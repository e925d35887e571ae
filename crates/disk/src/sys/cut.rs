//! Asking a served disk to cut its power: an ioctl(2) of its own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `_IOR(0xd1, 0, u64)` of the kernel's `asm-generic/ioctl.h`: the kernel hands
/// the answer's eight bytes on as this says.
pub const POWER_CUT: u32 = (2 << 30) | ((size_of::<u64>() as u32) << 16) | (0xd1 << 8);

/// Cuts the power of the disk whose file this is, as
/// [`Server::power_cut`](crate::served::Server::power_cut) does: returns when
/// that is done, and how many bytes it took.
///
/// # Errors
/// `ENOTTY` where the file is no served disk; those of the file, and of the cut.
pub fn cut_power(file: &Path) -> io::Result<u64> {
    let file = File::open(file)?;
    let mut bytes = 0_u64;
    // SAFETY: the descriptor is open as long as `file`; a server of this crate
    // answers with eight bytes, which is what the command tells the kernel to
    // write, and any other file that knows the number has no more by the same.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), POWER_CUT.into(), &raw mut bytes) };
    match done {
        0 => Ok(bytes),
        _ => Err(io::Error::last_os_error()),
    }
}
