//! Requests that their caller carries to the device itself, asynchronously: for
//! what has a way to the kernel of its own.

use super::{As, File, FileShared};
use crate::device::{Started, kernel_cause};
use crate::error::{Error, Operation};
use iolane_sched::{Level, Request};
use std::fmt;
use std::sync::Arc;

/// Leave to carry one request to the device at once. The scheduler counts the
/// request as in flight until [`finish`](Leave::finish) says what came of it,
/// which should be as soon as that is known.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, Operation};
/// use std::os::unix::fs::FileExt;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, vec![7; 65536])?;
/// let own = std::fs::File::open(&path)?;
/// let engine = Engine::new()?;
/// let file = engine.adopt(own.try_clone()?, &path)?;
/// let mut page = vec![0; 16384];
/// match file.leave(Operation::Read, &page, 0, Level::Normal)? {
///     // It may go at once: in whichever way.
///     Some(leave) => {
///         let result = own.read_at(&mut page, 0);
///         let bytes = leave.finish(result.map(|bytes| bytes as u32).map_err(|_| 5))?;
///         assert_eq!(bytes, 16384);
///     }
///     // Others are ahead.
///     None => assert_eq!(file.read(page, 0, Level::Normal)?.wait().result?, 16384),
/// }
/// # Ok(()) }
/// ```
#[must_use = "the scheduler counts the request as in flight"]
pub struct Leave {
    file: Arc<FileShared>,
    operation: Operation,
    request: Request,
    /// Until it has finished.
    started: Option<Started>,
}

impl File {
    /// Asks for leave to carry a read or a write of this memory at `offset`.
    /// `None`: something is ahead, and the request has to queue. Never blocks
    /// but for the device's lock. Writes that arrive whole or not at all always
    /// have to queue.
    ///
    /// # Errors
    /// What a submission of the same would be refused for.
    ///
    /// # Panics
    /// When `operation` is a sync.
    pub fn leave(
        &self,
        operation: Operation,
        memory: &[u8],
        offset: u64,
        level: Level,
    ) -> Result<Option<Leave>, Error> {
        self.leave_at(
            operation,
            (memory.as_ptr().addr(), memory.len()),
            offset,
            level,
        )
    }

    /// [`leave`](File::leave) for memory that is no slice: its address and its
    /// length.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn leave_at(
        &self,
        operation: Operation,
        (address, length): (usize, usize),
        offset: u64,
        level: Level,
    ) -> Result<Option<Leave>, Error> {
        assert!(!operation.is_sync(), "leave for a {operation}");
        let (file, As { tag, atomic }) = (&self.0, self.1);
        file.check(operation, offset, length, address)?;
        if length == 0 || atomic && operation == Operation::Write {
            return Ok(None);
        }
        let request = file.request(operation, offset, length, level);
        let started = file.start(operation, request, tag)?;
        Ok(started.map(|started| Leave {
            file: Arc::clone(file),
            operation,
            request,
            started: Some(started),
        }))
    }
}

impl Leave {
    /// What came of it: bytes, fewer than asked for too, or an errno.
    ///
    /// # Errors
    /// The errno as an [`Error`], with file and offset.
    pub fn finish(mut self, result: Result<u32, i32>) -> Result<usize, Error> {
        match self.started.take() {
            Some(started) => {
                let result = result.map_err(kernel_cause);
                self.file
                    .finish(started, self.operation, self.request, result)
            }
            None => unreachable!("it finishes once"),
        }
    }
}

impl Drop for Leave {
    /// It was not carried anywhere.
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            self.file.device.finish_started(&started, Err(()));
        }
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave")
            .field("operation", &self.operation)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
