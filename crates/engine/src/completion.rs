//! How the end of a request reaches whoever waits for it.

use crate::error::Error;
use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A finished request, with its buffer.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Completion, Engine, Level, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, b"hello")?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let Completion { result, buffer } = file.read(vec![0; 16], 0, Level::Prefetch)?.wait();
/// assert_eq!(&buffer[..result?], b"hello");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Completion<B> {
    /// Bytes transferred: of a read fewer than asked for at the end of the
    /// file only, of a write always all, of a sync 0.
    pub result: Result<usize, Error>,
    /// The buffer, as it was given.
    pub buffer: B,
}

/// Who gets the result.
pub(crate) enum Completer {
    /// A thread blocked in a call with borrowed memory.
    Thread(Arc<Parker>),
    /// The holder of a `Pending`.
    Pending(Arc<dyn Finish>),
    /// A function, which runs on the driver thread.
    Callback(Box<dyn FinishOnce>),
}

impl Completer {
    pub(crate) fn finish(self, result: Result<usize, Error>) {
        match self {
            Completer::Thread(parker) => parker.finish(result),
            Completer::Pending(pending) => pending.finish(result),
            Completer::Callback(callback) => callback.finish(result),
        }
    }
}

pub(crate) trait Finish: Send + Sync {
    fn finish(&self, result: Result<usize, Error>);
}

pub(crate) trait FinishOnce: Send {
    fn finish(self: Box<Self>, result: Result<usize, Error>);
    /// For taking the buffer back out of a refused callback.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A callback with the buffer that it will get.
pub(crate) struct Callback<B, F> {
    pub buffer: B,
    pub then: F,
}

impl<B, F> FinishOnce for Callback<B, F>
where
    B: Send + 'static,
    F: FnOnce(Completion<B>) + Send + 'static,
{
    fn finish(self: Box<Self>, result: Result<usize, Error>) {
        let Callback { buffer, then } = *self;
        then(Completion { result, buffer });
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Where a thread waits for its request. One per thread, made on first use.
#[derive(Default)]
pub(crate) struct Parker {
    result: Mutex<Option<Result<usize, Error>>>,
    done: Condvar,
}

thread_local! {
    static PARKER: Arc<Parker> = Arc::default();
}

impl Parker {
    pub(crate) fn of_this_thread() -> Arc<Parker> {
        PARKER.with(Arc::clone)
    }

    fn finish(&self, result: Result<usize, Error>) {
        *lock(&self.result) = Some(result);
        self.done.notify_one();
    }

    pub(crate) fn wait(&self) -> Result<usize, Error> {
        let mut slot = lock(&self.result);
        loop {
            if let Some(result) = slot.take() {
                return result;
            }
            slot = self.done.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Locks although a holder panicked: no critical section of this crate leaves
/// its data half-changed by a panic of foreign code.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
