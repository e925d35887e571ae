//! CPU time used, from `getrusage(2)`.

use std::io;
use std::mem::MaybeUninit;

/// CPU time and context switches up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub user_ns: u64,
    pub system_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// Of all threads of this process, ended ones included.
pub fn process() -> io::Result<Usage> {
    usage_of(libc::RUSAGE_SELF)
}

/// Of the calling thread.
pub fn thread() -> io::Result<Usage> {
    usage_of(libc::RUSAGE_THREAD)
}

fn usage_of(who: libc::c_int) -> io::Result<Usage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable and of the size that getrusage(2) fills.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: getrusage succeeded and has filled the struct, which is plain
    // integers and was zeroed before.
    let usage = unsafe { usage.assume_init() };
    Ok(Usage {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        voluntary_switches: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
        involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
    })
}

fn nanoseconds(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds * 1_000_000_000 + microseconds * 1_000
}
