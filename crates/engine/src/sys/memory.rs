//! Anonymous memory mappings: hugetlb pages of a given size, or base pages on
//! an aligned address between two guard pages.

use std::io;
use std::ptr::{self, NonNull};

/// Base page size of this machine: 4 KiB, on aarch64 also 16 or 64 KiB.
pub(crate) fn base_page_bytes() -> usize {
    // SAFETY: sysconf has no memory preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("POSIX requires _SC_PAGESIZE")
}

/// A private, readable and writable mapping; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    align: usize,
    /// Guard pages on both sides, zero for hugetlb.
    guard: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it;
// the type hands out its address only, and dereferencing that is up to others.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` allows nothing but system calls that the kernel
// serializes, and reading plain fields.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of hugetlb pages of `page_bytes` each. The kernel reserves
    /// the pages here, so a short pool is an error here (`ENOMEM`), not a
    /// signal later. `len` is a multiple of `page_bytes`, a power of two.
    pub(crate) fn hugetlb(len: usize, page_bytes: usize) -> io::Result<Self> {
        assert!(page_bytes.is_power_of_two() && len.is_multiple_of(page_bytes));
        // The kernel takes the size as its base-2 logarithm, in the top bits.
        let size_flag = (page_bytes.trailing_zeros() << libc::MAP_HUGE_SHIFT) as libc::c_int;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | size_flag;
        let start = map(len, libc::PROT_READ | libc::PROT_WRITE, flags)?;
        Ok(Mapping {
            start,
            len,
            align: page_bytes,
            guard: 0,
        })
    }

    /// `len` bytes of base pages, the first at a multiple of `align` (a power
    /// of two). The guard pages catch overruns, and keep the kernel from
    /// merging the mapping with a neighbour, so that `/proc/self/smaps` speaks
    /// of this mapping alone.
    pub(crate) fn anonymous(len: usize, align: usize) -> io::Result<Self> {
        let guard = base_page_bytes();
        assert!(align.is_power_of_two() && align >= guard && len.is_multiple_of(guard));
        let whole_len = len
            .checked_add(align)
            .and_then(|sum| sum.checked_add(2 * guard))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let whole = map(whole_len, libc::PROT_NONE, flags)?;

        let base = whole.as_ptr() as usize;
        let head = (base + guard).next_multiple_of(align) - guard - base;
        let kept = len + 2 * guard;
        // SAFETY: all three ranges lie inside the mapping just made (`head`
        // is at most `align`), are page-aligned, and nobody else knows them.
        let start = unsafe {
            unmap(whole.as_ptr(), head);
            let first = whole.as_ptr().add(head);
            unmap(first.add(kept), whole_len - head - kept);
            NonNull::new_unchecked(first.add(guard))
        };
        let mapping = Mapping {
            start,
            len,
            align,
            guard,
        };
        // SAFETY: the range is the inside of the mapping, not yet in use.
        let rc = unsafe {
            libc::mprotect(
                start.as_ptr().cast(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    /// First byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes, without guards.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What the first byte's address is a multiple of.
    pub(crate) fn align(&self) -> usize {
        self.align
    }

    /// Asks for transparent huge pages; before [`populate`](Self::populate).
    pub(crate) fn advise_huge(&self) -> io::Result<()> {
        self.advise(libc::MADV_HUGEPAGE)
    }

    /// Asks for base pages even where huge ones are given without asking. A
    /// kernel without transparent huge pages answers `EINVAL`, and complies.
    pub(crate) fn advise_small(&self) {
        let _ = self.advise(libc::MADV_NOHUGEPAGE);
    }

    /// Brings every page into memory, so that a shortage shows as an error
    /// now, and no page fault falls into a query.
    ///
    /// Other threads of the process may be in the middle of queries: a call
    /// that brings all of it has the lock of the address space all that time, on
    /// a virtual machine for seconds, and whoever allocates waits, for one that
    /// has little of a processor as well. So hugetlb pages come one by one, and
    /// others by a fault each, which has had a lock of its own since Linux 6.4;
    /// 1.4 times the time on base pages, none of it on transparent huge ones.
    pub(crate) fn populate(&self) -> io::Result<()> {
        if self.is_hugetlb() {
            let mut pages = (0..self.len).step_by(self.align);
            return pages.try_for_each(|offset| self.populate_page(offset));
        }
        self.touch(0, self.len);
        Ok(())
    }

    fn is_hugetlb(&self) -> bool {
        self.guard == 0
    }

    /// The hugetlb page there, by a call, as a limit of the cgroup is an error
    /// then, not a signal.
    fn populate_page(&self, offset: usize) -> io::Result<()> {
        loop {
            let error = match self.advise_range(offset, self.align, libc::MADV_POPULATE_WRITE) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.raw_os_error() {
                // A signal stopped it half-way; the rest is still to do.
                Some(libc::EINTR | libc::EAGAIN) => {}
                // A kernel before 5.14.
                Some(libc::EINVAL) => {
                    self.touch(offset, self.align);
                    return Ok(());
                }
                _ => return Err(error),
            }
        }
    }

    fn touch(&self, from: usize, len: usize) {
        assert!(from + len <= self.len);
        for offset in (from..from + len).step_by(base_page_bytes()) {
            // SAFETY: inside the mapping, which is writable; no reference to
            // its bytes exists yet, `populate` being part of its making.
            unsafe { self.start.as_ptr().add(offset).write_volatile(0) };
        }
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        self.advise_range(0, self.len, advice)
    }

    fn advise_range(&self, offset: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
        assert!(offset + len <= self.len);
        // SAFETY: the range is inside the mapping; none of the advices used
        // here discards contents.
        let rc = unsafe { libc::madvise(self.start.as_ptr().add(offset).cast(), len, advice) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value alone, guards included,
        // and whoever used its memory held the value alive.
        unsafe {
            unmap(
                self.start.as_ptr().sub(self.guard),
                self.len + 2 * self.guard,
            );
        }
    }
}

fn map(len: usize, protection: libc::c_int, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: without MAP_FIXED the kernel picks unused addresses.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(start.cast()).expect("mmap without MAP_FIXED never maps address 0"))
}

/// # Safety
/// The range is mapped, page-aligned, and no longer used.
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller's promise.
        let rc = unsafe { libc::munmap(start.cast(), len) };
        debug_assert_eq!(rc, 0, "munmap: {}", io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn anonymous_mappings_start_where_asked() {
        for align in [base_page_bytes(), 2 << 20, 64 << 20] {
            let mapping = Mapping::anonymous(1 << 20, align).unwrap();
            assert!((mapping.start().as_ptr() as usize).is_multiple_of(align));
            mapping.populate().unwrap();
        }
    }

    #[test]
    fn populating_reaches_every_page() {
        let mapping = Mapping::anonymous(1 << 20, base_page_bytes()).unwrap();
        mapping.populate().unwrap();
        let mut resident = vec![0u8; mapping.len() / base_page_bytes()];
        // SAFETY: one byte per page of the range, as mincore(2) demands.
        let rc = unsafe {
            libc::mincore(
                mapping.start().as_ptr().cast(),
                mapping.len(),
                resident.as_mut_ptr(),
            )
        };
        assert_eq!(rc, 0);
        assert!(resident.iter().all(|page| page & 1 == 1));
    }

    /// Else a query that allocates would wait for a pool that is being made.
    #[test]
    fn others_map_memory_while_it_populates() {
        let mapping = Mapping::anonymous(256 << 20, base_page_bytes()).unwrap();
        mapping.advise_small();
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut mapped = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begun.store(true, Ordering::SeqCst);
                mapping.populate().unwrap();
                ended.store(true, Ordering::SeqCst);
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            while !ended.load(Ordering::SeqCst) {
                drop(Mapping::anonymous(1 << 20, base_page_bytes()).unwrap());
                mapped += 1;
            }
        });
        // Some begin before it does, and one ends after it.
        assert!(mapped > 100, "{mapped}");
    }

    #[test]
    fn an_impossible_length_is_refused() {
        let len = usize::MAX / 2 / base_page_bytes() * base_page_bytes();
        let error = Mapping::anonymous(len, base_page_bytes()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }
}
