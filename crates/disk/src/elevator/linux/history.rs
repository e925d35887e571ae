//! What is known of a process: how long it thinks, how far it seeks.
//!
//! Iyer and Druschel ("Anticipatory scheduling", SOSP 2001, section 4) estimate
//! both per process with decaying averages. Linux's `anticipatory` and `cfq`
//! keep the same two, with a weight of 1/8 for the newest sample
//! (Documentation/block/as-iosched.txt, "Read anticipation").

/// Weight of the newest sample.
const NEWEST: f64 = 1.0 / 8.0;

/// A mean in which older samples count less and less.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecayingMean {
    sum: f64,
    weight: f64,
    samples: u32,
}

impl DecayingMean {
    pub fn record(&mut self, sample: u64) {
        self.sum += (sample as f64 - self.sum) * NEWEST;
        self.weight += (1.0 - self.weight) * NEWEST;
        self.samples = self.samples.saturating_add(1);
    }

    /// The mean, once there are `samples_min` samples.
    pub fn get(&self, samples_min: u32) -> Option<u64> {
        (self.samples >= samples_min.max(1)).then(|| (self.sum / self.weight) as u64)
    }
}

/// One process.
#[derive(Clone, Copy, Debug, Default)]
pub struct History {
    /// From the end of its last request to its next one, in nanoseconds.
    pub think_ns: DecayingMean,
    /// From the end of one of its requests to the start of the next, in bytes.
    pub seek_bytes: DecayingMean,
    last_end: Option<u64>,
    finished_ns: Option<u64>,
    outstanding: u32,
}

impl History {
    /// A request of the process comes. A think time longer than `think_max_ns`
    /// counts as that, so that one long pause does not count for ever.
    pub fn submitted(&mut self, now_ns: u64, start: u64, end: u64, think_max_ns: u64) {
        // While others are under way, the process does not think.
        if self.outstanding == 0
            && let Some(finished_ns) = self.finished_ns
        {
            self.think_ns
                .record((now_ns - finished_ns).min(think_max_ns));
        }
        if let Some(last_end) = self.last_end {
            self.seek_bytes.record(start.abs_diff(last_end));
        }
        self.last_end = Some(end);
        self.outstanding += 1;
    }

    pub fn finished(&mut self, now_ns: u64) {
        self.outstanding -= 1;
        self.finished_ns = Some(now_ns);
    }

    /// Requests of the process that have not ended.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
}
