//! The end of a process, also by another program in its place: the kernel waits for the asynchronous requests that it
//! has, and would know nothing of those that wait for leave. `execl` and its relatives are not caught.

use std::ffi::{c_char, c_int};

use crate::asynchronous;
use crate::sys::real;

/// A list of strings, with a null pointer behind.
type List = *const *const c_char;

macro_rules! ending {
    ($($name:ident)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(status: c_int) -> ! {
                asynchronous::ends();
                // SAFETY: the caller's promise.
                unsafe { real::$name(status) }
            }
        )*
    };
}

ending! { _exit _Exit }

macro_rules! executing {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
                asynchronous::ends();
                // SAFETY: the caller's promise.
                let result = unsafe { real::$name($($argument),*) };
                // It has failed.
                asynchronous::goes_on();
                result
            }
        )*
    };
}

executing! {
    execve(path: *const c_char, arguments: List, environment: List);
    execv(path: *const c_char, arguments: List);
    execvp(name: *const c_char, arguments: List);
    execvpe(name: *const c_char, arguments: List, environment: List);
    fexecve(fd: c_int, arguments: List, environment: List);
    execveat(folder: c_int, path: *const c_char, arguments: List, environment: List, flags: c_int);
}

/// `exit` and the end of `main` call what is listed here, after the program's own functions.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    asynchronous::ends();
}
