//! Signals to a child.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What SIGPIPE does when the program begins: Rust's runtime ignores it before `main`.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);

/// The dynamic loader calls what is listed here before the runtime begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    IGNORES_PIPE.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: zeros are a valid structure, which lives as long as the call; nothing is changed.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// How this program was told to treat signals: a command that it starts is to treat them so, too.
/// `nohup`, shells without job control and systemd have programs begin with some of them ignored.
#[derive(Clone)]
pub struct Inherited {
    ignored: Vec<i32>,
    blocked: libc::sigset_t,
}

impl Inherited {
    /// Before this program changes any.
    pub fn look() -> Inherited {
        let first_real_time = 32;
        let mut ignored: Vec<i32> = (1..first_real_time)
            .filter(|&signal| signal != libc::SIGPIPE && is_ignored(signal))
            .collect();
        if IGNORES_PIPE.load(Ordering::Relaxed) {
            ignored.push(libc::SIGPIPE);
        }
        // SAFETY: the set lives as long as the call, which fills it and changes nothing.
        let blocked = unsafe {
            let mut blocked: libc::sigset_t = mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), &mut blocked);
            blocked
        };
        Inherited { ignored, blocked }
    }

    pub fn ignores(&self, signal: i32) -> bool {
        self.ignored.contains(&signal)
    }

    /// A command that is started will treat them so.
    pub fn hand_on(self, command: &mut Command) {
        // SAFETY: asks about a set that the kernel has filled.
        let blocks_any = (1..=libc::SIGRTMAX())
            .any(|signal| unsafe { libc::sigismember(&self.blocked, signal) == 1 });
        if self.ignored.is_empty() && !blocks_any {
            // As the standard library starts it.
            return;
        }
        // SAFETY: sigaction and pthread_sigmask are safe between fork and exec, and nothing else
        // is done there; what they are given lives as long as the calls.
        unsafe {
            command.pre_exec(move || {
                for &signal in &self.ignored {
                    let mut action: libc::sigaction = mem::zeroed();
                    action.sa_sigaction = libc::SIG_IGN;
                    libc::sigaction(signal, &action, ptr::null_mut());
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &self.blocked, ptr::null_mut());
                Ok(())
            });
        }
    }
}

/// This program waits for its children, whatever it was told: who ignores SIGCHLD cannot.
pub fn wait_for_children() {
    // SAFETY: sets what is the default, without a handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

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

/// Tells when a child ends (pidfd_open(2)).
pub struct EndOf(Option<OwnedFd>);

impl EndOf {
    pub fn of(child: &Child) -> EndOf {
        // SAFETY: takes numbers; a descriptor that comes back is ours alone.
        EndOf(unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, child.id(), 0);
            (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor as i32))
        })
    }

    /// Until then, at most so long; no less where the kernel does not tell.
    pub fn wait(&self, longest: Duration) {
        let Some(descriptor) = &self.0 else {
            return thread::sleep(longest);
        };
        let mut polled = libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure, which lives as long as the call.
        unsafe { libc::poll(&mut polled, 1, longest.as_millis() as i32) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_end_of_a_child_is_told_at_once() {
        const LONG: Duration = Duration::from_secs(60);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (end, start) = (EndOf::of(&child), Instant::now());
        end.wait(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20), "it lives");
        child.kill().unwrap();
        end.wait(LONG);
        assert!(start.elapsed() < LONG);
        child.wait().unwrap();
    }
}
