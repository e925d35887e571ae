//! Whether the page cache has what a read asks for.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use iolane_protocol::sys::raw::syscall6;

use super::file;

/// cachestat(2), since Linux 6.5; the number is the same on all machines.
const SYS_CACHESTAT: i64 = 451;
const ENOSYS: isize = -(libc::ENOSYS as isize);
/// A page of the smallest size: on machines with larger ones, a range counts as one
/// that is not all there, and is scheduled.
const PAGE_BYTES: u64 = 4096;

static IS_MISSING: AtomicBool = AtomicBool::new(false);

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether a read of the range needs no device. Where the kernel cannot say, one
/// byte is asked for that may not be waited for.
pub fn is_cached(descriptor: i32, offset: u64, length: usize) -> bool {
    if length == 0 {
        return true;
    }
    let Some(pages) = cached_pages(descriptor, offset, length as u64) else {
        return ends_are_cached(descriptor, offset, length);
    };
    let last = |end: u64| end.div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    let end = offset.saturating_add(length as u64);
    if pages >= last(end) {
        return true;
    }
    // What lies behind the end of the file is on no device.
    let size = file::stat(descriptor).map_or(u64::MAX, |stat| stat.size);
    size <= offset || (size < end && pages >= last(size))
}

/// Pages of the range that changed and were not written back; `None` where the kernel
/// cannot say.
pub fn dirty_pages(descriptor: i32, offset: u64, length: u64) -> Option<u64> {
    counts(descriptor, offset, length).map(|counts| counts.dirty)
}

fn cached_pages(descriptor: i32, offset: u64, length: u64) -> Option<u64> {
    counts(descriptor, offset, length).map(|counts| counts.cached)
}

fn counts(descriptor: i32, offset: u64, length: u64) -> Option<Counts> {
    if IS_MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let range = Range { offset, length };
    let mut counts = Counts::default();
    let arguments = [
        descriptor as usize,
        ptr::from_ref(&range) as usize,
        ptr::from_mut(&mut counts) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: both structures are those of cachestat(2) and live as long as the call.
    let result = unsafe { syscall6(SYS_CACHESTAT, arguments) };
    if result == ENOSYS {
        IS_MISSING.store(true, Ordering::Relaxed);
    }
    (result == 0).then_some(counts)
}

/// By the first and the last byte (`RWF_NOWAIT`): kernels before Linux 6.5.
fn ends_are_cached(descriptor: i32, offset: u64, length: usize) -> bool {
    let last = offset.saturating_add(length as u64 - 1);
    is_there(descriptor, offset) && is_there(descriptor, last)
}

fn is_there(descriptor: i32, offset: u64) -> bool {
    let mut byte = 0u8;
    let piece = libc::iovec {
        iov_base: ptr::from_mut(&mut byte).cast(),
        iov_len: 1,
    };
    let arguments = [
        descriptor as usize,
        ptr::from_ref(&piece) as usize,
        1,
        offset as usize,
        0,
        libc::RWF_NOWAIT as usize,
    ];
    // SAFETY: one piece of one byte, alive as long as the call.
    let result = unsafe { syscall6(libc::SYS_preadv2, arguments) };
    // 0: behind the end of the file.
    result >= 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_was_written_is_cached_up_to_the_end_and_beyond() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        let descriptor = file.as_file().as_raw_fd();
        assert!(is_cached(descriptor, 0, 10_000));
        assert_ne!(dirty_pages(descriptor, 1 << 20, 1 << 20), Some(1));
        assert!(is_cached(descriptor, 8192, 8192));
        assert!(is_cached(descriptor, 1 << 20, 1));
        assert!(ends_are_cached(descriptor, 100, 9900));
    }

    #[test]
    fn what_was_dropped_is_not() {
        let directory = std::env::current_dir().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(directory).unwrap();
        file.write_all(&[1; 1 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        let descriptor = file.as_file().as_raw_fd();
        // SAFETY: takes numbers.
        unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED) };
        if is_cached(descriptor, 0, 4096) {
            iolane_testing::skipped("this file system keeps all in memory");
            return;
        }
        assert!(!is_cached(descriptor, 4096, 1 << 19));
    }
}
