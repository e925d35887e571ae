//! What the parts of a run know in common: when it is measured, that it ends,
//! and what went wrong first.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use iolane::Error;

use crate::args::choices::{self, Operation};
use crate::error::Failure;

/// Shared by all streams of a run.
pub struct Control {
    /// Measured from here on...
    pub from: Instant,
    /// ... up to here.
    pub until: Instant,
    /// For people: the target.
    shown: PathBuf,
    stop: AtomicBool,
    abort: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl Control {
    pub fn new(from: Instant, until: Instant, shown: &Path) -> Self {
        Self {
            from,
            until,
            shown: shown.to_owned(),
            stop: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    pub fn is_measured(&self, at: Instant) -> bool {
        self.from <= at && at < self.until
    }

    /// No request shall follow.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The run ends before its time: nobody needs what is still to come.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.stop();
    }

    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Ends the run with this; the first one counts.
    pub fn fail(&self, failure: Failure) {
        self.lock().get_or_insert(failure);
        self.abort();
    }

    /// A request that the engine reports as failed.
    pub fn failed(&self, error: &Error) {
        let source = match error.os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.cause().to_string()),
        };
        let what = self.what(
            &error.operation().to_string(),
            error.length(),
            error.offset(),
        );
        self.fail(Failure::transfer(what, source));
    }

    /// A request that transferred less than asked for. That happens at the end
    /// of the file only, and every request ended before it when the run began.
    pub fn too_short(&self, operation: Operation, offset: u64, length: u64, done: usize) {
        let operation = choices::name(operation);
        let what = self.what(&operation, length, offset);
        let source = io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("it gave {done} bytes; something has shortened it meanwhile"),
        );
        self.fail(Failure::transfer(what, source));
    }

    fn what(&self, operation: &str, length: u64, offset: u64) -> String {
        let shown = self.shown.display();
        format!("{operation} of {length} bytes at offset {offset} of {shown}")
    }

    pub fn take_failure(&self) -> Option<Failure> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
