//! A buffer cache in shared memory, and child processes that map and touch it:
//! a multi-process database in small, to see what its page tables cost.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// A child that has not answered by then never will.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Which pages the shared mapping asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPages {
    /// Base pages.
    Plain,
    /// Transparent huge pages, as far as `shmem_enabled` lets the kernel.
    Transparent,
    /// hugetlb pages of this size, a power of two.
    HugeTlb {
        /// Bytes of one page.
        page_bytes: u64,
    },
}

/// Anonymous shared memory, populated; unmapped on drop.
///
/// Base pages have last-level page tables that describe nothing else.
/// Otherwise some of their entries would find room in tables that a child has
/// already, for what lies beside the cache, and the growth that is measured
/// would come out too small.
#[derive(Debug)]
pub struct SharedCache {
    start: NonNull<u8>,
    len: usize,
    /// With room on both sides that is never touched.
    _mapping: Mapping,
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl SharedCache {
    /// Maps `len` bytes, a multiple of the page size, and brings them in.
    ///
    /// # Errors
    /// `ENOMEM` when there are not enough (huge) pages.
    pub fn map(len: usize, pages: SharedPages) -> io::Result<Self> {
        let size_flags = match pages {
            SharedPages::HugeTlb { page_bytes } => {
                let log2 = page_bytes.trailing_zeros();
                libc::MAP_HUGETLB | (log2 << libc::MAP_HUGE_SHIFT) as libc::c_int
            }
            SharedPages::Plain | SharedPages::Transparent => 0,
        };
        // The kernel aligns huge pages by itself, and would reserve some for
        // the room on the sides.
        let alignment = match pages {
            SharedPages::HugeTlb { .. } => 1,
            SharedPages::Plain | SharedPages::Transparent => table_maps_bytes(),
        };
        let mapped_len = len + 2 * (alignment - 1);
        // SAFETY: without MAP_FIXED the kernel picks unused addresses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | size_flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("mmap never maps address 0 by itself");
        let mapping = Mapping {
            start,
            len: mapped_len,
        };
        let address = start.as_ptr() as usize;
        let gap = address.next_multiple_of(alignment) - address;
        let cache = SharedCache {
            // SAFETY: less than `alignment` from the start, and so inside.
            start: unsafe { start.add(gap) },
            len,
            _mapping: mapping,
        };
        match pages {
            // A kernel without transparent huge pages refuses both advices
            // with EINVAL, and gives base pages either way.
            SharedPages::Plain => drop(cache.advise(libc::MADV_NOHUGEPAGE)),
            SharedPages::Transparent => drop(cache.advise(libc::MADV_HUGEPAGE)),
            SharedPages::HugeTlb { .. } => {}
        }
        cache.populate()?;
        Ok(cache)
    }

    /// The addresses of the mapping, to find it in `/proc/self/smaps`.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.len
    }

    fn populate(&self) -> io::Result<()> {
        loop {
            let Err(error) = self.advise(libc::MADV_POPULATE_WRITE) else {
                return Ok(());
            };
            match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => {}
                // Before Linux 5.14: the touch of the children does it.
                Some(libc::EINVAL) => return Ok(()),
                _ => return Err(error),
            }
        }
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: inside the mapping; no advice used here discards contents.
        let rc = unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, advice) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this value, and only its children use it, each in
        // an address space of its own.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A child process that shares the cache; killed and reaped on drop.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    channel: UnixStream,
}

impl Child {
    /// Forks a child, which waits and has touched nothing of the cache yet.
    ///
    /// # Errors
    /// When the kernel refuses a process or a socket.
    pub fn start(cache: &SharedCache) -> io::Result<Self> {
        let (channel, childs_end) = UnixStream::pair()?;
        channel.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let fd = childs_end.as_raw_fd();
        let stride = base_page_bytes();
        // SAFETY: the child calls only async-signal-safe functions, as it must
        // when this process has other threads, and leaves by _exit.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child; `cache` and `fd` are inherited.
            0 => unsafe { child(cache.start.as_ptr(), cache.len, stride, fd) },
            _ => Ok(Child { pid, channel }),
        }
    }

    /// Process number, as in `/proc`.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Has the child read one byte of every page; returns when it is done.
    ///
    /// # Errors
    /// When the child died or does not answer.
    pub fn touch(&mut self) -> io::Result<()> {
        self.channel.write_all(b"t")?;
        self.channel.read_exact(&mut [0])
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: `pid` is our own child, not reaped before, so the number
        // cannot have passed to another process.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(self.pid, ptr::null_mut(), 0) == -1
                && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
            {}
        }
    }
}

/// What the child does: touches the cache for every byte that comes.
///
/// # Safety
/// `start` and `len` are a readable mapping; only to be called after fork.
unsafe fn child(start: *const u8, len: usize, stride: usize, fd: libc::c_int) -> ! {
    // SAFETY: an integer argument only. The parent's end is the child's too,
    // so that no process stays behind when the parent is killed.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut byte = 0u8;
    // SAFETY: `byte` is writable for the one byte asked for.
    while unsafe { libc::read(fd, (&raw mut byte).cast(), 1) } == 1 {
        for offset in (0..len).step_by(stride) {
            // SAFETY: inside the mapping, by the caller's promise.
            byte ^= unsafe { start.add(offset).read_volatile() };
        }
        // SAFETY: `byte` is readable for the one byte written.
        unsafe { libc::write(fd, (&raw const byte).cast(), 1) };
    }
    // SAFETY: ends this process without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

/// How much one last-level page table maps: it is one base page of entries of
/// 8 bytes.
fn table_maps_bytes() -> usize {
    base_page_bytes() / 8 * base_page_bytes()
}

/// Base page size: 4 KiB, on aarch64 also 16 or 64 KiB.
pub fn base_page_bytes() -> usize {
    // SAFETY: sysconf has no memory preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("POSIX requires _SC_PAGESIZE")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_child_answers_and_is_gone_after_drop() {
        let cache = SharedCache::map(1 << 20, SharedPages::Plain).unwrap();
        let mut child = Child::start(&cache).unwrap();
        child.touch().unwrap();
        child.touch().unwrap();
        let proc = format!("/proc/{}", child.pid());
        assert!(Path::new(&proc).exists());
        drop(child);
        assert!(!Path::new(&proc).exists());
    }

    #[test]
    fn nothing_else_is_in_the_page_tables() {
        let table_bytes = table_maps_bytes();
        for len in [base_page_bytes(), table_bytes + base_page_bytes()] {
            let cache = SharedCache::map(len, SharedPages::Plain).unwrap();
            let own = cache.addresses();
            assert!(own.start.is_multiple_of(table_bytes));
            let mapped = cache._mapping.start.as_ptr() as usize;
            let mapped = mapped..mapped + cache._mapping.len;
            assert!(mapped.start <= own.start);
            assert!(own.end.next_multiple_of(table_bytes) <= mapped.end);
        }
    }

    #[test]
    fn too_many_huge_pages_are_refused() {
        let page_bytes = 2 << 20;
        let error = SharedCache::map(1 << 43, SharedPages::HugeTlb { page_bytes }).unwrap_err();
        assert!(matches!(
            error.raw_os_error(),
            Some(libc::ENOMEM | libc::EINVAL)
        ));
    }
}
