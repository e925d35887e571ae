//! libaio's functions. Each returns what libaio's does: a number, or a negative
//! errno; `errno` itself is not set. All may be called from any thread.

use super::abi::{
    Errno, IOCB_CMD_FDSYNC, IOCB_CMD_FSYNC, IOCB_CMD_PREADV, IOCB_CMD_PWRITEV, IoEvent, Iocb,
};
use super::memory::Memory;
use super::runtime::Runtime;
use crate::context::{Context, EVENTS_MAX, Patience};
use crate::submit::{Request, Submission};
use libc::{c_int, c_long, c_void, sigset_t, timespec};
use std::sync::Arc;
use std::time::Duration;

/// `io_context_t`.
type Handle = *mut c_void;

/// `io_callback_t`.
type Callback = unsafe extern "C" fn(Handle, *mut Iocb, c_long, c_long);

/// Of a second.
const NANOSECONDS: i128 = 1_000_000_000;

fn code(result: Result<c_int, Errno>) -> c_int {
    match result {
        Ok(number) => number,
        Err(Errno(errno)) => -errno,
    }
}

fn context(handle: Handle) -> Result<(&'static Runtime, Arc<Context>), Errno> {
    let runtime = Runtime::existing().ok_or(Errno(libc::EINVAL))?;
    Ok((runtime, runtime.context(handle.addr())?))
}

/// Makes a context for `events` requests, outstanding or completed and not
/// taken; `*handle` must be 0. -EINVAL, or -EAGAIN for more than 65,536.
///
/// # Safety
/// `handle` is NULL, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_setup(events: c_int, handle: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    code(match unsafe { handle.as_mut() } {
        None => Err(Errno(libc::EFAULT)),
        Some(handle) => setup(events, handle),
    })
}

fn setup(events: c_int, handle: &mut Handle) -> Result<c_int, Errno> {
    let events = u32::try_from(events).map_err(|_| Errno(libc::EINVAL))?;
    if events == 0 || !handle.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    if events > EVENTS_MAX {
        return Err(Errno(libc::EAGAIN));
    }
    let address = Runtime::this()?.add(Arc::new(Context::new(events)));
    *handle = std::ptr::with_exposed_provenance_mut(address);
    Ok(0)
}

/// Destroys a context: waits for all that is outstanding. -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn io_destroy(handle: Handle) -> c_int {
    code(context(handle).and_then(|(runtime, _)| {
        runtime.remove(handle.addr())?.destroy();
        runtime.files.sweep_now();
        Ok(0)
    }))
}

/// Submits `count` control blocks together. Returns how many were taken, or,
/// when the first was not, why: -EINVAL, -EBADF, -EAGAIN (the context has no
/// room), -EOPNOTSUPP (`aio_rw_flags`), -EFAULT. Waits while a level has 4096
/// requests queued.
///
/// # Safety
/// As of `io_submit(2)`: what they name stays until they have completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_submit(handle: Handle, count: c_long, blocks: *mut *mut Iocb) -> c_int {
    code(context(handle).and_then(|(runtime, context)| {
        let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
        if blocks.is_null() && count > 0 {
            return Err(Errno(libc::EFAULT));
        }
        runtime.files.sweep();
        let mut submission = Submission::new(runtime, &context);
        for index in 0..count {
            // SAFETY: the caller's promise.
            let added =
                unsafe { request(*blocks.add(index)) }.and_then(|request| submission.add(request));
            if let Err(errno) = added {
                return match index {
                    0 => Err(errno),
                    taken => Ok(taken as c_int),
                };
            }
        }
        Ok(count as c_int)
    }))
}

/// # Safety
/// `block` is NULL, or a control block whose vectors, if it has any, are there.
unsafe fn request(block: *mut Iocb) -> Result<Request, Errno> {
    // SAFETY: the caller's promise.
    let iocb = unsafe { block.as_ref() }
        .copied()
        .ok_or(Errno(libc::EFAULT))?;
    let memory = match iocb.opcode {
        // SAFETY: the caller's promise.
        IOCB_CMD_PREADV | IOCB_CMD_PWRITEV => unsafe { Memory::vectors_of(&iocb) }?,
        IOCB_CMD_FSYNC | IOCB_CMD_FDSYNC => Vec::new(),
        _ => vec![Memory::of(&iocb)?],
    };
    Ok(Request {
        address: block.expose_provenance() as u64,
        iocb,
        memory,
    })
}

