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
pub const PAGE_BYTES: u64 = 4096;
/// What changed is looked for in so many bytes at once: the kernel looks at each page that it
/// has of them.
const LOOK_BYTES: u64 = 1 << 20;

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

/// Whether a read of the range needs no device. Nothing is read to find out: also with
/// `RWF_NOWAIT` the kernel sends what it lacks to the device, past the scheduler.
pub fn is_cached(descriptor: i32, offset: u64, length: usize) -> bool {
    if length == 0 {
        return true;
    }
    let Some(pages) = cached_pages(descriptor, offset, length as u64) else {
        return is_in_core(descriptor, offset, length as u64);
    };
    let last = |end: u64| end.div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    let end = offset.saturating_add(length as u64);
    if pages >= last(end) {
        return true;
    }
    // What lies behind the end of the file is on no device.
    let size = file::stat(descriptor).map_or(u64::MAX, |stat| end_of(&stat));
    size <= offset || (size < end && pages >= last(size))
}

/// Where it ends. Of a device that is not said: as if it went on and on.
fn end_of(stat: &file::Stat) -> u64 {
    if stat.is_block_device {
        u64::MAX
    } else {
        stat.size
    }
}

/// Whether the kernel says what of a file changed and was not written back: since Linux 6.5, where
/// no filter forbids the question.
pub fn tells_changes(descriptor: i32) -> bool {
    counts(descriptor, 0, 1).is_some()
}

/// The first bytes of `offset..end` that changed and were not written back: where they begin,
/// and how many follow each other, at most `most`. Where the kernel cannot say, all counts as
/// changed. `None`: nothing has.
pub fn next_dirty(descriptor: i32, offset: u64, end: u64, most: u64) -> Option<(u64, u64)> {
    let mut from = offset;
    while from < end {
        let until = end.min((from / LOOK_BYTES + 1) * LOOK_BYTES);
        match dirty_pages(descriptor, from, until - from) {
            Some(0) => from = until,
            Some(_) => return Some(first_dirty(descriptor, from, until, end, most)),
            None => return Some((from, most.min(end - from))),
        }
    }
    None
}

/// Something of `from..until` is dirty.
fn first_dirty(descriptor: i32, from: u64, until: u64, end: u64, most: u64) -> (u64, u64) {
    let is_clean = |at, length| dirty_pages(descriptor, at, length) == Some(0);
    let (mut from, mut span) = (from, until - from);
    while span > PAGE_BYTES {
        let half = (span / 2).next_multiple_of(PAGE_BYTES);
        if is_clean(from, half) {
            from += half;
            span -= half;
        } else {
            span = half;
        }
    }
    let mut length = PAGE_BYTES.min(end - from);
    while length < most && from + length < end {
        let more = length.min(most - length).min(end - from - length);
        let dirty = dirty_pages(descriptor, from + length, more);
        if dirty.is_none_or(|pages| pages < more.div_ceil(PAGE_BYTES)) {
            break;
        }
        length += more;
    }
    (from, length)
}

