//! What happened on a disk over time: samples of the whole run, as many at the most as a
//! chart has room for.

use iolane_protocol::LEVELS;
use iolane_sched::{RateUnit, WindowState};
use serde::Serialize;

use crate::statistics::Ended;

/// More than a chart shows. When there are so many, two become one, and the next ones
/// are twice as long.
const SAMPLES_MAX: usize = 240;
/// How long the first ones are.
const INTERVAL_NS: u64 = 500_000_000;

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Since the start of the run.
    pub from_ns: u64,
    /// How long it is.
    pub length_ns: u64,
    /// Transfers that lower levels may have in flight, at its end.
    pub window_transfers: f64,
    /// The volume's budget in a second, if one was recognised at its end.
    pub rate_limit: Option<f64>,
    /// Whether that is of bytes, not of requests.
    pub rate_limit_is_bytes: bool,
    /// Requests that ended, by level from `critical` to `background`.
    pub requests: [u64; LEVELS],
    /// Bytes of them.
    pub bytes: [u64; LEVELS],
    /// From asking to the end, all of them together.
    pub total_ns: [u64; LEVELS],
    /// Those that had sunk.
    pub sunk: u64,
    /// Those that came with a lower level and were promoted.
    pub promoted: u64,
}

impl Sample {
    fn end_ns(&self) -> u64 {
        self.from_ns + self.length_ns
    }

    /// Both as one; `next` follows.
    fn with(&self, next: &Sample) -> Sample {
        let sum = |one: &[u64; LEVELS], other: &[u64; LEVELS]| {
            std::array::from_fn(|level| one[level] + other[level])
        };
        Sample {
            from_ns: self.from_ns,
            length_ns: next.end_ns() - self.from_ns,
            requests: sum(&self.requests, &next.requests),
            bytes: sum(&self.bytes, &next.bytes),
            total_ns: sum(&self.total_ns, &next.total_ns),
            sunk: self.sunk + next.sunk,
            promoted: self.promoted + next.promoted,
            ..*next
        }
    }
}

/// Of one disk.
pub struct Course {
    samples: Vec<Sample>,
    interval_ns: u64,
    now: Sample,
}

impl Course {
    /// Begins so long after the start of the run.
    pub fn new(at_ns: u64) -> Course {
        Course {
            samples: Vec::with_capacity(SAMPLES_MAX),
            interval_ns: INTERVAL_NS,
            now: Sample {
                from_ns: at_ns,
                ..Sample::default()
            },
        }
    }

    /// A request has ended.
    pub fn record(&mut self, level: u8, ended: &Ended) {
        let level = usize::from(level).min(LEVELS - 1);
        self.now.requests[level] += 1;
        self.now.bytes[level] += ended.bytes;
        self.now.total_ns[level] += ended.queued_ns + ended.device_ns;
        self.now.sunk += u64::from(ended.sunk);
        self.now.promoted += u64::from(ended.promoted);
    }

    /// Whether it is time for a sample, so long after the start of the run.
    pub fn is_due(&self, at_ns: u64) -> bool {
        at_ns >= self.now.from_ns + self.interval_ns
    }

    /// Takes one if it is.
    pub fn advance(&mut self, at_ns: u64, window: &WindowState) {
        if !self.is_due(at_ns) {
            return;
        }
        self.samples.push(self.until(at_ns, window));
        self.now = Sample {
            from_ns: at_ns,
            ..Sample::default()
        };
        if self.samples.len() == SAMPLES_MAX {
            self.samples = self
                .samples
                .chunks(2)
                .map(|pair| pair[0].with(&pair[pair.len() - 1]))
                .collect();
            self.interval_ns *= 2;
        }
    }

    /// What there is, up to so long after the start of the run.
    pub fn samples(&self, at_ns: u64, window: &WindowState) -> Vec<Sample> {
        let mut samples = self.samples.clone();
        if at_ns > self.now.from_ns {
            samples.push(self.until(at_ns, window));
        }
        samples
    }

    fn until(&self, at_ns: u64, window: &WindowState) -> Sample {
        let limit = window.rate_limit.as_ref();
        Sample {
            length_ns: at_ns - self.now.from_ns,
            window_transfers: window.transfers,
            rate_limit: limit.map(|limit| limit.per_second),
            rate_limit_is_bytes: limit.is_some_and(|limit| limit.unit == RateUnit::Bytes),
            ..self.now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(transfers: f64) -> WindowState {
        WindowState {
            transfers,
            service_ns: 0,
            rate_limit: None,
            unflushed_max: None,
        }
    }

    fn ended(bytes: u64, sunk: bool, promoted: bool) -> Ended {
        Ended {
            bytes,
            queued_ns: 4,
            device_ns: 6,
            failed: false,
            sunk,
            promoted,
        }
    }

    #[test]
    fn a_long_run_keeps_all_counts_in_few_samples() {
        const BEGIN_NS: u64 = 7;
        let mut course = Course::new(BEGIN_NS);
        let steps = 10_000;
        for step in 1..=steps {
            course.record(1, &ended(4096, step % 2 == 0, step % 4 == 1));
            course.advance(BEGIN_NS + step * 100_000_000, &window(step as f64));
        }
        course.record(4, &ended(1, false, false));
        let end_ns = BEGIN_NS + steps * 100_000_000 + 1;
        let samples = course.samples(end_ns, &window(3.0));
        assert!(samples.len() <= SAMPLES_MAX && samples.len() >= SAMPLES_MAX / 2);
        let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum::<u64>();
        assert_eq!(sum(|sample| sample.requests[1]), steps);
        assert_eq!(sum(|sample| sample.bytes[1]), steps * 4096);
        assert_eq!(sum(|sample| sample.requests[4]), 1);
        assert_eq!(sum(|sample| sample.sunk), steps / 2);
        assert_eq!(sum(|sample| sample.promoted), steps / 4);
        assert_eq!(sum(|sample| sample.length_ns), end_ns - BEGIN_NS);
        let joined = samples
            .windows(2)
            .all(|two| two[0].end_ns() == two[1].from_ns);
        assert!(joined && samples[0].from_ns == BEGIN_NS);
        assert_eq!(samples.last().unwrap().window_transfers, 3.0);
    }
}
