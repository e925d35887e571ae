//! What else changes a file, or lets others change it: pages of it that were read ahead are
//! thrown out.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use iolane_protocol::sys::raw::syscall6;
use libc::{off_t, size_t, ssize_t};

use super::around::changing;
use crate::ahead;
use crate::sys::real;

/// Exports functions that change the file behind a descriptor.
macro_rules! changes {
    ($($name:ident => ($fd:ident) $real:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the caller's promise.
                changing($fd, None, 0, || unsafe { real::$real($($argument),*) })
            }
        )*
    };
}

changes! {
    ftruncate => (fd) ftruncate64(fd: c_int, length: off_t) -> c_int;
    ftruncate64 => (fd) ftruncate64(fd: c_int, length: off_t) -> c_int;
    fallocate => (fd) fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    fallocate64 => (fd) fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    posix_fallocate => (fd) posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int;
    posix_fallocate64 => (fd) posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int;
    copy_file_range => (to) copy_file_range(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint) -> ssize_t;
    sendfile => (to) sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    sendfile64 => (to) sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    splice => (to) splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint) -> ssize_t;
}

macro_rules! writing_unseen {
    ($($name:ident => $real:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// See the manual page of that name: a thread of the C library writes, and nobody sees when.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
                ahead::give_up();
                // SAFETY: the caller's promise.
                unsafe { real::$real($($argument),*) }
            }
        )*
    };
}

writing_unseen! {
    aio_write => aio_write64(block: *mut c_void);
    aio_write64 => aio_write64(block: *mut c_void);
    lio_listio => lio_listio64(mode: c_int, blocks: *const *mut c_void, count: c_int, event: *mut c_void);
    lio_listio64 => lio_listio64(mode: c_int, blocks: *const *mut c_void, count: c_int, event: *mut c_void);
}

macro_rules! truncating {
    ($($name:ident)*) => {
        $(
            /// truncate(2)
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(path: *const c_char, length: off_t) -> c_int {
                let change = ahead::begin_change_of_any();
                // SAFETY: the caller's promise.
                let result = unsafe { real::truncate64(path, length) };
                if let Some(change) = change {
                    change.end();
                }
                result
            }
        )*
    };
}

truncating! { truncate truncate64 }

/// ioctl(2): file systems zero, punch, clone and exchange ranges by it, some of them in two files.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, command: c_ulong, argument: usize) -> c_int {
    let change = ahead::begin_change_around(fd);
    // SAFETY: the caller's promise. The argument, if there is one, is in the register in which a
    // named one is.
    let result = unsafe { real::ioctl(fd, command, argument) };
    if command == libc::FIONCLEX {
        ahead::bequeath(fd);
    }
    if let Some(change) = change {
        change.end();
    }
    result
}

macro_rules! mapping {
    ($($name:ident)*) => {
        $(
            /// mmap(2). By the system call: allocators call this before `dlsym` can be asked.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                address: *mut c_void,
                length: size_t,
                protection: c_int,
                flags: c_int,
                fd: c_int,
                offset: off_t,
            ) -> *mut c_void {
                if flags & libc::MAP_TYPE != libc::MAP_PRIVATE && flags & libc::MAP_ANONYMOUS == 0 {
                    // What is written there, nobody sees.
                    ahead::share(fd);
                }
                let arguments = [
                    address.expose_provenance(),
                    length,
                    protection as usize,
                    flags as usize,
                    fd as usize,
                    offset as usize,
                ];
                // SAFETY: the caller's promise.
                let result = unsafe { syscall6(libc::SYS_mmap, arguments) };
                if (-4095..0).contains(&result) {
                    // SAFETY: the calling thread's own.
                    unsafe { *libc::__errno_location() = -result as c_int };
                    return libc::MAP_FAILED;
                }
                std::ptr::with_exposed_provenance_mut(result as usize)
            }
        )*
    };
}

mapping! { mmap mmap64 }
