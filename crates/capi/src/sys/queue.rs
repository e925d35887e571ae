//! Completion queues.

use super::pointers::{free, give, object};
use crate::failure::{Failure, code_of, number_of};
use crate::queue::{CAPACITY_MAX, Queue};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// A queue that requests complete into, and any number of threads take
/// completions from.
pub struct iolane_queue(pub(super) Arc<Queue>);

/// The end of a request that was submitted with a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct iolane_completion {
    /// As in its struct iolane_io.
    pub user: *mut c_void,
    /// Bytes transferred: of a read fewer than asked for at the end of the file
    /// only, of a write always all, of a sync 0. Or a negative enum iolane_error.
    pub result: i64,
    /// The errno that belongs to IOLANE_ERROR_OS and IOLANE_ERROR_POISONED;
    /// otherwise 0.
    pub os_error: i32,
}

// SAFETY: the pointer is only handed back to who gave it, who was told that
// another thread may take it.
unsafe impl Send for iolane_completion {}

/// A queue for at most `capacity` requests, outstanding or completed and not
/// taken, 1 to 1048576. Never blocks. Fails with IOLANE_ERROR_ARGUMENT. To be
/// freed by iolane_queue_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_queue_new(capacity: usize, queue: *mut *mut iolane_queue) -> i32 {
    let made = Queue::new(capacity).map(|made| iolane_queue(Arc::new(made)));
    // SAFETY: C's promise.
    code_of(made.and_then(|made| unsafe { give(queue, made) }))
}

/// Frees a queue. What completes later into it is thrown away; its buffers must
/// stay until the engine is freed. NULL is allowed. Never blocks. No thread may
/// be waiting in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_queue_free(queue: *mut iolane_queue) {
    // SAFETY: from `iolane_queue_new`, and freed once.
    unsafe { free(queue) }
}

/// An eventfd(2) that is readable while the queue has completions: for poll,
/// epoll or io_uring. It belongs to the queue: neither read nor close it. Never
/// blocks. Fails with IOLANE_ERROR_OS, _ARGUMENT or _FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_queue_descriptor(queue: *const iolane_queue) -> i32 {
    // SAFETY: C's promise.
    let queue = unsafe { object(queue, "queue") };
    match queue.and_then(|queue| queue.0.descriptor()) {
        Ok(descriptor) => descriptor,
        Err(failure) => failure.report(),
    }
}

/// Takes completions, in the order in which they came: as many as there are, at
/// most `most`. Waits until there are at least `least`, but no longer than
/// `timeout` nanoseconds; a negative timeout has no end, and with 0 it never
/// blocks. Returns how many it took, fewer than `least` only after the timeout.
/// A callback must not wait. Fails with IOLANE_ERROR_ARGUMENT or _FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_queue_take(
    queue: *const iolane_queue,
    completions: *mut iolane_completion,
    least: usize,
    most: usize,
    timeout: i64,
) -> i64 {
    // SAFETY: C's promise: `completions` is a place for `most` of them.
    number_of(unsafe {
        object(queue, "queue").and_then(|queue| take(&queue.0, completions, least, most, timeout))
    })
}

/// # Safety
/// `completions` is NULL, or a place for `most` of them.
unsafe fn take(
    queue: &Queue,
    completions: *mut iolane_completion,
    least: usize,
    most: usize,
    timeout: i64,
) -> Result<u64, Failure> {
    if completions.is_null() || most == 0 || most > CAPACITY_MAX || least > most {
        return Err(Failure::argument(format!(
            "{least} to {most} completions into {completions:?}"
        )));
    }
    let timeout = u64::try_from(timeout).ok().map(Duration::from_nanos);
    let mut taken = Vec::new();
    queue.take(&mut taken, least, most, timeout)?;
    for (index, completion) in taken.iter().enumerate() {
        // SAFETY: `take` gave at most `most`.
        unsafe { completions.add(index).write(*completion) };
    }
    Ok(taken.len() as u64)
}
