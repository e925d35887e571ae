//! What the process is told, and what it and its threads are called.

use std::ffi::{CStr, CString};

use iolane_protocol::sys::raw::syscall6;

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

/// The command line as it is now, its words separated by blanks.
pub fn with_command_line<T>(use_it: impl FnOnce(&[u8]) -> T) -> T {
    let mut line = [0u8; COMMAND_LINE_BYTES_MAX];
    let length = read_file(c"/proc/self/cmdline", &mut line);
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
