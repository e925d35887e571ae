//! What is measured while a simulation runs.

use hdrhistogram::Histogram;

/// Longest latency that is told apart from longer ones: an hour.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// Precision of latencies, in decimal digits.
const LATENCY_DIGITS: u8 = 3;

/// A number that changes with time, and its mean over time.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    value: u64,
    since_ns: u64,
    integral: u128,
}

impl Gauge {
    pub fn set(&mut self, now_ns: u64, value: u64) {
        self.settle(now_ns);
        self.value = value;
    }

    pub fn value(&self) -> u64 {
        self.value
    }

    pub fn settle(&mut self, now_ns: u64) {
        self.integral += u128::from(self.value) * u128::from(now_ns - self.since_ns);
        self.since_ns = now_ns;
    }

    /// Forgets all but the present value.
    pub fn restart(&mut self, now_ns: u64) {
        self.settle(now_ns);
        self.integral = 0;
    }

    pub fn mean(&self, duration_ns: u64) -> f64 {
        self.integral as f64 / duration_ns as f64
    }
}

/// How long a number had each of its values.
#[derive(Clone, Debug)]
pub struct Occupancy {
    value: usize,
    since_ns: u64,
    /// By value; the last place is for that and all above.
    time_ns: Vec<u64>,
}

impl Occupancy {
    pub fn new(value_max: usize) -> Occupancy {
        Occupancy {
            value: 0,
            since_ns: 0,
            time_ns: vec![0; value_max + 1],
        }
    }

    pub fn set(&mut self, now_ns: u64, value: usize) {
        self.settle(now_ns);
        self.value = value;
    }

    pub fn settle(&mut self, now_ns: u64) {
        let place = self.value.min(self.time_ns.len() - 1);
        self.time_ns[place] += now_ns - self.since_ns;
        self.since_ns = now_ns;
    }

    pub fn restart(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.time_ns.fill(0);
    }

    /// Share of the time at each value, up to the highest that occurred.
    pub fn shares(&self) -> Vec<f64> {
        let total: u64 = self.time_ns.iter().sum();
        let highest = self.time_ns.iter().rposition(|&time_ns| time_ns > 0);
        self.time_ns[..highest.map_or(0, |highest| highest + 1)]
            .iter()
            .map(|&time_ns| time_ns as f64 / total as f64)
            .collect()
    }
}

/// Where the time of one operation went.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// From the wish to its end.
    pub latency_ns: u64,
    /// In the elevator.
    pub queued_ns: u64,
    /// In the disk.
    pub disk_ns: u64,
}

/// Operations of one stream.
#[derive(Clone, Debug)]
pub struct Meter {
    pub operations: u64,
    pub bytes: u64,
    pub refused: u64,
    pub latency: Histogram<u64>,
    pub latency_sum_ns: u128,
    pub queued_sum_ns: u128,
    pub disk_sum_ns: u128,
    pub outstanding: Gauge,
    /// Every operation, if it is asked for.
    pub trace: Option<Vec<Ended>>,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When, in nanoseconds since the beginning.
    pub at_ns: u64,
    /// From the wish to its end.
    pub latency_ns: u64,
}

impl Meter {
    pub fn new() -> Meter {
        Meter {
            operations: 0,
            bytes: 0,
            refused: 0,
            latency: Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
                .expect("the bounds are in range"),
            latency_sum_ns: 0,
            queued_sum_ns: 0,
            disk_sum_ns: 0,
            outstanding: Gauge::default(),
            trace: None,
        }
    }

    pub fn begin(&mut self, now_ns: u64, count: u32) {
        let value = self.outstanding.value() + u64::from(count);
        self.outstanding.set(now_ns, value);
    }

    pub fn end(&mut self, now_ns: u64, bytes: u32, spent: Spent) {
        self.operations += 1;
        self.bytes += u64::from(bytes);
        self.latency.saturating_record(spent.latency_ns);
        self.latency_sum_ns += u128::from(spent.latency_ns);
        self.queued_sum_ns += u128::from(spent.queued_ns);
        self.disk_sum_ns += u128::from(spent.disk_ns);
        if let Some(trace) = &mut self.trace {
            trace.push(Ended {
                at_ns: now_ns,
                latency_ns: spent.latency_ns,
            });
        }
        let value = self.outstanding.value() - 1;
        self.outstanding.set(now_ns, value);
    }

    /// Forgets what has ended; what is outstanding stays.
    pub fn restart(&mut self, now_ns: u64) {
        self.operations = 0;
        self.bytes = 0;
        self.refused = 0;
        self.latency.reset();
        self.latency_sum_ns = 0;
        self.queued_sum_ns = 0;
        self.disk_sum_ns = 0;
        self.outstanding.restart(now_ns);
        if let Some(trace) = &mut self.trace {
            trace.clear();
        }
    }
}