/// Withdraws a request that has not gone to the device: -EINPROGRESS, as the
/// kernel says since 3.11, and an event with -ECANCELED follows. -EAGAIN when
/// it was not, -EINVAL when there is none. `event` is not used, as there.
#[unsafe(no_mangle)]
pub extern "C" fn io_cancel(handle: Handle, block: *mut Iocb, event: *mut IoEvent) -> c_int {
    let _ = event;
    code(context(handle).and_then(|(_, context)| {
        context.cancel(block.addr() as u64)?;
        Err(Errno(libc::EINPROGRESS))
    }))
}

/// Takes at most `most` events; waits for `least`, as long as `timeout` (NULL:
/// for ever). Returns how many it took. -EINVAL, -EINTR, -EFAULT.
///
/// # Safety
/// `events` is a place for `most`, `timeout` is NULL or a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_getevents(
    handle: Handle,
    least: c_long,
    most: c_long,
    events: *mut IoEvent,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { take(handle, (least, most), events, timeout, None) })
}

/// The same with another mask of signals meanwhile (NULL: the thread's own).
///
/// # Safety
/// As [`io_getevents`], and `mask` is NULL or a mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_pgetevents(
    handle: Handle,
    least: c_long,
    most: c_long,
    events: *mut IoEvent,
    timeout: *mut timespec,
    mask: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { take(handle, (least, most), events, timeout, mask.as_ref()) })
}

/// # Safety
/// `events` is a place for `most`, `timeout` is NULL or a time.
unsafe fn take(
    handle: Handle,
    (least, most): (c_long, c_long),
    events: *mut IoEvent,
    timeout: *const timespec,
    mask: Option<&sigset_t>,
) -> Result<c_int, Errno> {
    let (runtime, context) = context(handle)?;
    let number = |count| u32::try_from(count).map_err(|_| Errno(libc::EINVAL));
    // No more than a context holds can be asked for in earnest.
    let (least, most) = (number(least)?, number(most.min(c_long::from(i32::MAX)))?);
    if least > most {
        return Err(Errno(libc::EINVAL));
    }
    if events.is_null() && most > 0 {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    let timeout = unsafe { timeout.as_ref() }.map(duration);
    runtime.files.sweep();
    let mut at = 0;
    let patience = Patience { timeout, mask };
    let taken = context.events(least, most, &patience, |event| {
        // SAFETY: no more than `most` are given.
        unsafe { events.add(at).write(event) };
        at += 1;
    })?;
    Ok(taken as c_int)
}

/// The kernel checks nothing of it either.
fn duration(time: &timespec) -> Duration {
    let nanoseconds = i128::from(time.tv_sec) * NANOSECONDS + i128::from(time.tv_nsec);
    Duration::from_nanos(u64::try_from(nanoseconds.max(0)).unwrap_or(u64::MAX))
}

/// [`io_setup`] that looks at nothing in `*handle`.
///
/// # Safety
/// `handle` is NULL, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_queue_init(events: c_int, handle: *mut Handle) -> c_int {
    if events <= 0 {
        return -libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    if let Some(handle) = unsafe { handle.as_mut() } {
        *handle = std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { io_setup(events, handle) }
}

/// [`io_destroy`].
#[unsafe(no_mangle)]
pub extern "C" fn io_queue_release(handle: Handle) -> c_int {
    io_destroy(handle)
}

/// Calls the callback of each event that there is, which is its control
/// block's `data`. 0, or as [`io_getevents`].
///
/// # Safety
/// All control blocks have a callback (`io_set_callback`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_queue_run(handle: Handle) -> c_int {
    let mut event = IoEvent::default();
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    loop {
        // SAFETY: a place for one event, and a time.
        let taken = unsafe { io_getevents(handle, 0, 1, &mut event, &mut now) };
        if taken != 1 {
            return taken;
        }
        let block = std::ptr::with_exposed_provenance_mut(event.obj as usize);
        // SAFETY: the caller's promise; NULL is no callback.
        let callback =
            unsafe { std::mem::transmute::<usize, Option<Callback>>(event.data as usize) };
        if let Some(callback) = callback {
            // SAFETY: the caller's promise.
            unsafe { callback(handle, block, event.res as c_long, event.res2 as c_long) };
        }
    }
}

/// What libaio has of this name: waits for no event. 0, or as [`io_getevents`].
///
/// # Safety
/// As [`io_getevents`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_queue_wait(handle: Handle, timeout: *mut timespec) -> c_int {
    // SAFETY: no event is asked for.
    unsafe { io_getevents(handle, 0, 0, std::ptr::null_mut(), timeout) }
}
