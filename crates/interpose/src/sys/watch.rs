//! Whether anybody else has a file open: a lease tells whether somebody has at a moment,
//! inotify whether somebody came since.

use iolane_protocol::sys::raw::syscall6;

use super::file;

/// Our own descriptors lie here or above: programs count on getting the lowest.
const DESCRIPTOR_MIN: usize = 900;

/// `linux/fcntl.h`; all that are not in the `libc` crate for every target.
const F_SETSIG: usize = 10;
const F_SETOWN: usize = 8;
const F_SETLEASE: usize = 1024;

fn fcntl(descriptor: i32, command: usize, argument: usize) -> isize {
    let arguments = [descriptor as usize, command, argument, 0, 0, 0];
    // SAFETY: commands that take numbers.
    unsafe { syscall6(libc::SYS_fcntl, arguments) }
}

/// A queue of what happens to files. `None`: the kernel gives none.
pub fn open() -> Option<i32> {
    let flags = (libc::IN_NONBLOCK | libc::IN_CLOEXEC) as usize;
    // SAFETY: takes a number.
    let first = unsafe { syscall6(libc::SYS_inotify_init1, [flags, 0, 0, 0, 0, 0]) };
    let first = i32::try_from(first).ok().filter(|&first| first >= 0)?;
    let moved = duplicate(first);
    close(first);
    moved
}

/// The same file under a number that is out of the program's way. `None`: there is none.
pub(super) fn duplicate(descriptor: i32) -> Option<i32> {
    duplicate_from(descriptor, DESCRIPTOR_MIN)
}

/// The same, and under any number where the limit of open files allows none of these.
pub(super) fn duplicate_anywhere(descriptor: i32) -> Option<i32> {
    duplicate(descriptor).or_else(|| duplicate_from(descriptor, 0))
}

fn duplicate_from(descriptor: i32, least: usize) -> Option<i32> {
    let made = fcntl(descriptor, libc::F_DUPFD_CLOEXEC as usize, least);
    i32::try_from(made).ok().filter(|&made| made >= 0)
}

/// Whether a program that is executed has it, too.
pub fn is_inherited(descriptor: i32) -> bool {
    let flags = fcntl(descriptor, libc::F_GETFD as usize, 0);
    flags < 0 || flags & libc::FD_CLOEXEC as isize == 0
}

/// One of ours, known to nobody else.
pub(super) fn close(descriptor: i32) {
    // SAFETY: takes a number; no memory lies behind these.
    unsafe { syscall6(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// From now on somebody who opens, removes, renames or changes the attributes of the file
/// behind the descriptor is told of, before that call has ended.
pub fn add(queue: i32, descriptor: i32) -> bool {
    let events = libc::IN_OPEN | libc::IN_ATTRIB | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
    file::with_link(descriptor, |link| {
        let arguments = [
            queue as usize,
            link.as_ptr().addr(),
            events as usize,
            0,
            0,
            0,
        ];
        // SAFETY: a C string that lives as long as the call.
        unsafe { syscall6(libc::SYS_inotify_add_watch, arguments) >= 0 }
    })
}

/// Whether nothing happened since the queue was emptied. Not that either if it cannot be asked.
pub fn is_quiet(queue: i32) -> bool {
    let mut pending: libc::c_int = 1;
    let arguments = [
        queue as usize,
        libc::FIONREAD as usize,
        (&raw mut pending).expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: writes one number, which lives as long as the call.
    let result = unsafe { syscall6(libc::SYS_ioctl, arguments) };
    result == 0 && pending == 0
}

/// Empties the queue.
pub fn drain(queue: i32) {
    let mut events = [0u64; 512];
    loop {
        let arguments = [
            queue as usize,
            events.as_mut_ptr().expose_provenance(),
            size_of_val(&events),
            0,
            0,
            0,
        ];
        // SAFETY: the buffer is as long as the call is told.
        if unsafe { syscall6(libc::SYS_read, arguments) } <= 0 {
            return;
        }
    }
}

/// Whether this description of the file is the only one there is, in all processes: only then
/// does the kernel grant a lease to write (fcntl(2)). It is given back at once. Who opens the
/// file in between waits for that; the signal by which we would be told is one that is
/// ignored unless a program asks for it.
pub fn is_only_one(descriptor: i32) -> bool {
    fcntl(descriptor, F_SETSIG, libc::SIGURG as usize);
    let is_granted = fcntl(descriptor, F_SETLEASE, libc::F_WRLCK as usize) == 0;
    if is_granted {
        fcntl(descriptor, F_SETLEASE, libc::F_UNLCK as usize);
    }
    fcntl(descriptor, F_SETSIG, 0);
    fcntl(descriptor, F_SETOWN, 0);
    is_granted
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;

    #[test]
    fn who_else_has_the_file_open_is_noticed() {
        let directory = std::env::current_dir().unwrap();
        let file = tempfile::NamedTempFile::new_in(directory).unwrap();
        let path = file.path().to_owned();
        let descriptor = file.as_file().as_raw_fd();
        let queue = open().unwrap();
        assert!(add(queue, descriptor));
        if !is_only_one(descriptor) {
            iolane_testing::skipped("this file system grants no leases");
            return;
        }
        assert!(is_quiet(queue));
        let other = fs::File::open(&path).unwrap();
        assert!(!is_quiet(queue));
        drain(queue);
        assert!(is_quiet(queue));
        assert!(!is_only_one(descriptor), "it is still open");
        drop(other);
        assert!(is_only_one(descriptor));
        fs::rename(&path, path.with_extension("moved")).unwrap();
        assert!(!is_quiet(queue));
        drain(queue);
        fs::remove_file(path.with_extension("moved")).unwrap();
        assert!(!is_quiet(queue));
        assert!(!is_quiet(-1));
    }
}
