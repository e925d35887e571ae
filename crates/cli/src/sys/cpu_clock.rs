//! CPU time of the calling thread, in nanoseconds: `clock_gettime(2)`, whose
//! resolution `getrusage` does not have.

use std::mem::MaybeUninit;

/// CPU time that the calling thread has used, in user and kernel mode.
pub fn thread_cpu_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is writable and of the size that clock_gettime(2) fills.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(rc, 0, "every Linux has CLOCK_THREAD_CPUTIME_ID");
    // SAFETY: plain integers, zeroed before and filled now.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn work_takes_cpu_time() {
        let start_ns = thread_cpu_ns();
        black_box((0..100_000u64).fold(0, |sum, n| black_box(sum ^ n)));
        assert!(thread_cpu_ns() > start_ns);
    }
}
