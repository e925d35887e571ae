//! Whether standard output was closed when the program began: `F_GETFD` of
//! `fcntl(2)`.
//!
//! Rust's runtime opens `/dev/null` in its place before `main`, after which
//! nothing tells a result that got lost from one that nobody wanted. So it is
//! looked at earlier, where the loader calls what is to run before `main`.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions of the C ABI, which this one
// is. It uses nothing of Rust's runtime, which is not there yet.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: integers only; changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    // Of a descriptor there is no other error.
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}
