//! Calls that do not wait for the device: the engine owns the buffer until the
//! request has completed.

use super::{File, FileShared};
use crate::completion::{Callback, Completer, Completion, Finish};
use crate::device::{Entry, Refused, WhenFull, in_driver};
use crate::error::{Error, Operation, SubmitError};
use crate::pending::{Identify, Pending, Shared};
use crate::sys::span::Span;
use crate::{IoBuf, IoBufMut};
use iolane_sched::Level;
use std::sync::Arc;

/// A request that can be, and needs the place of its memory and a completer to
/// be submitted.
pub(crate) struct Prepared<B> {
    pub operation: Operation,
    pub offset: u64,
    pub length: u32,
    pub level: Level,
    /// The memory of a buffer that is where it stays until the request has
    /// completed: what is moved as a `Box` is its new owner's alone, and no
    /// address from before may be used.
    pub span: fn(&mut B) -> Span,
}

impl<B> Prepared<B> {
    /// Operation, offset, length.
    pub(crate) fn asked(&self) -> (Operation, u64, u32) {
        (self.operation, self.offset, self.length)
    }

    pub(crate) fn entry(self, file: &File, span: Span, completer: Completer) -> Entry {
        Entry {
            file: Arc::clone(&file.0),
            operation: self.operation,
            level: self.level,
            span,
            offset: self.offset,
            length: self.length,
            submitted_ns: 0,
            dispatched_ns: 0,
            tag: file.1.tag,
            atomic: file.1.atomic && self.operation == Operation::Write,
            within_ns: None,
            completer,
        }
    }
}

/// The checks that come before any submission.
pub(crate) mod prepare {
    use super::*;

    pub(crate) fn read<B: IoBufMut>(
        file: &FileShared,
        buffer: &B,
        offset: u64,
        level: Level,
    ) -> Result<Prepared<B>, Error> {
        checked(
            file,
            Operation::Read,
            buffer.io_ptr(),
            buffer.io_len(),
            offset,
        )?;
        Ok(Prepared {
            operation: Operation::Read,
            offset,
            length: buffer.io_len() as u32,
            level,
            span: Span::of_buffer_mut,
        })
    }

    pub(crate) fn write<B: IoBuf>(
        file: &File,
        buffer: &B,
        offset: u64,
        level: Level,
    ) -> Result<Prepared<B>, Error> {
        file.check_write(offset, buffer.io_len())?;
        checked(
            &file.0,
            Operation::Write,
            buffer.io_ptr(),
            buffer.io_len(),
            offset,
        )?;
        Ok(Prepared {
            operation: Operation::Write,
            offset,
            length: buffer.io_len() as u32,
            level,
            span: |buffer| Span::of_buffer(buffer),
        })
    }

    pub(crate) fn sync(
        file: &FileShared,
        operation: Operation,
        level: Level,
    ) -> Result<Prepared<()>, Error> {
        file.check(operation, 0, 0, 0)?;
        Ok(Prepared {
            operation,
            offset: 0,
            length: 0,
            level,
            span: |()| Span::EMPTY,
        })
    }

    fn checked(
        file: &FileShared,
        operation: Operation,
        address: *const u8,
        length: usize,
        offset: u64,
    ) -> Result<(), Error> {
        file.check(operation, offset, length, address.addr())?;
        if length == 0 {
            // It has no range to schedule by; nobody needs it asynchronously.
            let cause = crate::device::kernel_cause(libc::EINVAL);
            return Err(file.error(operation, offset, 0, cause));
        }
        Ok(())
    }
}

/// Threads wait for room; the driver thread, which makes the room, cannot.
fn when_full() -> WhenFull {
    if in_driver() {
        WhenFull::Refuse
    } else {
        WhenFull::Wait
    }
}

macro_rules! submit_error_doc {
    () => {
        "# Errors\nThe request was not accepted; the buffer comes back. Inside a completion\n\
         callback that includes [`Cause::QueueFull`](crate::Cause::QueueFull); elsewhere the\n\
         call blocks until the allocation group of the level has room."
    };
}

