//! Which of standard input, output and error were closed when the program began: `F_GETFD`
//! of `fcntl(2)`.
//!
//! Rust's runtime opens `/dev/null` in their places before `main`, after which
//! nothing tells a result that got lost from one that nobody wanted, and a command
//! that is started would find them open. So it is looked at earlier, where the loader
//! calls what is to run before `main`. This program itself keeps what was opened: its
//! messages must not end up in a file that would have the number otherwise.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// By descriptor.
static WERE_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

// SAFETY: the section holds pointers to functions of the C ABI, which this one
// is. It uses nothing of Rust's runtime, which is not there yet.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    for (descriptor, was_closed) in (0..).zip(&WERE_CLOSED) {
        // SAFETY: integers only; changes nothing.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        // Of a descriptor there is no other error.
        was_closed.store(flags == -1, Ordering::Relaxed);
    }
}

pub fn output_was_closed() -> bool {
    WERE_CLOSED[libc::STDOUT_FILENO as usize].load(Ordering::Relaxed)
}

/// A command that is started, and inherits all three, will find those closed that were.
pub fn hand_on(command: &mut Command) {
    let closed = WERE_CLOSED
        .each_ref()
        .map(|was| was.load(Ordering::Relaxed));
    if !closed.contains(&true) {
        // As the standard library starts it.
        return;
    }
    // SAFETY: close is safe between fork and exec, and nothing else is done there.
    unsafe {
        command.pre_exec(move || {
            for (descriptor, _) in (0..).zip(closed).filter(|&(_, was_closed)| was_closed) {
                libc::close(descriptor);
            }
            Ok(())
        });
    }
}
