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

/// Keeps the calling thread, and those that it starts, on one of them. False where
/// that is refused.
pub fn stay_on(processor: usize) -> bool {
    stay_within(&[processor])
}

/// On some of them. False where that is refused, as if there is none.
fn stay_within(processors: &[usize]) -> bool {
    if processors
        .iter()
        .any(|&one| one >= libc::CPU_SETSIZE as usize)
    {
        return false;
    }
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &processor in processors {
        // SAFETY: the number is below the set's length.
        unsafe { libc::CPU_SET(processor, &mut set) };
    }
    // SAFETY: valid for reading so many bytes during the call.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) == 0 }
}

/// Keeps the calling thread, and those that it starts meanwhile, on one processor
/// until it is dropped, in that thread.
#[derive(Debug)]
pub struct OnOne {
    processor: usize,
    before: Vec<usize>,
}

impl OnOne {
    /// On the last of those that the thread may run on; the first have more
    /// interrupts. `None` if there is only one, or that is refused.
    pub fn of_several() -> Option<OnOne> {
        let before = allowed_processors();
        let (&processor, others) = before.split_last()?;
        let is_kept = !others.is_empty() && stay_on(processor);
        is_kept.then_some(OnOne { processor, before })
    }

    pub fn processor(&self) -> usize {
        self.processor
    }
}

impl Drop for OnOne {
    fn drop(&mut self) {
        // What was allowed before is refused if it was taken away meanwhile: then
        // there is nothing to go back to.
        stay_within(&self.before);
    }
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

    #[test]
    fn a_thread_goes_back_to_where_it_was() {
        let seen = std::thread::spawn(|| {
            let all = allowed_processors();
            let one = OnOne::of_several();
            let kept = allowed_processors();
            match &one {
                Some(one) => assert_eq!(kept, [one.processor()]),
                None => assert_eq!(all.len(), 1),
            }
            assert!(OnOne::of_several().is_none(), "there is only one now");
            drop(one);
            assert_eq!(allowed_processors(), all);
        });
        seen.join().unwrap();
    }
}
