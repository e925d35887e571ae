//! What makes a descriptor name another file, or changes how it goes there.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::mode_t;

use super::process;
use crate::ahead;
use crate::asynchronous;
use crate::client;
use crate::descriptor;
use crate::rings;
use crate::sys::real;

/// A descriptor that was just made names a file that is not known.
fn fresh(descriptor: c_int) -> c_int {
    descriptor::forget(descriptor);
    ahead::own(descriptor);
    descriptor
}

/// The same, where it is another way to what is behind one that was there.
fn duplicate(from: c_int, made: c_int) -> c_int {
    descriptor::forget(made);
    ahead::share(from);
    ahead::share(made);
    made
}

/// A descriptor is about to be closed. Before: then another thread may be given the
/// number. What was asked of it goes first. A child of vfork closes descriptors of its own, and
/// its parent's, of which the memory tells, stay open.
fn retire(descriptor: c_int) {
    if client::is_guest() {
        return descriptor::forget(descriptor);
    }
    if let Ok(number) = c_uint::try_from(descriptor) {
        rings::retire(number, number);
    }
    ahead::forget(descriptor);
    asynchronous::flush_closed(|of| of == descriptor);
    descriptor::forget(descriptor);
}

/// The same for a range, both ends included.
fn retire_range(first: c_uint, last: c_uint) {
    if client::is_guest() {
        return descriptor::forget_range(first, last);
    }
    rings::retire(first, last);
    ahead::forget_range(first, last);
    asynchronous::flush_closed(|of| (first..=last).contains(&(of as c_uint)));
    descriptor::forget_range(first, last);
}

/// The same for `close_range`, if it closes: it may as well say what is to be closed when another
/// program is executed.
fn retire_closed(first: c_uint, last: c_uint, flags: c_uint) {
    if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
        retire_range(first, last);
    }
}

/// The same for a system call by number that closes.
pub(super) fn retire_before(number: libc::c_long, first: usize, second: usize, third: usize) {
    #[cfg(target_arch = "x86_64")]
    let is_dup2 = number == libc::SYS_dup2;
    #[cfg(not(target_arch = "x86_64"))]
    let is_dup2 = false;
    match number {
        libc::SYS_close => retire(first as c_int),
        libc::SYS_close_range => {
            retire_closed(first as c_uint, second as c_uint, third as c_uint);
        }
        _ if is_dup2 || number == libc::SYS_dup3 => retire(second as c_int),
        _ => {}
    }
}

unsafe extern "C" {
    fn fileno(stream: *mut c_void) -> c_int;
    fn dirfd(folder: *mut c_void) -> c_int;
}

/// The same for what the C library closes by itself, which knows its descriptor. `errno` stays.
fn retire_behind(descriptor_of: impl FnOnce() -> c_int) {
    // SAFETY: the calling thread's own.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *error };
    let descriptor = descriptor_of();
    if descriptor >= 0 {
        retire(descriptor);
    }
    // SAFETY: as above.
    unsafe { *error = before };
}

macro_rules! closing {
    ($($name:ident by $descriptor_of:ident;)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(what: *mut c_void) -> c_int {
                // SAFETY: the caller's promise.
                unsafe {
                    retire_behind(|| $descriptor_of(what));
                    real::$name(what)
                }
            }
        )*
    };
}

closing! {
    fclose by fileno;
    pclose by fileno;
    closedir by dirfd;
}

macro_rules! reopening {
    ($($name:ident)*) => {
        $(
            /// freopen(3)
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                path: *const c_char,
                mode: *const c_char,
                stream: *mut c_void,
            ) -> *mut c_void {
                // SAFETY: the caller's promise. The new file may have the number of the old one.
                unsafe {
                    retire_behind(|| fileno(stream));
                    real::freopen64(path, mode, stream)
                }
            }
        )*
    };
}

reopening! { freopen freopen64 }

/// fdopen(3): what is written by the stream, nobody sees.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    ahead::share(fd);
    // SAFETY: the caller's promise.
    unsafe { real::fdopen(fd, mode) }
}

macro_rules! opening {
    ($($name:ident => $real:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller's promise. Where the manual page has an optional
                // argument, it is in the register in which a named one is.
                fresh(unsafe { real::$real($($argument),*) })
            }
        )*
    };
}

opening! {
    open => open64(path: *const c_char, flags: c_int, mode: mode_t);
    open64 => open64(path: *const c_char, flags: c_int, mode: mode_t);
    __open_2 => __open64_2(path: *const c_char, flags: c_int);
    __open64_2 => __open64_2(path: *const c_char, flags: c_int);
    openat => openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    openat64 => openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    __openat_2 => __openat64_2(folder: c_int, path: *const c_char, flags: c_int);
    __openat64_2 => __openat64_2(folder: c_int, path: *const c_char, flags: c_int);
    creat => creat64(path: *const c_char, mode: mode_t);
    creat64 => creat64(path: *const c_char, mode: mode_t);
}

/// dup(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(from: c_int) -> c_int {
    // SAFETY: the caller's promise.
    duplicate(from, unsafe { real::dup(from) })
}

/// dup2(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    retire(to);
    // SAFETY: the caller's promise.
    duplicate(from, unsafe { real::dup2(from, to) })
}

/// dup3(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    retire(to);
    // SAFETY: the caller's promise.
    duplicate(from, unsafe { real::dup3(from, to, flags) })
}

/// close(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    retire(fd);
    // SAFETY: the caller's promise.
    unsafe { real::close(fd) }
}

/// close_range(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let do_it = || unsafe { real::close_range(first, last, flags) };
    retire_closed(first, last, flags.cast_unsigned());
    if flags.cast_unsigned() & libc::CLOSE_RANGE_UNSHARE == 0 {
        return do_it();
    }
    process::part(do_it, |&result| result == 0)
}

/// closefrom(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    retire_range(first.max(0).unsigned_abs(), c_uint::MAX);
    // SAFETY: the caller's promise.
    unsafe { real::closefrom(first) }
}

macro_rules! controlling {
    ($($name:ident)*) => {
        $(
            /// fcntl(2)
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                fd: c_int,
                command: c_int,
                argument: usize,
            ) -> c_int {
                // SAFETY: the caller's promise. The argument, if there is one, is in
                // the register in which a named one is.
                let result = unsafe { real::fcntl64(fd, command, argument) };
                match command {
                    // O_DIRECT may have come or gone.
                    libc::F_SETFL => descriptor::forget(fd),
                    libc::F_SETFD if argument as c_int & libc::FD_CLOEXEC == 0 => ahead::bequeath(fd),
                    libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                        duplicate(fd, result);
                    }
                    _ => {}
                }
                result
            }
        )*
    };
}

controlling! { fcntl fcntl64 }
