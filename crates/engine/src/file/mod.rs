//! Files.
//!
//! | file | subject |
//! |---|---|
//! | `open` | options, checks, finding the device |
//! | `handle` | what stands behind an open file |
//! | `blocking` | calls that wait: the fast path |
//! | `asynchronous` | owned buffers: `Pending`, callbacks |
//! | `leave` | requests that their caller carries itself |
//! | `atomic` | writes that arrive whole or not at all |

mod asynchronous;
mod atomic;
mod blocking;
mod handle;
mod leave;
mod open;

pub use atomic::AtomicWriteUnit;
pub use leave::Leave;
pub use open::OpenOptions;

pub(crate) use asynchronous::{Prepared, prepare};

use crate::device::{Device, DeviceShared, Inode};
use crate::error::{Alignee, Cause, Error, Operation};
use crate::statistics::Tag;
use handle::Handle;
use iolane_sched::REQUEST_BYTES_MAX;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

/// What offsets, lengths and buffer addresses must be multiples of. 1 where
/// anything goes (buffered files).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// For offsets and lengths.
    pub offset_bytes: u32,
    /// For addresses of buffers.
    pub memory_bytes: u32,
}

impl Alignment {
    /// Of buffered files.
    pub(crate) const ANY: Alignment = Alignment {
        offset_bytes: 1,
        memory_bytes: 1,
    };
}

pub(crate) struct FileShared {
    /// Before the handle, so that it goes first: once the handle is closed, a
    /// new file may get the same inode number, and would inherit the poison.
    pub inode: Arc<Inode>,
    pub handle: Handle,
    pub path: Arc<Path>,
    pub device: Arc<DeviceShared>,
    /// For the scheduler.
    pub number: u32,
    pub align: Alignment,
    pub atomic: Option<AtomicWriteUnit>,
    pub direct: bool,
    pub data_sync: bool,
    pub readable: bool,
    pub writable: bool,
}

impl FileShared {
    pub(crate) fn fd(&self) -> RawFd {
        self.handle.fd()
    }

    pub(crate) fn error(
        &self,
        operation: Operation,
        offset: u64,
        length: u64,
        cause: Cause,
    ) -> Error {
        Error::new(operation, &self.path, offset, length, cause)
    }

    /// Can this request be asked of this file? Checked before anything else is
    /// done, so that a bad request costs nobody anything.
    pub(crate) fn check(
        &self,
        operation: Operation,
        offset: u64,
        length: usize,
        address: usize,
    ) -> Result<(), Error> {
        self.check_cause(operation, offset, length, address)
            .map_err(|cause| self.error(operation, offset, length as u64, cause))
    }

    fn check_cause(
        &self,
        operation: Operation,
        offset: u64,
        length: usize,
        address: usize,
    ) -> Result<(), Cause> {
        if operation == Operation::Read {
            if !self.readable {
                return Err(crate::device::kernel_cause(libc::EBADF));
            }
        } else {
            if operation == Operation::Write && !self.writable {
                return Err(crate::device::kernel_cause(libc::EBADF));
            }
            if let Some(first) = self.inode.poison.get() {
                return Err(Cause::Poisoned(Box::new(first.clone())));
            }
        }
        if length > REQUEST_BYTES_MAX as usize {
            let max = REQUEST_BYTES_MAX;
            return Err(Cause::TooLong { max });
        }
        if offset > i64::MAX as u64 - length as u64 {
            return Err(Cause::BeyondEnd);
        }
        if self.direct {
            let Alignment {
                offset_bytes,
                memory_bytes,
            } = self.align;
            aligned(Alignee::Offset, offset, offset_bytes)?;
            aligned(Alignee::Length, length as u64, offset_bytes)?;
            aligned(Alignee::Address, address as u64, memory_bytes)?;
        }
        Ok(())
    }

    /// The result of a request as its owner sees it. A failed sync poisons the
    /// file, and so does a failed write that had to be durable (`data_sync`):
    /// in both cases the kernel may have dropped the data from its cache and
    /// will report the next sync as good. A failed write without a sync poisons
    /// nothing: its owner knows, and the next sync promises nothing about it.
    ///
    /// A sync that succeeded after another one failed is failed too: the
    /// kernel reports a write-back error once per descriptor, so it may owe
    /// its success to the other's failure.
    pub(crate) fn judge(
        &self,
        operation: Operation,
        offset: u64,
        length: u32,
        result: Result<u32, Cause>,
    ) -> Result<usize, Error> {
        let durable = operation.is_sync() || operation == Operation::Write && self.data_sync;
        match result {
            Ok(bytes) => match self.inode.poison.get() {
                Some(first) if durable => {
                    let cause = Cause::Poisoned(Box::new(first.clone()));
                    Err(self.error(operation, offset, u64::from(length), cause))
                }
                _ => Ok(bytes as usize),
            },
            Err(cause) => {
                let error = self.error(operation, offset, u64::from(length), cause);
                if durable {
                    // Keeps the first.
                    let _ = self.inode.poison.set(error.clone());
                }
                Err(error)
            }
        }
    }
}

fn aligned(what: Alignee, value: u64, needed: u32) -> Result<(), Cause> {
    // `needed` is a power of two; a division would cost more than the lock.
    if value & (u64::from(needed) - 1) == 0 {
        Ok(())
    } else {
        Err(Cause::Misaligned {
            what,
            value,
            needed,
        })
    }
}

/// What a handle adds to the requests that are made by it.
#[derive(Clone, Copy, Default)]
pub(crate) struct As {
    pub tag: Option<Tag>,
    /// Writes arrive whole or not at all.
    pub atomic: bool,
}

/// An open file or block device. Cheap to clone, usable from any thread.
///
/// Requests that overlap, where one writes, reach the device in the order of
/// their submission, also through different handles of one file, as long as
/// they are opened alike (direct or buffered, data-sync or not).
///
/// Closed when the last clone is dropped and nothing is outstanding.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// let engine = Engine::new()?;
/// let file = engine.open(
///     dir.path().join("log"),
///     OpenOptions::new().read(true).write(true).create(true),
/// )?;
/// file.write_at(b"begin; commit", 0, Level::Critical)?;
/// file.sync_data(Level::Critical)?;
/// let mut word = [0; 5];
/// assert_eq!(file.read_at(&mut word, 0, Level::Foreground)?, 5);
/// assert_eq!(&word, b"begin");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct File(pub(crate) Arc<FileShared>, pub(crate) As);

impl File {
    /// As it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The same file by a handle whose requests are counted under `tag`
    /// ([`DeviceStatistics::tag`](crate::DeviceStatistics::tag)).
    pub fn tagged(&self, tag: Tag) -> File {
        let tag = Some(tag);
        File(Arc::clone(&self.0), As { tag, ..self.1 })
    }

    /// The device that it lies on.
    pub fn device(&self) -> Device {
        Device(Arc::clone(&self.0.device))
    }

    /// What requests on it must be multiples of.
    pub fn alignment(&self) -> Alignment {
        self.0.align
    }

    /// Does it bypass the page cache?
    pub fn is_direct(&self) -> bool {
        self.0.direct
    }

    /// Is it a block device (or else a regular file)?
    pub fn is_block_device(&self) -> bool {
        self.0.handle.is_block_device()
    }

    /// Bytes now: a file's end, or a device's capacity.
    ///
    /// # Errors
    /// Those of `lseek(2)` and `fstat(2)`.
    pub fn size(&self) -> io::Result<u64> {
        self.0.handle.size()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.0.path)
            .field("direct", &self.0.direct)
            .field("device", &self.0.device.info.name)
            .finish_non_exhaustive()
    }
}
