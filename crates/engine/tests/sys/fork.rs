//! Children that `fork(2)` makes, without an `exec`.

/// A child that does not end by itself is ended after this long: one that waits
/// for a thread of its parent would wait for ever.
const CHILD_SECONDS_MAX: u32 = 20;

/// What a child that panicked ends with.
pub const PANICKED: i32 = 101;

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

/// Runs `work` in a child process, which ends with what it returns, and waits
/// for that.
pub fn in_child(work: impl FnOnce() -> i32) -> Ended {
    // SAFETY: the child has one thread, which runs `work` and ends. glibc makes
    // its allocator usable there; `work` takes no other lock of the harness.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: arms the child's own timer.
            unsafe { libc::alarm(CHILD_SECONDS_MAX) };
            let work = std::panic::AssertUnwindSafe(work);
            let code = std::panic::catch_unwind(work).unwrap_or(PANICKED);
            // SAFETY: ends the child at once, without the harness's exit handlers.
            unsafe { libc::_exit(code) }
        }
        child => wait(child),
    }
}

/// Forks, and returns in both processes: the child, or 0 in it.
pub fn branch() -> i32 {
    // SAFETY: the child does nothing but return to its caller.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    child
}

/// Waits for a child's end.
pub fn wait(child: i32) -> Ended {
    let mut status = 0;
    // SAFETY: `status` is a place for the status of a child of ours.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(ended, child);
    if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Code(libc::WEXITSTATUS(status))
    }
}
