//! Sleeping on a word of shared memory (futex(2), not private).

use std::ptr;
use std::sync::atomic::AtomicU32;

use super::raw::syscall6;

/// Sleeps while the word is `value`, at most so long. Returns also for no reason.
pub fn wait(word: &AtomicU32, value: u32, timeout_ns: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAIT as usize,
        value as usize,
        ptr::from_ref(&timeout) as usize,
        0,
        0,
    ];
    // SAFETY: the word and the timeout live as long as the call.
    unsafe { syscall6(libc::SYS_futex, arguments) };
}

/// Wakes at most so many that sleep on the word.
pub fn wake(word: &AtomicU32, count: u32) {
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAKE as usize,
        count as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the call takes the address of the word and reads no memory.
    unsafe { syscall6(libc::SYS_futex, arguments) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::thread;

    #[test]
    fn a_sleeper_is_woken_and_a_changed_word_is_not_slept_on() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        wait(&WORD, 1, u64::from(u32::MAX) * 1000);
        let sleeper = thread::spawn(|| {
            while WORD.load(Ordering::SeqCst) == 0 {
                wait(&WORD, 0, 10_000_000_000);
            }
        });
        WORD.store(1, Ordering::SeqCst);
        while !sleeper.is_finished() {
            wake(&WORD, u32::MAX);
        }
        sleeper.join().unwrap();
    }
}
