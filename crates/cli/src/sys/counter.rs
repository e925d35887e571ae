//! One event counter of the calling thread, through `perf_event_open(2)`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// `perf_event_attr` as first published (`PERF_ATTR_SIZE_VER0`), which every
/// kernel takes; `linux/perf_event.h`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_HW_CACHE: u32 = 3;
const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
/// Data TLB (3), loads (0), misses (1).
const DTLB_LOAD_MISSES: u64 = 3 | (1 << 16);
/// `TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING`.
const READ_FORMAT_TIMES: u64 = 1 | 2;
const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `_IO('$', 0)` and `_IO('$', 1)`.
const IOC_ENABLE: u64 = 0x2400;
const IOC_DISABLE: u64 = 0x2401;

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Loads whose address was in no level of the data TLB.
    DtlbLoadMisses,
    /// Page faults; counted by the kernel, so there on every machine.
    PageFaults,
}

/// Counts one event in user mode of the thread that opened it.
#[derive(Debug)]
pub struct Counter {
    file: File,
}

impl Counter {
    /// Opens the counter, which stands still until [`count`](Self::count).
    ///
    /// # Errors
    /// `ENOENT` or `EOPNOTSUPP` where the processor, or the virtual machine,
    /// has no such counter; `EACCES` where `kernel.perf_event_paranoid` forbids
    /// it.
    pub fn open(event: Event) -> io::Result<Self> {
        let (kind, config) = match event {
            Event::DtlbLoadMisses => (PERF_TYPE_HW_CACHE, DTLB_LOAD_MISSES),
            Event::PageFaults => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS),
        };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            read_format: READ_FORMAT_TIMES,
            flags: FLAG_DISABLED | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        };
        const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
        // SAFETY: `attributes` lives over the call, and says its own size.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                0 as libc::pid_t,
                -1 as libc::c_int,
                -1 as libc::c_int,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just made, which nobody else owns.
        let file = unsafe { File::from_raw_fd(fd as libc::c_int) };
        Ok(Counter { file })
    }

    /// Events during `work`, scaled up where the kernel had to share the
    /// counter with others.
    ///
    /// # Errors
    /// What the kernel answers; or when the counter never ran.
    pub fn count<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<(T, u64)> {
        let before = self.read()?;
        self.control(IOC_ENABLE)?;
        let result = work();
        self.control(IOC_DISABLE)?;
        let after = self.read()?;
        let [events, enabled_ns, running_ns] = std::array::from_fn(|at| after[at] - before[at]);
        if running_ns == 0 {
            return Err(io::Error::other(
                "another user kept the counter all the time",
            ));
        }
        let scaled = u128::from(events) * u128::from(enabled_ns) / u128::from(running_ns);
        Ok((result, scaled as u64))
    }

    fn read(&mut self) -> io::Result<[u64; 3]> {
        let mut bytes = [0; 24];
        self.file.read_exact(&mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
        Ok([word(0), word(1), word(2)])
    }

    fn control(&self, request: u64) -> io::Result<()> {
        // SAFETY: these two requests take an integer, no pointer.
        let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, 0) };
        if rc < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn page_faults_are_counted_only_while_asked() {
        let mut counter = match Counter::open(Event::PageFaults) {
            Ok(counter) => counter,
            Err(error) => {
                // Containers forbid the system call as a whole.
                let forbidden = [libc::EACCES, libc::EPERM, libc::ENOSYS];
                assert!(
                    forbidden.contains(&error.raw_os_error().unwrap()),
                    "{error}"
                );
                iolane_testing::skipped(error);
                return;
            }
        };
        // Fresh memory from the kernel: at least one fault per huge page.
        let touch = || black_box(vec![1u8; 32 << 20]);
        let (_, faults) = counter.count(touch).unwrap();
        assert!(faults >= 16, "{faults}");
        touch();
        let ((), none) = counter.count(|| ()).unwrap();
        assert!(none < 16, "{none}");
    }

    #[test]
    fn a_missing_counter_is_an_error() {
        match Counter::open(Event::DtlbLoadMisses) {
            Ok(mut counter) => drop(counter.count(|| black_box(1)).unwrap()),
            Err(error) => assert!(error.raw_os_error().is_some()),
        }
    }
}
