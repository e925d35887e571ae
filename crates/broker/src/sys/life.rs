//! The life line: a word that the kernel marks when the thread that holds it is
//! gone, whatever it died of (`Documentation/locking/robust-futexes.rst`).

use std::ffi::c_long;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel's `struct robust_list_head`, and the one entry of the list.
#[repr(C)]
struct Line {
    first: *const Link,
    /// From an entry to its word.
    offset: c_long,
    pending: *const Link,
    entry: Link,
}

#[repr(C)]
struct Link {
    next: *const Link,
}

/// Makes the calling thread hold `word` until it ends. The thread must use no robust
/// mutex of the C library: its list is replaced.
///
/// # Errors
/// What the kernel says.
pub fn hold(word: &'static AtomicU32) -> io::Result<()> {
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    word.store(thread as u32, Ordering::SeqCst);
    // Never freed: the kernel reads it when the thread ends.
    let line = Box::leak(Box::new(Line {
        first: ptr::null(),
        offset: 0,
        pending: ptr::null(),
        entry: Link { next: ptr::null() },
    }));
    let entry = ptr::from_ref(&line.entry);
    line.first = entry;
    // The list ends where it begins: at the head.
    line.entry.next = ptr::from_ref(line).cast();
    line.offset = (word.as_ptr() as c_long).wrapping_sub(entry.addr() as c_long);
    // SAFETY: the head is as the kernel expects it and lives for ever, and so does the
    // word, which lies in a mapping that is never taken away.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_robust_list,
            ptr::from_mut(line),
            size_of::<*const Link>() * 2 + size_of::<c_long>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_that_ends_is_marked() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        thread::spawn(|| {
            hold(&WORD).unwrap();
            assert_eq!(WORD.load(Ordering::SeqCst) & libc::FUTEX_OWNER_DIED, 0);
        })
        .join()
        .unwrap();
        // The kernel marks the word before it says that the thread has ended.
        assert_ne!(WORD.load(Ordering::SeqCst) & libc::FUTEX_OWNER_DIED, 0);
    }
}
