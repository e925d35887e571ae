//! Requests: blocking, and submitted.

use super::callback::{Callback, User};
use super::file::iolane_file;
use super::pointers::{self, Borrowed, object, slice, slice_mut};
use super::queue::iolane_queue;
use super::request::iolane_request;
use crate::failure::{Failure, code_of, number_of};
use crate::request::{Request, Then};
use ::engine::{Batch, Device, Operation};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// What a request does.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_operation {
    /// Read `length` bytes at `offset`.
    IOLANE_READ = 0,
    /// Write `length` bytes at `offset`.
    IOLANE_WRITE = 1,
    /// Make durable what was written by requests that have completed, with the
    /// metadata needed to read it (fdatasync(2)).
    IOLANE_SYNC_DATA = 2,
    /// The same with all metadata (fsync(2)).
    IOLANE_SYNC_ALL = 3,
}

/// Learns of a completion: of its result, as in struct iolane_completion. It
/// runs on the thread of the file's device, and may submit more there, but must
/// not block: all other requests of the device wait for it. (It runs inside
/// iolane_submit() or iolane_request_cancel() where a request ends there.)
pub type iolane_callback = Option<unsafe extern "C" fn(user: *mut c_void, result: i64)>;

/// One request to be submitted. Set all of it to 0 first: later versions may use
/// what is reserved.
#[repr(C)]
pub struct iolane_io {
    /// On which file.
    pub file: *const iolane_file,
    /// Memory that stays until the request has completed, and that nobody
    /// changes (nor, of a read, looks at) meanwhile. NULL for a sync.
    pub buffer: *mut c_void,
    /// Bytes; 0 for a sync.
    pub length: usize,
    /// First byte in the file; 0 for a sync.
    pub offset: u64,
    /// An enum iolane_operation.
    pub operation: i32,
    /// An enum iolane_level, 0 to 4.
    pub level: i32,
    /// What runs when it has completed, or NULL.
    pub callback: iolane_callback,
    /// Where its completion goes, or NULL. Not together with `callback`.
    pub queue: *const iolane_queue,
    /// Given to the callback, or found in the completion.
    pub user: *mut c_void,
    /// Its own deadline: how many ns after its submission it should go to the device
    /// at the latest. 0, or more than its level has
    /// (iolane_options_set_deadline()): that of its level.
    pub deadline_ns: u64,
    /// 0.
    pub reserved: u64,
}

/// Reads into `buffer`, and returns the bytes: fewer than `length` at the end of
/// the file only. Blocks: for the device's own time when nothing more urgent is
/// ahead, and then the calling thread makes its one system call itself; otherwise
/// in the queue of the level too. Fails with IOLANE_ERROR_OS, _ARGUMENT,
/// _MISALIGNED, _TOO_LONG, _IN_CALLBACK, _CLOSED, _FORKED or _NO_BACKEND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_read(
    file: *const iolane_file,
    buffer: *mut c_void,
    length: usize,
    offset: u64,
    level: i32,
) -> i64 {
    // SAFETY: C's promise.
    number_of(unsafe {
        object(file, "file").and_then(|file| {
            let level = pointers::level(level)?;
            let bytes = file.0.read_at(slice_mut(buffer, length)?, offset, level)?;
            Ok(bytes as u64)
        })
    })
}

/// Writes all of `buffer`, and returns its length. The data are durable after a
/// sync that begins when this has returned, or at once on a file opened with
/// IOLANE_OPEN_DATA_SYNC. Blocks as iolane_read(). Fails as that, and with
/// IOLANE_ERROR_POISONED or _SHORT_WRITE; any part of the range may have been
/// written then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_write(
    file: *const iolane_file,
    buffer: *const c_void,
    length: usize,
    offset: u64,
    level: i32,
) -> i64 {
    // SAFETY: C's promise.
    number_of(unsafe {
        object(file, "file").and_then(|file| {
            let level = pointers::level(level)?;
            let bytes = file.0.write_at(slice(buffer, length)?, offset, level)?;
            Ok(bytes as u64)
        })
    })
}

/// Makes durable what has been written: `operation` is IOLANE_SYNC_DATA or
/// IOLANE_SYNC_ALL. Blocks as iolane_read(), and as long as fsync(2) does. A sync
/// that fails poisons the file: all later writes and syncs, by any handle, fail
/// with IOLANE_ERROR_POISONED until all its handles are freed. Fails otherwise as
/// iolane_read().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_sync(file: *const iolane_file, operation: i32, level: i32) -> i32 {
    // SAFETY: C's promise.
    let file = unsafe { object(file, "file") };
    code_of(file.and_then(|file| {
        let level = pointers::level(level)?;
        match operation_of(operation)? {
            Operation::SyncData => file.0.sync_data(level)?,
            Operation::SyncAll => file.0.sync(level)?,
            _ => return Err(Failure::argument("iolane_sync() only syncs")),
        }
        Ok(())
    }))
}