fn dirty_pages(descriptor: i32, offset: u64, length: u64) -> Option<u64> {
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

/// The same by mincore(2), for kernels before Linux 6.5. Where these do not say it of another's
/// file, or the file cannot be mapped, no: then the read is scheduled.
fn is_in_core(descriptor: i32, offset: u64, length: u64) -> bool {
    let Some(stat) = file::stat(descriptor) else {
        return false;
    };
    let end = end_of(&stat).min(offset.saturating_add(length));
    let mut from = offset - offset % PAGE_BYTES;
    if !is_told(&stat) {
        return false;
    }
    while from < end {
        let until = end.min(from + LOOK_BYTES);
        if !all_in_core(descriptor, from, (until - from) as usize) {
            return false;
        }
        from = until;
    }
    true
}

/// Of the files of others mincore(2) says that all is there.
fn is_told(stat: &file::Stat) -> bool {
    // SAFETY: takes and changes no memory.
    let user = unsafe { syscall6(libc::SYS_geteuid, [0; 6]) };
    user == 0 || usize::try_from(user) == Ok(stat.owner as usize)
}

/// At most [`LOOK_BYTES`] that begin with a page.
fn all_in_core(descriptor: i32, offset: u64, length: usize) -> bool {
    const PAGES: usize = (LOOK_BYTES / PAGE_BYTES) as usize;
    let mut pages = [0u8; PAGES];
    let (protection, flags) = (libc::PROT_NONE as usize, libc::MAP_SHARED as usize);
    let map = [
        0,
        length,
        protection,
        flags,
        descriptor as usize,
        offset as usize,
    ];
    // SAFETY: a new place of the kernel's choice, which nobody else knows and nobody touches; it is
    // looked at into an array with a byte for each page, and goes.
    let looked = unsafe {
        let mapped = syscall6(libc::SYS_mmap, map);
        // An error is a small negative number.
        if (-4095..0).contains(&mapped) {
            return false;
        }
        let place = [
            mapped as usize,
            length,
            pages.as_mut_ptr() as usize,
            0,
            0,
            0,
        ];
        let looked = syscall6(libc::SYS_mincore, place);
        syscall6(libc::SYS_munmap, place);
        looked
    };
    let count = length.div_ceil(PAGE_BYTES as usize);
    looked == 0 && pages[..count].iter().all(|page| page & 1 == 1)
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
        assert!(is_cached(descriptor, 8192, 8192));
        assert!(is_cached(descriptor, 1 << 20, 1));
        assert!(is_in_core(descriptor, 100, 9900));
        assert!(is_in_core(descriptor, 8192, 8192));
        assert!(is_in_core(descriptor, 1 << 20, 1));
        assert!(!is_in_core(-1, 0, 1));
    }

    #[test]
    fn what_was_dropped_is_not_cached_and_looking_reads_nothing() {
        let directory = std::env::current_dir().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(directory).unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        let descriptor = file.as_file().as_raw_fd();
        // SAFETY: takes numbers.
        let dropped =
            unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED) } == 0;
        let is_gone = match cached_pages(descriptor, 0, 3 << 20) {
            Some(pages) => pages == 0,
            None => is_waited_for(descriptor, (3 << 20) - 4096),
        };
        if !dropped || !is_gone {
            iolane_testing::skipped("this file system keeps what it is told to drop");
            return;
        }
        for _ in 0..2 {
            assert!(!is_in_core(descriptor, 0, 3 << 20));
            assert!(!is_in_core(descriptor, 2 << 20, 1));
            assert!(!is_cached(descriptor, 0, 8192));
        }
        let mut page = [0; 4096];
        std::os::unix::fs::FileExt::read_exact_at(file.as_file(), &mut page, 0).unwrap();
        assert!(is_in_core(descriptor, 0, 4096));
        assert!(!is_in_core(descriptor, 0, 3 << 20));
    }

    /// Whether a read of a byte there has to wait: then the page cache does not have it.
    fn is_waited_for(descriptor: i32, offset: i64) -> bool {
        let mut byte = 0u8;
        let piece = libc::iovec {
            iov_base: ptr::from_mut(&mut byte).cast(),
            iov_len: 1,
        };
        // SAFETY: one piece, of a byte that lives as long as the call.
        let read =
            unsafe { libc::preadv2(descriptor, &raw const piece, 1, offset, libc::RWF_NOWAIT) };
        read < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock
    }

    #[test]
    fn what_changed_is_found_run_by_run() {
        use std::os::unix::fs::FileExt;
        let directory = std::env::current_dir().unwrap();
        let file = tempfile::NamedTempFile::new_in(directory)
            .unwrap()
            .into_file();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(&[1; 8192], 16_384).unwrap();
        file.write_all_at(&[1; 300_000], 3 << 20).unwrap();
        let (descriptor, end) = (file.as_raw_fd(), 4 << 20);
        if dirty_pages(descriptor, 0, end).is_none_or(|pages| pages == 0) {
            iolane_testing::skipped("this kernel or file system does not say what is dirty");
            return;
        }
        let next = |offset| next_dirty(descriptor, offset, end, 256 << 10);
        // A file system may keep larger pieces than pages: what was written is in the run.
        let (at, length) = next(0).unwrap();
        assert!(at <= 16_384 && at + length > 16_384, "{at} {length}");
        let (at, length) = next(1 << 20).unwrap();
        assert!(at <= 3 << 20 && length <= 256 << 10, "{at} {length}");
        assert!(next(at + length).is_some(), "the rest of it");
        file.sync_all().unwrap();
        assert_eq!(next(0), None);
    }

    /// Where a device ends the kernel's `struct stat` does not say.
    #[test]
    fn what_a_device_has_not_read_is_not_cached() {
        let directory = std::env::current_dir().unwrap();
        let device = match iolane_testing::LoopDevice::new(&directory, 1 << 20) {
            Ok(device) => device,
            Err(why) => return iolane_testing::skipped(&why),
        };
        let file = std::fs::File::open(device.path()).unwrap();
        let descriptor = file.as_raw_fd();
        // SAFETY: takes numbers.
        unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED) };
        assert!(!is_cached(descriptor, 512 << 10, 4096));
        assert!(!is_in_core(descriptor, 512 << 10, 4096));
        let mut page = [0; 4096];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut page, 512 << 10).unwrap();
        assert!(is_cached(descriptor, 512 << 10, 4096));
        assert!(is_in_core(descriptor, 512 << 10, 4096));
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
