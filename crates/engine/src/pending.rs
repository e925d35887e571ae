//! A submitted request as a value: wait, poll, await, promote, cancel.

use crate::completion::{Completion, Finish, lock};
use crate::device::{DeviceShared, in_driver};
use crate::error::{Cause, Error, Operation};
use crate::file::File;
use crate::sys::span::Span;
use iolane_sched::{Level, RequestId};
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

/// A request that was submitted, and holds its buffer until it has completed.
///
/// Dropping it detaches: the request goes on, its result is thrown away, and
/// the buffer is freed when the kernel is done with it. It is also a
/// [`Future`], which any executor can run.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, vec![7; 65536])?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let ahead = file.read(vec![0; 16384], 32768, Level::Prefetch)?;
/// // A query needs the page now: it takes the query's level.
/// ahead.promote(Level::Foreground);
/// let page = ahead.wait();
/// assert_eq!(page.result?, 16384);
/// assert_eq!(page.buffer[0], 7);
/// # Ok(()) }
/// ```
#[must_use = "dropping it loses the result"]
pub struct Pending<B> {
    shared: Arc<Shared<B>>,
    device: Arc<DeviceShared>,
    origin: Origin,
}

/// What was asked: for the error of a request that a process inherited.
struct Origin {
    operation: Operation,
    path: Arc<Path>,
    offset: u64,
    length: u32,
}

/// What the holder and the device's table have in common.
pub(crate) struct Shared<B> {
    slot: Mutex<Slot<B>>,
    done: Condvar,
    /// Set on submission, under the device's lock.
    id: OnceLock<RequestId>,
}

struct Slot<B> {
    buffer: Option<B>,
    result: Option<Result<usize, Error>>,
    waker: Option<Waker>,
    /// The holder sleeps: without one, completing costs no system call.
    awaited: bool,
}

impl<B> Slot<B> {
    fn take(&mut self) -> Option<Completion<B>> {
        let result = self.result.take()?;
        let buffer = self.buffer.take()?;
        Some(Completion { result, buffer })
    }
}

impl<B> Shared<B> {
    /// Takes the buffer to where it stays until it is taken with its result,
    /// and looks there for its memory.
    pub(crate) fn new(buffer: B, span: impl FnOnce(&mut B) -> Span) -> (Arc<Shared<B>>, Span) {
        let shared = Arc::new(Shared {
            slot: Mutex::new(Slot {
                buffer: Some(buffer),
                result: None,
                waker: None,
                awaited: false,
            }),
            done: Condvar::new(),
            id: OnceLock::new(),
        });
        let span = lock(&shared.slot).buffer.as_mut().map(span);
        (shared, span.unwrap_or(Span::EMPTY))
    }

    /// The buffer of a request that never was in the device's table.
    pub(crate) fn take_buffer(&self) -> Option<B> {
        lock(&self.slot).buffer.take()
    }
}

/// Learns the id of the request on submission.
pub(crate) trait Identify: Send + Sync {
    fn identify(&self, id: RequestId);
}

impl<B: Send> Identify for Shared<B> {
    fn identify(&self, id: RequestId) {
        // Set once: a request is submitted once.
        let _ = self.id.set(id);
    }
}

impl<B: Send> Finish for Shared<B> {
    fn finish(&self, result: Result<usize, Error>) {
        let (waker, awaited) = {
            let mut slot = lock(&self.slot);
            slot.result = Some(result);
            (slot.waker.take(), slot.awaited)
        };
        if awaited {
            self.done.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<B> Pending<B> {
    /// A request on `file` that is to be, or was, submitted.
    pub(crate) fn new(
        shared: Arc<Shared<B>>,
        file: &File,
        (operation, offset, length): (Operation, u64, u32),
    ) -> Pending<B> {
        Pending {
            shared,
            device: Arc::clone(&file.0.device),
            origin: Origin {
                operation,
                path: Arc::clone(&file.0.path),
                offset,
                length,
            },
        }
    }

    /// Has it completed? Then none of the other methods blocks. In a child of
    /// the process that submitted it none does either.
    pub fn is_done(&self) -> bool {
        self.device.is_orphaned() || lock(&self.shared.slot).result.is_some()
    }

    /// The completion, if there is one: in a child of the process that
    /// submitted it always, as there will be no other.
    fn take(&self, slot: &mut Slot<B>) -> Option<Completion<B>> {
        if let Some(completion) = slot.take() {
            return Some(completion);
        }
        if !self.device.is_orphaned() {
            return None;
        }
        let buffer = slot.buffer.take()?;
        let Origin {
            operation,
            path,
            offset,
            length,
        } = &self.origin;
        let length = u64::from(*length);
        let error = Error::new(*operation, path, *offset, length, Cause::Forked);
        let result = Err(error);
        Some(Completion { result, buffer })
    }

    /// The slot, for its only holder.
    fn slot(&self) -> MutexGuard<'_, Slot<B>> {
        if !self.device.is_orphaned() {
            return lock(&self.shared.slot);
        }
        match self.shared.slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => {
                panic!("fork(2) came while this request was being completed: its buffer is lost")
            }
        }
    }

    /// Blocks until it has completed.
    ///
    /// In a child of the process that submitted it, it has failed with
    /// [`Cause::Forked`], unless it had completed before.
    ///
    /// # Panics
    /// Inside a completion callback, when it has not completed: the thread
    /// would wait for itself. In a child, when the fork came in the very moment
    /// of its completion.
    pub fn wait(self) -> Completion<B> {
        let mut slot = self.slot();
        loop {
            if let Some(completion) = self.take(&mut slot) {
                return completion;
            }
            assert!(
                !in_driver(),
                "Pending::wait inside a completion callback would wait for its own thread"
            );
            slot.awaited = true;
            slot = self
                .shared
                .done
                .wait(slot)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The completion if there is one, otherwise itself. Never blocks.
    ///
    /// # Errors
    /// Itself, when it has not completed.
    pub fn try_take(self) -> Result<Completion<B>, Pending<B>> {
        let completion = self.take(&mut self.slot());
        completion.ok_or(self)
    }

    /// Something now waits for it: gives it a more urgent level (never a less
    /// urgent one). Returns whether it was outstanding; what is already with
    /// the device cannot be hurried.
    pub fn promote(&self, level: Level) -> bool {
        match self.shared.id.get() {
            Some(&id) => self.device.promote(id, level),
            None => false,
        }
    }

    /// Withdraws it and gives the buffer back, if it has not yet gone to the
    /// device.
    ///
    /// # Errors
    /// Itself, when it is with the device, has completed, or belongs to a
    /// batch that was not submitted.
    pub fn cancel(self) -> Result<B, Pending<B>> {
        let cancelled = match self.shared.id.get() {
            Some(&id) => self.device.cancel(id),
            None => false,
        };
        if !cancelled {
            return Err(self);
        }
        let buffer = lock(&self.shared.slot).buffer.take();
        // A request in the table has its buffer, and it left the table here.
        buffer.ok_or(self)
    }
}

impl<B: Unpin> Future for Pending<B> {
    type Output = Completion<B>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion<B>> {
        let mut slot = self.slot();
        if let Some(completion) = self.take(&mut slot) {
            return Poll::Ready(completion);
        }
        assert!(slot.buffer.is_some(), "Pending polled after completion");
        match &mut slot.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<B> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
