//! Many requests with one lock and one wake-up.

use crate::completion::{Callback, Completer, Completion, Finish};
use crate::device::{Device, DeviceShared, Entry, WhenFull, in_driver};
use crate::error::{Cause, Operation, SubmitError};
use crate::file::{File, Prepared, prepare};
use crate::pending::{Identify, Pending, Shared};
use crate::{IoBuf, IoBufMut};
use iolane_sched::Level;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Requests that are collected first and submitted together: the device's lock
/// is taken once, its driver woken once, and what is dispatched at once goes to
/// the kernel in one system call.
///
/// All requests are for files of one device.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions, Pending};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, vec![9; 1 << 20])?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let mut batch = file.device().batch();
/// let mut extent = Vec::new();
/// for page in 0..64 {
///     extent.push(batch.read(&file, vec![0; 16384], page * 16384, Level::Prefetch)?);
/// }
/// batch.submit();
/// for page in extent {
///     assert_eq!(page.wait().result?, 16384);
/// }
/// # Ok(()) }
/// ```
pub struct Batch {
    device: Arc<DeviceShared>,
    entries: Vec<(Entry, Option<Arc<dyn Identify>>)>,
    /// Of what is added from now on.
    within_ns: Option<u64>,
}

impl Device {
    /// An empty batch for this device.
    pub fn batch(&self) -> Batch {
        Batch {
            device: Arc::clone(&self.0),
            entries: Vec::new(),
            within_ns: None,
        }
    }
}