/// Submits `count` requests together: the scheduler's lock is taken once, its
/// thread woken once, and what goes to the kernel at once goes in one system
/// call. If `requests` is not NULL, it gets a hold on each, to be freed by
/// iolane_request_free(); it may only be NULL if all have a callback or a queue.
/// Returns how many were accepted, in order: fewer than `count` if one cannot be,
/// which fails the call if it is the first. Each that was accepted completes
/// exactly once, also with an error. Blocks while a level has as many requests
/// queued as it may; inside a callback such requests complete with
/// IOLANE_ERROR_FULL instead. Fails with IOLANE_ERROR_ARGUMENT, _MISALIGNED,
/// _TOO_LONG, _POISONED, _OS (EBADF, EINVAL for length 0), _FULL (the completion
/// queue) or _FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_submit(
    ios: *const iolane_io,
    count: usize,
    requests: *mut *mut iolane_request,
) -> i64 {
    if ios.is_null() && count > 0 {
        return i64::from(Failure::argument("ios is NULL").report());
    }
    let mut batch: Option<(Device, Batch)> = None;
    for index in 0..count {
        // SAFETY: C's promise: `count` of them.
        let io = unsafe { &*ios.add(index) };
        // SAFETY: C's promise for each of them.
        let added = unsafe { add(io, &mut batch, !requests.is_null()) };
        match added {
            Ok(request) if !requests.is_null() => {
                let request = Box::into_raw(Box::new(iolane_request(request)));
                // SAFETY: C's promise: a place for `count` of them.
                unsafe { requests.add(index).write(request) };
            }
            Ok(_) => {}
            Err(failure) => {
                submit(batch);
                let code = failure.report();
                return match index {
                    0 => i64::from(code),
                    accepted => accepted as i64,
                };
            }
        }
    }
    submit(batch);
    count as i64
}

fn submit(batch: Option<(Device, Batch)>) {
    if let Some((_, batch)) = batch {
        batch.submit();
    }
}

/// # Safety
/// Pointers in `io` are NULL or what `iolane_io` says.
unsafe fn add(
    io: &iolane_io,
    batch: &mut Option<(Device, Batch)>,
    held: bool,
) -> Result<Arc<Request>, Failure> {
    // SAFETY: the caller's promise.
    let file = unsafe { object(io.file, "file") }?;
    let level = pointers::level(io.level)?;
    let operation = operation_of(io.operation)?;
    if io.reserved != 0 {
        return Err(Failure::argument("what is reserved must be 0"));
    }
    if operation.is_sync() && !(io.buffer.is_null() && io.length == 0 && io.offset == 0) {
        return Err(Failure::argument("a sync has no buffer, length or offset"));
    }
    // SAFETY: the caller's promise.
    let memory = unsafe { Borrowed::new(io.buffer, io.length) }?;
    // SAFETY: the caller's promise.
    let then = unsafe { then(io) }?;
    if matches!(then, Then::Nobody) && !held {
        return Err(Failure::argument(
            "a request needs a callback, a queue, or a place in requests",
        ));
    }
    if let Then::Queue(queue, _) = &then {
        queue.reserve()?;
    }
    let request = Request::new(then);
    let device = file.0.device();
    if batch.as_ref().is_some_and(|(of, _)| *of != device) {
        submit(batch.take());
    }
    let (_, batch) = batch.get_or_insert_with(|| {
        let batch = device.batch();
        (device, batch)
    });
    batch.set_deadline((io.deadline_ns > 0).then(|| Duration::from_nanos(io.deadline_ns)));
    let told = Arc::clone(&request);
    let (file, offset) = (&file.0, io.offset);
    let added = match operation {
        Operation::Read => batch
            .read_then(file, memory, offset, level, move |done| {
                told.completed(done)
            })
            .map_err(|refused| refused.error),
        Operation::Write => batch
            .write_then(file, memory, offset, level, move |done| {
                told.completed(done)
            })
            .map_err(|refused| refused.error),
        _ => batch
            .sync_then(file, operation, level, move |done| told.completed(done))
            .map_err(|refused| refused.error),
    };
    if let Err(error) = added {
        request.refused();
        return Err(error.into());
    }
    if held {
        request.set_ticket(batch.ticket());
    }
    Ok(request)
}

/// # Safety
/// The callback may be called with the pointer, the queue is NULL or one.
unsafe fn then(io: &iolane_io) -> Result<Then, Failure> {
    let user = User::new(io.user);
    // SAFETY: the caller's promise.
    match (io.callback, unsafe { io.queue.as_ref() }) {
        (None, None) => Ok(Then::Nobody),
        // SAFETY: the caller's promise.
        (Some(_), None) => Ok(Then::Callback(unsafe { Callback::new(io.callback, user) })),
        (None, Some(queue)) => Ok(Then::Queue(Arc::clone(&queue.0), user)),
        (Some(_), Some(_)) => Err(Failure::argument("a callback and a queue are one too many")),
    }
}

fn operation_of(number: i32) -> Result<Operation, Failure> {
    match number {
        0 => Ok(Operation::Read),
        1 => Ok(Operation::Write),
        2 => Ok(Operation::SyncData),
        3 => Ok(Operation::SyncAll),
        _ => Err(Failure::argument(format!("there is no operation {number}"))),
    }
}
