//! Calls that wait. When the scheduler has room, the calling thread carries
//! its request to the device itself: one system call, no hand-over.

use super::{As, File, FileShared};
use crate::completion::{Completer, Parker};
use crate::device::{Entry, Started, WhenFull, in_driver, kernel_cause, kind_of};
use crate::error::{Cause, Error, Operation};
use crate::statistics::Tag;
use crate::sys::span::Span;
use iolane_sched::{Level, Request};
use std::io;
use std::sync::Arc;

/// How often a system call is repeated after `EAGAIN`, as in the driver.
const RETRIES_MAX: u32 = 16;

impl File {
    /// Reads into `buffer` from `offset`. Returns fewer bytes than asked for at
    /// the end of the file only.
    ///
    /// Blocks: in the device's own time when nothing more urgent is ahead,
    /// otherwise in the queue of `level` too, and while the allocation group of
    /// the level is full.
    ///
    /// # Errors
    /// [`Error`]: the kernel's, [`Cause::Misaligned`] and others that name what
    /// to change, [`Cause::InCallback`] inside a completion callback.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64, level: Level) -> Result<usize, Error> {
        let file = &self.0;
        let operation = Operation::Read;
        file.check(operation, offset, buffer.len(), buffer.as_ptr().addr())?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let request = file.request(operation, offset, buffer.len(), level);
        match file.start(operation, request, self.1.tag)? {
            Some(started) => {
                let result = file.read_now(buffer, offset);
                file.finish(started, operation, request, result)
            }
            None => file.wait(operation, request, self.1, Span::of_slice_mut(buffer)),
        }
    }

    /// Writes all of `buffer` at `offset`. Returns its length.
    ///
    /// Blocks as [`read_at`](File::read_at) does. The data are durable after
    /// a sync that begins when the write has completed (or at once on a file
    /// opened with [`data_sync`](crate::OpenOptions::data_sync)).
    ///
    /// # Errors
    /// As `read_at`; [`Cause::Poisoned`] after a failed sync. After an error any
    /// part of the range may have been written.
    pub fn write_at(&self, buffer: &[u8], offset: u64, level: Level) -> Result<usize, Error> {
        let file = &self.0;
        let operation = Operation::Write;
        self.check_write(offset, buffer.len())?;
        file.check(operation, offset, buffer.len(), buffer.as_ptr().addr())?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let request = file.request(operation, offset, buffer.len(), level);
        match file.start(operation, request, self.1.tag)? {
            Some(started) => {
                let result = match self.1.atomic {
                    true => file.write_whole_now(buffer, offset),
                    false => file.write_now(buffer, offset),
                };
                file.finish(started, operation, request, result)
            }
            None => file.wait(operation, request, self.1, Span::of_slice(buffer)),
        }
    }

    /// Makes all completed writes durable, with all metadata (`fsync(2)`).
    ///
    /// # Errors
    /// A failed sync poisons the file: every later write and sync on it, through
    /// any handle, fails with [`Cause::Poisoned`] and this first cause, until
    /// all handles are closed. What was written since the last good sync may be
    /// lost, and the kernel would call the next sync good.
    pub fn sync(&self, level: Level) -> Result<(), Error> {
        self.0.sync(Operation::SyncAll, level, self.1)
    }

    /// Makes all completed writes durable, with the metadata needed to read
    /// them (`fdatasync(2)`).
    ///
    /// # Errors
    /// As [`sync`](File::sync).
    pub fn sync_data(&self, level: Level) -> Result<(), Error> {
        self.0.sync(Operation::SyncData, level, self.1)
    }
}

impl FileShared {
    pub(super) fn request(
        &self,
        operation: Operation,
        offset: u64,
        length: usize,
        level: Level,
    ) -> Request {
        Request {
            kind: kind_of(operation),
            file: self.number,
            offset,
            length: length as u32,
            level,
            durable: operation == Operation::Write && self.data_sync,
        }
    }

    fn sync(self: &Arc<Self>, operation: Operation, level: Level, by: As) -> Result<(), Error> {
        self.check(operation, 0, 0, 0)?;
        let request = self.request(operation, 0, 0, level);
        match self.start(operation, request, by.tag)? {
            Some(started) => {
                let synced = match operation {
                    Operation::SyncData => self.handle.sync_data(),
                    _ => self.handle.sync_all(),
                };
                let result = synced
                    .map(|()| 0)
                    .map_err(|error| Cause::Kernel(Arc::new(error)));
                self.finish(started, operation, request, result)
            }
            None => self.wait(operation, request, by, Span::EMPTY),
        }
        .map(|_| ())
    }