impl Batch {
    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Gives the requests that are added from now on a deadline of their own: they
    /// should go to the device so long after their submission at the latest. `None`, or
    /// more than the offset of a request's level: the level's deadline holds.
    ///
    /// A deadline is when the policy lets a request go ahead of its turn, not a
    /// promise: what is in the device already is not overtaken, and the default
    /// policy lets less urgent requests go first only once in eight dispatches.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use iolane::{Engine, Level, OpenOptions};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("data");
    /// # std::fs::write(&path, vec![9; 1 << 20])?;
    /// # let engine = Engine::new()?;
    /// # let file = engine.open(&path, OpenOptions::new().read(true))?;
    /// let mut batch = file.device().batch();
    /// batch.set_deadline(Some(Duration::from_millis(5)));
    /// let page = batch.read(&file, vec![0; 16384], 0, Level::Prefetch)?;
    /// batch.submit();
    /// assert_eq!(page.wait().result?, 16384);
    /// # Ok(()) }
    /// ```
    pub fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.within_ns = deadline.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a read, as [`File::read`].
    ///
    /// # Errors
    /// The request is not possible; the buffer comes back.
    ///
    /// # Panics
    /// When `file` lies on another device.
    pub fn read<B: IoBufMut>(
        &mut self,
        file: &File,
        buffer: B,
        offset: u64,
        level: Level,
    ) -> Result<Pending<B>, SubmitError<B>> {
        match prepare::read(&file.0, &buffer, offset, level) {
            Ok(prepared) => Ok(self.pend(file, buffer, prepared)),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    /// Adds a write, as [`File::write`].
    ///
    /// # Errors
    /// The request is not possible; the buffer comes back.
    ///
    /// # Panics
    /// When `file` lies on another device.
    pub fn write<B: IoBuf>(
        &mut self,
        file: &File,
        buffer: B,
        offset: u64,
        level: Level,
    ) -> Result<Pending<B>, SubmitError<B>> {
        match prepare::write(file, &buffer, offset, level) {
            Ok(prepared) => Ok(self.pend(file, buffer, prepared)),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    /// Adds a sync, as [`File::submit_sync`]. It covers writes that completed
    /// before, not those of the same batch.
    ///
    /// # Errors
    /// The request is not possible.
    ///
    /// # Panics
    /// When `file` lies on another device, or `operation` is not a sync.
    pub fn sync(
        &mut self,
        file: &File,
        operation: Operation,
        level: Level,
    ) -> Result<Pending<()>, SubmitError<()>> {
        assert!(operation.is_sync(), "sync by a {operation}");
        match prepare::sync(&file.0, operation, level) {
            Ok(prepared) => Ok(self.pend(file, (), prepared)),
            Err(error) => Err(SubmitError { error, buffer: () }),
        }
    }

    /// Adds a read with a callback, as [`File::read_then`].
    ///
    /// # Errors
    /// The request is not possible; the buffer comes back.
    ///
    /// # Panics
    /// When `file` lies on another device.
    pub fn read_then<B, F>(
        &mut self,
        file: &File,
        buffer: B,
        offset: u64,
        level: Level,
        then: F,
    ) -> Result<(), SubmitError<B>>
    where
        B: IoBufMut,
        F: FnOnce(Completion<B>) + Send + 'static,
    {
        match prepare::read(&file.0, &buffer, offset, level) {
            Ok(prepared) => {
                self.call(file, buffer, prepared, then);
                Ok(())
            }
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    /// Adds a write with a callback, as [`File::write_then`].
    ///
    /// # Errors
    /// The request is not possible; the buffer comes back.
    ///
    /// # Panics
    /// When `file` lies on another device.
    pub fn write_then<B, F>(
        &mut self,
        file: &File,
        buffer: B,
        offset: u64,
        level: Level,
        then: F,
    ) -> Result<(), SubmitError<B>>
    where
        B: IoBuf,
        F: FnOnce(Completion<B>) + Send + 'static,
    {
        match prepare::write(file, &buffer, offset, level) {
            Ok(prepared) => {
                self.call(file, buffer, prepared, then);
                Ok(())
            }
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }

    /// Adds a sync with a callback, as [`File::sync_then`]. It covers writes
    /// that completed before, not those of the same batch.
    ///
    /// # Errors
    /// The request is not possible.
    ///
    /// # Panics
    /// When `file` lies on another device, or `operation` is not a sync.
    pub fn sync_then<F>(
        &mut self,
        file: &File,
        operation: Operation,
        level: Level,
        then: F,
    ) -> Result<(), SubmitError<()>>
    where
        F: FnOnce(Completion<()>) + Send + 'static,
    {
        assert!(operation.is_sync(), "sync_then of a {operation}");
        match prepare::sync(&file.0, operation, level) {
            Ok(prepared) => {
                self.call(file, (), prepared, then);
                Ok(())
            }
            Err(error) => Err(SubmitError { error, buffer: () }),
        }
    }

    /// Submits all of it. Blocks while the allocation group of a level is full,
    /// except inside a completion callback: there what finds no room completes
    /// at once with [`Cause::QueueFull`]. Any other refusal (the engine was
    /// shut down) reaches the requests as their completion too.
    pub fn submit(mut self) {
        let entries = std::mem::take(&mut self.entries);
        let when_full = if in_driver() {
            WhenFull::Refuse
        } else {
            WhenFull::Wait
        };
        let mut refused = Vec::new();
        match self.device.begin() {
            Ok(mut submission) => {
                for (entry, identify) in entries {
                    if let Err(refusal) = submission.add(entry, when_full, identify.as_deref()) {
                        refused.push((refusal.entry, refusal.cause));
                    }
                }
            }
            Err(cause) => {
                refused.extend(entries.into_iter().map(|(entry, _)| (entry, cause.clone())));
            }
        }
        // Outside of the lock: these run foreign code.
        refuse_all(refused.into_iter());
    }

    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        &self.device
    }

    /// Who learns the id of the request that was added last, if nobody does.
    pub(crate) fn last_identity(&mut self) -> Option<&mut Option<Arc<dyn Identify>>> {
        let (_, identify) = self.entries.last_mut()?;
        identify.is_none().then_some(identify)
    }

    fn pend<B: Send + 'static>(
        &mut self,
        file: &File,
        buffer: B,
        prepared: Prepared<B>,
    ) -> Pending<B> {
        let (shared, span) = Shared::new(buffer, prepared.span);
        let completer = Completer::Pending(Arc::clone(&shared) as Arc<dyn Finish>);
        let identify = Arc::clone(&shared) as Arc<dyn Identify>;
        let asked = prepared.asked();
        self.push(prepared.entry(file, span, completer), Some(identify));
        Pending::new(shared, file, asked)
    }

    fn call<B, F>(&mut self, file: &File, buffer: B, prepared: Prepared<B>, then: F)
    where
        B: Send + 'static,
        F: FnOnce(Completion<B>) + Send + 'static,
    {
        let mut callback = Box::new(Callback { buffer, then });
        let span = (prepared.span)(&mut callback.buffer);
        let completer = Completer::Callback(callback);
        self.push(prepared.entry(file, span, completer), None);
    }

    fn push(&mut self, mut entry: Entry, identify: Option<Arc<dyn Identify>>) {
        assert!(
            Arc::ptr_eq(&entry.file.device, &self.device),
            "a batch takes files of its own device only"
        );
        entry.within_ns = self.within_ns;
        self.entries.push((entry, identify));
    }
}

fn refuse(entry: Entry, cause: Cause) {
    let error = entry.error(cause);
    entry.completer.finish(Err(error));
}

/// A callback that panics must not keep the result from those behind it, whose
/// owners may wait for it. The first panic goes on when all are told.
fn refuse_all(refused: impl Iterator<Item = (Entry, Cause)>) {
    let mut panic = None;
    for (entry, cause) in refused {
        let told = catch_unwind(AssertUnwindSafe(|| refuse(entry, cause)));
        panic = panic.or(told.err());
    }
    if let Some(panic) = panic
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}

impl Drop for Batch {
    /// Without [`submit`](Batch::submit): everything in it completes with
    /// [`Cause::NotSubmitted`].
    fn drop(&mut self) {
        let entries = self.entries.drain(..);
        refuse_all(entries.map(|(entry, _)| (entry, Cause::NotSubmitted)));
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