impl File {
    /// Submits a read into `buffer`, all of it, from `offset`.
    ///
    #[doc = submit_error_doc!()]
    pub fn read<B: IoBufMut>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
    ) -> Result<Pending<B>, SubmitError<B>> {
        self.pend_read(buffer, offset, level, when_full())
    }

    /// As [`read`](File::read), but never blocks.
    ///
    /// # Errors
    /// [`Cause::QueueFull`](crate::Cause::QueueFull) instead of blocking.
    pub fn try_read<B: IoBufMut>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
    ) -> Result<Pending<B>, SubmitError<B>> {
        self.pend_read(buffer, offset, level, WhenFull::Refuse)
    }

    /// Submits a write of all of `buffer` at `offset`.
    ///
    #[doc = submit_error_doc!()]
    pub fn write<B: IoBuf>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
    ) -> Result<Pending<B>, SubmitError<B>> {
        self.pend_write(buffer, offset, level, when_full())
    }

    /// As [`write`](File::write), but never blocks.
    ///
    /// # Errors
    /// [`Cause::QueueFull`](crate::Cause::QueueFull) instead of blocking.
    pub fn try_write<B: IoBuf>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
    ) -> Result<Pending<B>, SubmitError<B>> {
        self.pend_write(buffer, offset, level, WhenFull::Refuse)
    }

    /// Submits a sync: [`Operation::SyncData`] or [`Operation::SyncAll`]. It
    /// covers the writes that have completed by now, as `fsync(2)` does.
    ///
    #[doc = submit_error_doc!()]
    ///
    /// # Panics
    /// When `operation` is not a sync.
    pub fn submit_sync(
        &self,
        operation: Operation,
        level: Level,
    ) -> Result<Pending<()>, SubmitError<()>> {
        assert!(operation.is_sync(), "submit_sync of a {operation}");
        match prepare::sync(&self.0, operation, level) {
            Ok(prepared) => self.pend((), prepared, when_full()),
            Err(error) => Err(SubmitError { error, buffer: () }),
        }
    }

    /// Submits a read; `then` runs with the result on the device's driver
    /// thread, where it may submit more (that costs no wake-up and no system
    /// call of its own) but must not block: all other requests of the device
    /// wait for it. A panic in it is counted and otherwise ignored.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use iolane::{Completion, Engine, File, Level, OpenOptions};
    /// use std::sync::mpsc;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("data");
    /// # std::fs::write(&path, vec![1; 10 * 4096])?;
    /// /// Reads ten pages, each when the one before has come.
    /// fn next(file: File, page: u64, buffer: Vec<u8>, done: mpsc::Sender<u64>) {
    ///     if page == 10 {
    ///         done.send(page).unwrap();
    ///         return;
    ///     }
    ///     let again = file.clone();
    ///     let then = move |completion: Completion<Vec<u8>>| {
    ///         assert_eq!(completion.result.unwrap(), 4096);
    ///         next(again, page + 1, completion.buffer, done);
    ///     };
    ///     file.read_then(buffer, page * 4096, Level::Background, then).unwrap();
    /// }
    /// let engine = Engine::new()?;
    /// let file = engine.open(&path, OpenOptions::new().read(true))?;
    /// let (sender, receiver) = mpsc::channel();
    /// next(file, 0, vec![0; 4096], sender);
    /// assert_eq!(receiver.recv()?, 10);
    /// # Ok(()) }
    /// ```
    ///
    #[doc = submit_error_doc!()]
    /// `then` is dropped without being called.
    pub fn read_then<B, F>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
        then: F,
    ) -> Result<(), SubmitError<B>>
    where
        B: IoBufMut,
        F: FnOnce(Completion<B>) + Send + 'static,
    {
        match prepare::read(&self.0, &buffer, offset, level) {
            Ok(prepared) => self.call(buffer, prepared, then),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    /// Submits a write; otherwise as [`read_then`](File::read_then).
    ///
    #[doc = submit_error_doc!()]
    pub fn write_then<B, F>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
        then: F,
    ) -> Result<(), SubmitError<B>>
    where
        B: IoBuf,
        F: FnOnce(Completion<B>) + Send + 'static,
    {
        match prepare::write(self, &buffer, offset, level) {
            Ok(prepared) => self.call(buffer, prepared, then),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    /// Submits a sync, as [`submit_sync`](File::submit_sync); otherwise as
    /// [`read_then`](File::read_then).
    ///
    #[doc = submit_error_doc!()]
    ///
    /// # Panics
    /// When `operation` is not a sync.
    pub fn sync_then<F>(
        &self,
        operation: Operation,
        level: Level,
        then: F,
    ) -> Result<(), SubmitError<()>>
    where
        F: FnOnce(Completion<()>) + Send + 'static,
    {
        assert!(operation.is_sync(), "sync_then of a {operation}");
        match prepare::sync(&self.0, operation, level) {
            Ok(prepared) => self.call((), prepared, then),
            Err(error) => Err(SubmitError { error, buffer: () }),
        }
    }

    fn pend_read<B: IoBufMut>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
        when_full: WhenFull,
    ) -> Result<Pending<B>, SubmitError<B>> {
        match prepare::read(&self.0, &buffer, offset, level) {
            Ok(prepared) => self.pend(buffer, prepared, when_full),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    fn pend_write<B: IoBuf>(
        &self,
        buffer: B,
        offset: u64,
        level: Level,
        when_full: WhenFull,
    ) -> Result<Pending<B>, SubmitError<B>> {
        match prepare::write(self, &buffer, offset, level) {
            Ok(prepared) => self.pend(buffer, prepared, when_full),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    fn pend<B: Send + 'static>(
        &self,
        buffer: B,
        prepared: Prepared<B>,
        when_full: WhenFull,
    ) -> Result<Pending<B>, SubmitError<B>> {
        let (shared, span) = Shared::new(buffer, prepared.span);
        let completer = Completer::Pending(Arc::clone(&shared) as Arc<dyn Finish>);
        let asked = prepared.asked();
        let entry = prepared.entry(self, span, completer);
        let submitted = self.submit(entry, when_full, Some(&*shared));
        match submitted {
            Ok(()) => Ok(Pending::new(shared, self, asked)),
            Err(refused) => {
                let error = refused.entry.error(refused.cause);
                drop(refused.entry.completer);
                let Some(buffer) = shared.take_buffer() else {
                    unreachable!("a refused request still has its buffer");
                };
                Err(SubmitError { error, buffer })
            }
        }
    }

    fn call<B, F>(&self, buffer: B, prepared: Prepared<B>, then: F) -> Result<(), SubmitError<B>>
    where
        B: Send + 'static,
        F: FnOnce(Completion<B>) + Send + 'static,
    {
        let mut callback = Box::new(Callback { buffer, then });
        let span = (prepared.span)(&mut callback.buffer);
        let entry = prepared.entry(self, span, Completer::Callback(callback));
        let Err(refused) = self.submit(entry, when_full(), None) else {
            return Ok(());
        };
        let error = refused.entry.error(refused.cause);
        let Completer::Callback(callback) = refused.entry.completer else {
            unreachable!("an entry keeps its completer");
        };
        match callback.into_any().downcast::<Callback<B, F>>() {
            Ok(callback) => Err(SubmitError {
                error,
                buffer: callback.buffer,
            }),
            Err(_) => unreachable!("a callback keeps its type"),
        }
    }

    fn submit(
        &self,
        entry: Entry,
        when_full: WhenFull,
        identify: Option<&dyn Identify>,
    ) -> Result<(), Box<Refused>> {
        self.0.device.submit(entry, when_full, identify)
    }
}
