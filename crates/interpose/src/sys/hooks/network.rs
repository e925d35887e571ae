//! Where a server's thread hears of its client: what it reads after that is for
//! another query.

use std::ffi::{c_int, c_void};

use libc::{msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::sys::real;
use crate::thread;

fn heard(result: ssize_t) -> ssize_t {
    if result > 0 {
        thread::was_asked();
    }
    result
}

macro_rules! hearing {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> ssize_t {
                // SAFETY: the caller's promise.
                heard(unsafe { real::$name($($argument),*) })
            }
        )*
    };
}

hearing! {
    recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int);
    __recv_chk(fd: c_int, buffer: *mut c_void, count: size_t, size: size_t, flags: c_int);
    recvfrom(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t);
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int);
}
