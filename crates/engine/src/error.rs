//! How operations fail.

use crate::backend::BackendError;
use iolane_sched::{ConfigError, Level};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an operation does; named in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read `length` bytes at `offset`.
    Read,
    /// Write `length` bytes at `offset`.
    Write,
    /// `fdatasync(2)`: data, and the metadata needed to read them.
    SyncData,
    /// `fsync(2)`: data and all metadata.
    SyncAll,
}

impl Operation {
    /// Is it one of the two syncs?
    pub const fn is_sync(self) -> bool {
        matches!(self, Operation::SyncData | Operation::SyncAll)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::SyncData => "fdatasync",
            Operation::SyncAll => "fsync",
        })
    }
}

/// Which part of a request does not fit the device's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignee {
    /// Position in the file.
    Offset,
    /// Number of bytes.
    Length,
    /// Address of the buffer in memory.
    Address,
}

impl fmt::Display for Alignee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Alignee::Offset => "the offset",
            Alignee::Length => "the length",
            Alignee::Address => "the buffer's address",
        })
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The kernel said so (`EIO`, `ENOSPC`, ...).
    #[error("{0}")]
    Kernel(#[source] Arc<io::Error>),
    /// An earlier sync of the file failed, so what was written before it may
    /// be lost although the kernel would report the next sync as good. The
    /// source is that first failure. Close every handle of the file, and
    /// recover its contents, to use it again.
    #[error(
        "the file takes no more writes or syncs since an earlier sync failed ({0}); \
         close it and recover its contents"
    )]
    Poisoned(#[source] Box<Error>),
    /// The file is open for direct I/O, and the device does not accept this.
    #[error(
        "direct I/O on this file needs {what} to be a multiple of {needed} bytes; it is {value}"
    )]
    Misaligned {
        /// What does not fit.
        what: Alignee,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        needed: u32,
    },
    /// A handle of [`File::atomic`](crate::File::atomic) was asked for a write
    /// that cannot arrive as a whole.
    #[error(
        "a write that arrives whole or not at all is a power of two from {min_bytes} to \
         {max_bytes} bytes on this file, at a multiple of its length"
    )]
    NotAtomic {
        /// The shortest.
        min_bytes: u32,
        /// The longest.
        max_bytes: u32,
    },
    /// More than one request can carry.
    #[error("a request carries at most {max} bytes; split it")]
    TooLong {
        /// [`REQUEST_BYTES_MAX`](crate::REQUEST_BYTES_MAX).
        max: u32,
    },
    /// Offset and length reach beyond 2^63 bytes.
    #[error("the end of the request lies beyond the largest file offset")]
    BeyondEnd,
    /// The allocation group of the level is full, and the caller did not want
    /// to wait or could not (a callback).
    #[error(
        "level {level} has {limit} requests queued, as many as it may; try again when one has completed"
    )]
    QueueFull {
        /// The level.
        level: Level,
        /// Its allocation group.
        limit: u32,
    },
    /// A blocking call inside a completion callback would wait for the thread
    /// that it runs on.
    #[error(
        "blocking calls are not possible inside a completion callback; use read_then, write_then or sync_then"
    )]
    InCallback,
    /// The device took a part and then nothing more.
    #[error("the device accepted only {written} bytes")]
    ShortWrite {
        /// Bytes that were written.
        written: u32,
    },
    /// [`Engine`](crate::Engine) was dropped.
    #[error("the engine is closed; keep it as long as its files are used")]
    Closed,
    /// This process is a child that `fork(2)` made after the
    /// [`Engine`](crate::Engine): the threads that would carry the request out
    /// are its parent's. See [`Engine`](crate::Engine) for what a child may do.
    #[error("the engine belongs to the process that forked this one; make one after the fork")]
    Forked,
    /// The batch was dropped without being submitted.
    #[error("the batch was dropped before it was submitted")]
    NotSubmitted,
    /// The asynchronous backend could not be opened.
    #[error("no asynchronous I/O: {0}")]
    Backend(#[source] BackendError),
}