    pub(super) fn start(
        &self,
        operation: Operation,
        request: Request,
        tag: Option<Tag>,
    ) -> Result<Option<Started>, Error> {
        let refused = |cause| {
            let length = u64::from(request.length);
            self.error(operation, request.offset, length, cause)
        };
        if in_driver() {
            return Err(refused(Cause::InCallback));
        }
        self.device.start(request, tag).map_err(refused)
    }

    pub(super) fn finish(
        &self,
        started: Started,
        operation: Operation,
        request: Request,
        result: Result<u32, Cause>,
    ) -> Result<usize, Error> {
        let bytes = result.as_ref().map_or(Err(()), |bytes| Ok(*bytes));
        // First, so that no other sync of the file slips through between.
        let judged = self.judge(operation, request.offset, request.length, result);
        self.device.finish_started(&started, bytes);
        judged
    }

    /// The slow path: queues, and waits until the driver has carried it out.
    /// The memory of `span` is borrowed by the caller until this returns, and
    /// this returns only when the request has left the device's table.
    fn wait(
        self: &Arc<Self>,
        operation: Operation,
        request: Request,
        by: As,
        span: Span,
    ) -> Result<usize, Error> {
        let parker = Parker::of_this_thread();
        let entry = Entry {
            file: Arc::clone(self),
            operation,
            level: request.level,
            span,
            offset: request.offset,
            length: request.length,
            submitted_ns: 0,
            dispatched_ns: 0,
            tag: by.tag,
            atomic: by.atomic && operation == Operation::Write,
            within_ns: None,
            completer: Completer::Thread(Arc::clone(&parker)),
        };
        match self.device.submit(entry, WhenFull::Wait, None) {
            Ok(_) => parker.wait(),
            Err(refused) => Err(refused.entry.error(refused.cause)),
        }
    }

    fn read_now(&self, buffer: &mut [u8], offset: u64) -> Result<u32, Cause> {
        let mut done = 0;
        let mut retries = 0;
        while done < buffer.len() {
            match self
                .handle
                .read_at(&mut buffer[done..], offset + done as u64)
            {
                Ok(0) => break,
                Ok(bytes) => {
                    done += bytes;
                    // As in the driver: off the grid is the end of the file.
                    if self.direct && !bytes.is_multiple_of(self.align.offset_bytes as usize) {
                        break;
                    }
                }
                Err(error) => repeat(&mut retries, error)?,
            }
        }
        Ok(done as u32)
    }

    fn write_now(&self, buffer: &[u8], offset: u64) -> Result<u32, Cause> {
        let mut done = 0;
        let mut retries = 0;
        while done < buffer.len() {
            match self.handle.write_at(&buffer[done..], offset + done as u64) {
                Ok(bytes) => {
                    done += bytes;
                    let off_grid =
                        self.direct && !bytes.is_multiple_of(self.align.offset_bytes as usize);
                    if (bytes == 0 || off_grid) && done < buffer.len() {
                        let written = done as u32;
                        return Err(Cause::ShortWrite { written });
                    }
                }
                Err(error) => repeat(&mut retries, error)?,
            }
        }
        Ok(done as u32)
    }

    fn write_whole_now(&self, buffer: &[u8], offset: u64) -> Result<u32, Cause> {
        let mut retries = 0;
        loop {
            match self.handle.write_atomic_at(buffer, offset) {
                Ok(bytes) if bytes == buffer.len() => return Ok(bytes as u32),
                Ok(bytes) => {
                    let written = bytes as u32;
                    return Err(Cause::ShortWrite { written });
                }
                Err(error) => repeat(&mut retries, error)?,
            }
        }
    }
}

/// `Ok`: try again.
fn repeat(retries: &mut u32, error: io::Error) -> Result<(), Cause> {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    *retries += 1;
    if matches!(errno, libc::EINTR | libc::EAGAIN) && *retries <= RETRIES_MAX {
        return Ok(());
    }
    Err(kernel_cause(errno))
}
