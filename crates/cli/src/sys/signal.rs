//! Signals to a child.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Sends a signal to a child that has not been waited for.
pub fn send(child: &Child, signal: i32) {
    // SAFETY: takes numbers. The child is not reaped before it is waited for, so the
    // number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// Whether a key of the terminal (Ctrl-C) sends its signal to this process and to its children
/// alike, wherever their standard input comes from: they are in the terminal's foreground group.
pub fn keys_reach_children() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    // SAFETY: takes a descriptor that is open, and nothing.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}

/// Starts a command as the first of a process group of its own.
///
/// # Errors
/// What the system says.
pub fn start_group(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Whether a child has ended, without waiting for it: its number, which is its group's, is
/// not given away before.
pub fn has_ended(child: &Child) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure lives as long as the call, and is all zeros where no child
    // has ended.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let result = libc::waitid(libc::P_PID, child.id(), &raw mut found, flags);
        result != 0 || found.si_pid() != 0
    }
}

/// Sends a signal to a child that [`start_group`] has started and nobody has waited for, and
/// to what it has started in its group.
pub fn send_to_group(child: &Child, signal: i32) {
    // SAFETY: takes numbers. The child was not reaped, so its group's number is its own.
    unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
}

/// Whether nobody is left in the group that a child began which was waited for.
pub fn is_group_gone(number: u32) -> bool {
    // SAFETY: takes numbers; signal 0 only asks.
    unsafe { libc::kill(-(number as libc::pid_t), 0) != 0 }
}
