//! Which processors a thread runs on (`sched_setaffinity(2)`).

/// The processors that the calling thread may run on, by number. Empty where
/// the kernel does not say, as with more than 1024 of them.
pub fn allowed_processors() -> Vec<usize> {
    // SAFETY: a set of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: valid for writing so many bytes during the call; 0 is the calling
    // thread.
    let refused = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    if refused != 0 {
        return Vec::new();
    }
    // SAFETY: the numbers are below the set's length.
    let is_in = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
}

/// Keeps the calling thread on one of them. False where that is refused.
pub fn stay_on(processor: usize) -> bool {
    if processor >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's length.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: valid for reading so many bytes during the call.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_was_put() {
        let all = allowed_processors();
        assert!(!all.is_empty());
        let last = all[all.len() - 1];
        let seen = std::thread::spawn(move || (stay_on(last), allowed_processors()));
        assert_eq!(seen.join().unwrap(), (true, vec![last]));
        assert!(!stay_on(usize::MAX));
        assert_eq!(allowed_processors(), all);
    }
}
