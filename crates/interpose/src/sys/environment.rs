//! What the process is told, and what it and its threads are called.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};

use iolane_protocol::sys::raw::syscall6;

use super::memory;

/// Of a command line, so much is looked at.
const COMMAND_LINE_BYTES_MAX: usize = 512;
/// Of a thread's name, with its zero (prctl(2)).
const NAME_BYTES: usize = 16;

/// The value of an environment variable, for as long as the process lives. Only
/// when the library is loaded: nothing else runs then that could change it.
pub fn value(name: &str) -> Option<&'static [u8]> {
    let name = CString::new(name).ok()?;
    // SAFETY: a C string. The value is one, too, and nobody changes it now; what is
    // made of it is copied before anybody can.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// Where the process has its command line. A file of the kernel's would have it, too, but whoever
/// opens one takes, for a moment, the number that another thread's next file would have.
struct CommandLine {
    /// Of the first word, 0 if that is not known; behind the last word; and behind the longest title.
    first: AtomicUsize,
    last: AtomicUsize,
    title_last: AtomicUsize,
}

static COMMAND_LINE: CommandLine = CommandLine {
    first: AtomicUsize::new(0),
    last: AtomicUsize::new(0),
    title_last: AtomicUsize::new(0),
};

/// Called once, when the library is loaded: the process has no other thread yet.
pub fn find_command_line() {
    /// Of the process's numbers, counted from 1 (proc_pid_stat(5)).
    const ARG_START: usize = 48;
    /// Those before are the process's own number and its name, in brackets.
    const FIRST: usize = 3;
    let mut text = [0u8; 2048];
    let length = read_file(c"/proc/self/stat", &mut text);
    let Some(name_end) = text[..length].iter().rposition(|&byte| byte == b')') else {
        return;
    };
    let Ok(rest) = std::str::from_utf8(&text[name_end + 1..length]) else {
        return;
    };
    let mut numbers = rest.split_ascii_whitespace().skip(ARG_START - FIRST);
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    if let (Some(first), Some(last), Some(environment), Some(environment_last)) =
        (next(), next(), next(), next())
        && first < last
    {
        // As the kernel has it: a title goes on into the environment that is behind the words.
        let title_last = if environment == last {
            environment_last
        } else {
            last
        };
        COMMAND_LINE.last.store(last, Ordering::Relaxed);
        COMMAND_LINE.title_last.store(title_last, Ordering::Relaxed);
        COMMAND_LINE.first.store(first, Ordering::Release);
    }
}

/// What the kernel's file would say. `None`: it has to be asked.
fn read_command_line(line: &mut [u8]) -> Option<usize> {
    let first = COMMAND_LINE.first.load(Ordering::Acquire);
    let last = COMMAND_LINE.last.load(Ordering::Relaxed);
    let mut end = [0u8];
    if first == 0 || !memory::copy_from(last - 1, &mut end) {
        return None;
    }
    // Who has written over the end of the last word has written a title, to the first zero.
    let is_title = end[0] != 0;
    let title_last = COMMAND_LINE.title_last.load(Ordering::Relaxed);
    let length = line
        .len()
        .min(if is_title { title_last } else { last } - first);
    let line = &mut line[..length];
    memory::copy_from(first, line).then(|| match is_title {
        true => line.iter().position(|&byte| byte == 0).unwrap_or(length),
        false => length,
    })
}

/// The command line as it is now, its words separated by blanks. Who has moved it to another
/// place (`PR_SET_MM_ARG_START` of prctl(2)) has the old one.
pub fn with_command_line<T>(use_it: impl FnOnce(&[u8]) -> T) -> T {
    let mut line = [0u8; COMMAND_LINE_BYTES_MAX];
    let length =
        read_command_line(&mut line).unwrap_or_else(|| read_file(c"/proc/self/cmdline", &mut line));
    let text = &mut line[..length];
    for byte in text.iter_mut().filter(|byte| **byte == 0) {
        *byte = b' ';
    }
    use_it(text.trim_ascii_end())
}

fn read_file(path: &CStr, buffer: &mut [u8]) -> usize {
    let open = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the path is a C string; the descriptor is ours until it is closed; the
    // buffer is as long as the call is told.
    unsafe {
        let descriptor = syscall6(libc::SYS_openat, open);
        if descriptor < 0 {
            return 0;
        }
        let descriptor = descriptor as usize;
        let arguments = [
            descriptor,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            0,
            0,
            0,
        ];
        let length = syscall6(libc::SYS_read, arguments);
        syscall6(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
        usize::try_from(length).unwrap_or(0)
    }
}

/// The name of the calling thread.
pub fn with_thread_name<T>(use_it: impl FnOnce(&[u8]) -> T) -> T {
    let mut name = [0u8; NAME_BYTES];
    let arguments = [
        libc::PR_GET_NAME as usize,
        name.as_mut_ptr() as usize,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the buffer has the 16 bytes that the call writes (prctl(2)).
    unsafe { syscall6(libc::SYS_prctl, arguments) };
    let length = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(NAME_BYTES);
    use_it(&name[..length])
}

/// The number of the calling thread.
pub fn thread_number() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { syscall6(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The number of the calling process.
pub fn process_number() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { syscall6(libc::SYS_getpid, [0; 6]) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a process that has no title of its own, and a title, which may be longer than
    /// they were.
    #[test]
    fn the_command_line_is_what_the_kernel_says() {
        let as_file = || {
            let mut line = [0u8; COMMAND_LINE_BYTES_MAX];
            let length = read_file(c"/proc/self/cmdline", &mut line);
            line[..length].to_vec()
        };
        let as_memory = || {
            let mut line = [0u8; COMMAND_LINE_BYTES_MAX];
            read_command_line(&mut line).map(|length| line[..length].to_vec())
        };
        assert_eq!(as_memory(), None);
        find_command_line();
        assert_eq!(as_memory(), Some(as_file()));
        // As initialisers of titles do, over the words and the environment behind them.
        let first = COMMAND_LINE.first.load(Ordering::Relaxed);
        let title_last = COMMAND_LINE.title_last.load(Ordering::Relaxed);
        let words = COMMAND_LINE.last.load(Ordering::Relaxed) - first;
        assert!(title_last - first > words, "the environment lies behind");
        let mut kept = vec![0u8; words + 1];
        assert!(memory::copy_from(first, &mut kept));
        for length in [words, words + 1] {
            let mut title = vec![b't'; length];
            title.push(0);
            title.truncate(words + 1);
            // SAFETY: the process's own words and the first letter behind, which nobody reads meanwhile
            // but this test; they are put back.
            let was_written = unsafe { memory::copy_to(&title, first) };
            let (in_memory, in_file) = (as_memory(), as_file());
            // SAFETY: as above.
            let was_put_back = unsafe { memory::copy_to(&kept, first) };
            assert!(was_written && was_put_back);
            let in_file: Vec<u8> = in_file.into_iter().take_while(|&byte| byte != 0).collect();
            assert_eq!(in_memory, Some(in_file), "{length}");
        }
    }
}
