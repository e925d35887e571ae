//! Jumps out of calls, by a signal's handler.

use std::ffi::{c_int, c_void};

use super::around;
use crate::sys::real;

macro_rules! jumping {
    ($($name:ident)*) => {
        $(
            /// siglongjmp(3)
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(place: *mut c_void, value: c_int) -> ! {
                around::jumps();
                // SAFETY: the caller's promise. Nothing here has a destructor that the jump
                // would miss.
                unsafe { real::$name(place, value) }
            }
        )*
    };
}

jumping! { longjmp _longjmp siglongjmp __longjmp_chk }
