//! Functions of C's, and what they are to be called with.

use super::io::iolane_callback;
use std::ffi::c_void;

/// A pointer that is only handed back to who gave it.
#[derive(Clone, Copy)]
pub(crate) struct User(*mut c_void);

// SAFETY: it is never followed here; who gave it was told on which threads it
// comes back.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    pub(super) fn new(pointer: *mut c_void) -> User {
        User(pointer)
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// A function that learns of a completion.
pub(crate) struct Callback {
    function: iolane_callback,
    user: User,
}

impl Callback {
    /// # Safety
    /// `function` may be called from any thread with this pointer, once.
    pub(super) unsafe fn new(function: iolane_callback, user: User) -> Callback {
        Callback { function, user }
    }

    pub(crate) fn call(&self, result: i64) {
        if let Some(function) = self.function {
            // SAFETY: `new` was promised that it may be.
            unsafe { function(self.user.pointer(), result) };
        }
    }
}
