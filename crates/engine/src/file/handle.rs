//! What stands behind an open file, and the calls that its own thread makes
//! on it. Queued requests go by the descriptor.

use super::{Alignment, AtomicWriteUnit};
use crate::device::{DeviceInfo, InodeKey};
use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

/// Closed when dropped.
pub(crate) enum Handle {
    /// Of the kernel.
    Kernel { file: fs::File, block_device: bool },
    /// Of a simulated disk.
    #[cfg(feature = "simulated")]
    Simulated(crate::simulated::SimulatedHandle),
}

impl Handle {
    /// What a backend knows it by.
    pub(crate) fn fd(&self) -> RawFd {
        match self {
            Handle::Kernel { file, .. } => file.as_raw_fd(),
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.fd(),
        }
    }

    pub(crate) fn is_block_device(&self) -> bool {
        match self {
            Handle::Kernel { block_device, .. } => *block_device,
            #[cfg(feature = "simulated")]
            Handle::Simulated(_) => false,
        }
    }

    #[inline]
    pub(crate) fn read_at(&self, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Handle::Kernel { file, .. } => file.read_at(memory, offset),
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.read_at(memory, offset),
        }
    }

    #[inline]
    pub(crate) fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        match self {
            Handle::Kernel { file, .. } => file.write_at(data, offset),
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.write_at(data, offset),
        }
    }

    /// A write that arrives whole or not at all.
    pub(crate) fn write_atomic_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        match self {
            Handle::Kernel { file, .. } => {
                crate::sys::syscalls::write_atomic_at(file, data, offset)
            }
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.write_atomic_at(data, offset),
        }
    }

    /// `fdatasync(2)`. Repeats after `EINTR`.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        match self {
            Handle::Kernel { file, .. } => file.sync_data(),
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.sync(),
        }
    }

    /// `fsync(2)`. Repeats after `EINTR`.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        match self {
            Handle::Kernel { file, .. } => file.sync_all(),
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.sync(),
        }
    }

    /// Bytes now: a file's end, or a device's capacity.
    pub(crate) fn size(&self) -> io::Result<u64> {
        match self {
            Handle::Kernel {
                file,
                block_device: false,
            } => Ok(file.metadata()?.len()),
            // `st_size` is 0. The position itself is used by nobody.
            Handle::Kernel { file, .. } => (&*file).seek(SeekFrom::End(0)),
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => Ok(file.size()),
        }
    }

    /// From `now` bytes to `size_bytes`, with the space allocated where the
    /// filesystem can. A device cannot grow.
    pub(crate) fn extend(&self, now: u64, size_bytes: u64) -> io::Result<()> {
        match self {
            Handle::Kernel {
                block_device: true, ..
            } => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Handle::Kernel { file, .. } => {
                match crate::sys::fallocate::allocate(file, now, size_bytes - now) {
                    // The filesystem cannot; a sparse file does it.
                    Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                        file.set_len(size_bytes)
                    }
                    result => result,
                }
            }
            #[cfg(feature = "simulated")]
            Handle::Simulated(file) => file.resize(size_bytes),
        }
    }
}

/// A file that was opened and has no device yet.
pub(crate) struct Opened {
    pub handle: Handle,
    /// Handles with the same key share their poison.
    pub key: InodeKey,
    /// The whole disk that it lies on.
    pub info: DeviceInfo,
    pub align: Alignment,
    pub atomic: Option<AtomicWriteUnit>,
}