/// One failed operation: what, where, and why.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, b"")?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let error = file.write_at(b"page", 8192, Level::Normal).unwrap_err();
/// assert_eq!(error.os_error(), Some(9)); // EBADF: not open for writing
/// assert!(error.to_string().contains("write of 4 bytes at offset 8192"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    operation: Operation,
    path: Arc<Path>,
    offset: u64,
    length: u64,
    cause: Cause,
}

impl Error {
    pub(crate) fn new(
        operation: Operation,
        path: &Arc<Path>,
        offset: u64,
        length: u64,
        cause: Cause,
    ) -> Error {
        Error(Box::new(Inner {
            operation,
            path: Arc::clone(path),
            offset,
            length,
            cause,
        }))
    }

    /// What was tried.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The file, as it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// First byte of the request; 0 for a sync.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Bytes asked for; 0 for a sync.
    pub fn length(&self) -> u64 {
        self.0.length
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The kernel's error number, if the kernel refused.
    pub fn os_error(&self) -> Option<i32> {
        match &self.0.cause {
            Cause::Kernel(error) => error.raw_os_error(),
            Cause::Poisoned(first) => first.os_error(),
            _ => None,
        }
    }

    /// The nearest standard category.
    pub fn kind(&self) -> io::ErrorKind {
        match &self.0.cause {
            Cause::Kernel(error) => error.kind(),
            Cause::Backend(_) => io::ErrorKind::Unsupported,
            Cause::Poisoned(first) => first.kind(),
            Cause::Misaligned { .. }
            | Cause::NotAtomic { .. }
            | Cause::TooLong { .. }
            | Cause::BeyondEnd => io::ErrorKind::InvalidInput,
            Cause::QueueFull { .. } => io::ErrorKind::WouldBlock,
            Cause::InCallback => io::ErrorKind::Deadlock,
            Cause::Forked => io::ErrorKind::Unsupported,
            Cause::ShortWrite { .. } => io::ErrorKind::WriteZero,
            Cause::Closed | Cause::NotSubmitted => io::ErrorKind::Interrupted,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            operation,
            path,
            offset,
            length,
            cause,
        } = &*self.0;
        if operation.is_sync() {
            write!(f, "{operation} of {}: {cause}", path.display())
        } else {
            write!(
                f,
                "{operation} of {length} bytes at offset {offset} of {}: {cause}",
                path.display()
            )
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("operation", &self.0.operation)
            .field("path", &self.0.path)
            .field("offset", &self.0.offset)
            .field("length", &self.0.length)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.cause)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// A request that was not accepted, with its buffer.
pub struct SubmitError<B> {
    /// Why.
    pub error: Error,
    /// The buffer, as it was given.
    pub buffer: B,
}

impl<B> fmt::Debug for SubmitError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitError")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Display for SubmitError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> std::error::Error for SubmitError<B> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Why a file could not be opened, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kernel refused.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// Neither read nor write was asked for.
    #[error("cannot open {}: ask for read, write, or both", path.display())]
    NoAccess {
        /// The file.
        path: PathBuf,
    },
    /// Only regular files and block devices have positions to schedule by.
    #[error("{} is {what}; only regular files and block devices can be used", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// It is open for appending: writes would go to its end, wherever they are
    /// meant to.
    #[error("{} is open for appending, which has no positions to schedule by", path.display())]
    Append {
        /// The file.
        path: PathBuf,
    },
    /// The filesystem has no direct I/O.
    #[error(
        "{} lies on a filesystem without direct I/O; open it buffered, or move it to ext4, xfs or a block device",
        path.display()
    )]
    NoDirect {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be brought to the size asked for.
    #[error("cannot extend {} to {size_bytes} bytes: {source}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        size_bytes: u64,
        /// The refusal.
        source: io::Error,
    },
    /// The settings of the device were refused.
    #[error("cannot set up the device of {}: {source}", path.display())]
    Device {
        /// The file.
        path: PathBuf,
        /// Which setting.
        source: ConfigError,
    },
    /// This process is a child of the one that made the
    /// [`Engine`](crate::Engine).
    #[error(
        "cannot open {}: the engine belongs to the process that forked this one; \
         make one after the fork",
        path.display()
    )]
    Forked {
        /// The file.
        path: PathBuf,
    },
    /// The [`Engine`](crate::Engine) is being dropped.
    #[error("cannot open {}: the engine was shut down", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
}
