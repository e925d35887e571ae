//! The kernel's I/O priority of a thread: `ioprio_set(2)`.
//!
//! A thread inherits it from the one that starts it, so that a whole engine
//! gets it whose threads are started under it (`copy_io` in `kernel/fork.c`).

use std::io;
use std::marker::PhantomData;

const WHO_PROCESS: libc::c_int = 1;
const CLASS_SHIFT: u16 = 13;

/// Class and, inside it, priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPriority(u16);

impl IoPriority {
    /// Before everything else. Needs root's rights.
    pub const REAL_TIME: Self = Self(1 << CLASS_SHIFT);
    /// The best without rights.
    pub const BEST_EFFORT: Self = Self(2 << CLASS_SHIFT);
    /// Only when nobody else has anything.
    pub const IDLE: Self = Self(3 << CLASS_SHIFT);

    /// So far below the best without rights, at most 7.
    pub const fn best_effort(below: u16) -> Self {
        Self(Self::BEST_EFFORT.0 + if below < 7 { below } else { 7 })
    }
}

/// That of any thread, by its number.
///
/// # Errors
/// It has ended.
pub fn of_thread(thread: u32) -> io::Result<IoPriority> {
    get(thread).map(IoPriority)
}

/// Gives it to any thread, by its number.
///
/// # Errors
/// It has ended, or belongs to another user.
pub fn set_thread(thread: u32, priority: IoPriority) -> io::Result<()> {
    set(thread, priority.0)
}

/// The calling thread's priority until dropped.
pub struct Scoped {
    before: u16,
    /// It must be dropped by the same thread.
    _not_send: PhantomData<*const ()>,
}

impl Scoped {
    /// # Errors
    /// `EPERM` for the real-time class without the rights to it.
    pub fn set(priority: IoPriority) -> io::Result<Self> {
        let before = get(0)?;
        set(0, priority.0)?;
        Ok(Self {
            before,
            _not_send: PhantomData,
        })
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = set(0, self.before);
    }
}

/// 0 names the calling thread.
fn get(thread: u32) -> io::Result<u16> {
    // SAFETY: two integers in, one out.
    let value = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, thread) };
    u16::try_from(value).map_err(|_| io::Error::last_os_error())
}

fn set(thread: u32, value: u16) -> io::Result<()> {
    let value = libc::c_long::from(value);
    // SAFETY: three integers; changes nothing but the thread's priority.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, thread, value) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_inherit_it_and_it_is_put_back() {
        let before = get(0).unwrap();
        let scoped = Scoped::set(IoPriority::IDLE).unwrap();
        let inherited = std::thread::spawn(|| get(0).unwrap()).join().unwrap();
        assert_eq!(inherited, IoPriority::IDLE.0);
        drop(scoped);
        assert_eq!(get(0).unwrap(), before);
    }
}
