//! One die: reads as they come, and one program or erase beside them.

/// Times of a die, in nanoseconds, and how long it is disturbed.
pub(super) struct DieTimes {
    pub(super) suspend_ns: u64,
    pub(super) suspends_max: u32,
}

#[derive(Clone, Default)]
pub(super) struct Die {
    /// The last read that was given to the die ends then.
    reads_end_ns: u64,
    /// The last program, copy or erase begins and ends then, as it looks now:
    /// a read may still push it back.
    slow_start_ns: u64,
    slow_end_ns: u64,
    /// Reads that the slow operation has let pass.
    suspends: u32,
    /// Bytes that garbage collection still has to copy on this die.
    pub(super) copy_debt_bytes: f64,
    /// Bytes programmed since the last erase: a block must be erased for every
    /// block that was filled.
    pub(super) erase_debt_bytes: u64,
}

impl Die {
    /// A read that takes `read_ns`, given to the die at `now_ns`; returns when
    /// its page is ready.
    pub(super) fn read(&mut self, now_ns: u64, read_ns: u64, times: &DieTimes) -> u64 {
        let mut start_ns = now_ns.max(self.reads_end_ns);
        if start_ns < self.slow_end_ns {
            if self.suspends < times.suspends_max {
                start_ns = self.pass(start_ns, read_ns, times.suspend_ns);
            } else {
                start_ns = self.slow_end_ns;
            }
        }
        self.reads_end_ns = start_ns + read_ns;
        self.reads_end_ns
    }

    /// Lets a read go before the slow operation; returns when it starts.
    fn pass(&mut self, start_ns: u64, read_ns: u64, suspend_ns: u64) -> u64 {
        self.suspends += 1;
        // A slow operation that has not begun, or that a read before this one
        // holds back still, need not be interrupted.
        let running = start_ns > self.slow_start_ns && start_ns != self.reads_end_ns;
        if running {
            self.slow_end_ns += suspend_ns + read_ns;
            return start_ns + suspend_ns;
        }
        self.slow_start_ns = self.slow_start_ns.max(start_ns + read_ns);
        self.slow_end_ns += read_ns;
        start_ns
    }

    /// A program, copy or erase that takes `slow_ns`; returns when it would
    /// end. There is none before it.
    pub(super) fn begin_slow(&mut self, now_ns: u64, slow_ns: u64) -> u64 {
        self.slow_start_ns = now_ns.max(self.reads_end_ns);
        self.slow_end_ns = self.slow_start_ns + slow_ns;
        self.suspends = 0;
        self.slow_end_ns
    }

    /// When the slow operation ends, after what has pushed it back.
    pub(super) fn slow_end_ns(&self) -> u64 {
        self.slow_end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: DieTimes = DieTimes {
        suspend_ns: 10,
        suspends_max: 2,
    };

    #[test]
    fn reads_queue_behind_each_other() {
        let mut die = Die::default();
        assert_eq!(die.read(100, 50, &TIMES), 150);
        assert_eq!(die.read(120, 50, &TIMES), 200);
        assert_eq!(die.read(300, 50, &TIMES), 350);
    }

    #[test]
    fn a_read_interrupts_a_program_and_the_program_ends_later() {
        let mut die = Die::default();
        assert_eq!(die.begin_slow(0, 1000), 1000);
        assert_eq!(die.read(500, 50, &TIMES), 560);
        assert_eq!(die.slow_end_ns(), 1060);
        // One more waits for the first, while the program is aside already.
        assert_eq!(die.read(505, 50, &TIMES), 610);
        assert_eq!(die.slow_end_ns(), 1110);
        // The program has been held up often enough.
        assert_eq!(die.read(700, 50, &TIMES), 1160);
    }

    #[test]
    fn without_suspension_a_read_waits_for_the_end() {
        let mut die = Die::default();
        let times = DieTimes {
            suspends_max: 0,
            ..TIMES
        };
        die.begin_slow(0, 1000);
        assert_eq!(die.read(1, 50, &times), 1050);
        assert_eq!(die.slow_end_ns(), 1000);
    }

    #[test]
    fn a_program_waits_for_the_reads_before_it() {
        let mut die = Die::default();
        die.read(0, 50, &TIMES);
        assert_eq!(die.begin_slow(10, 1000), 1050);
        // It has not begun: a read goes first, and costs it only its own time.
        assert_eq!(die.read(20, 50, &TIMES), 100);
        assert_eq!(die.slow_end_ns(), 1100);
    }
}
