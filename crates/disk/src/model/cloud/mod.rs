//! A rate-limited volume on a network.
//!
//! Commands pass a limiter in the order in which they come, then take a time
//! of network and service that is drawn anew for each, side by side with all
//! others. The limiter is two pairs of token buckets, one counting I/Os, one
//! bytes: the first of a pair bounds the rate at any instant, the second, with
//! its credits, what is sustained. Reads and writes share them, or have such
//! a limiter each.
//!
//! What is announced as written is durable: the vendors' volumes have no
//! volatile cache. A flush has nothing to wait for, and passes no limiter.
//!
//! Not modelled: limits of the machine rather than the volume, the merging of
//! small sequential I/Os into one that some vendors do before they count,
//! outages.

mod bucket;
mod parameters;
mod presets;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use parameters::CloudParameters;

use super::seeded::Seeded;
use super::{Command, Done, Kind, Model, ParameterError, assert_valid};
use bucket::Bucket;

/// The standard normal distribution's 99 % quantile.
const NORMAL_P99: f64 = 2.326_347_874;

/// A lognormal latency.
struct Latency {
    median_ns: f64,
    deviation: f64,
}

impl Latency {
    fn new(median_us: f64, p99_us: f64) -> Latency {
        Latency {
            median_ns: median_us * 1e3,
            deviation: (p99_us / median_us).ln() / NORMAL_P99,
        }
    }

    fn draw_ns(&self, chance: &mut Seeded) -> u64 {
        (self.median_ns * (self.deviation * chance.normal()).exp()).round() as u64
    }
}

/// A command under way, by the time of its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ending {
    at_ns: u64,
    /// Ties end in the order of submission, so that runs repeat.
    number: u64,
    tag: u32,
}

/// The buckets that a command has to pass.
struct Limiter {
    ios: [Bucket; 2],
    bytes: [Bucket; 2],
}

impl Limiter {
    fn new(parameters: &CloudParameters) -> Limiter {
        let byte = 1e6;
        Limiter {
            ios: [
                Bucket::new(parameters.iops_burst, parameters.iops_at_once),
                Bucket::new(parameters.iops, parameters.iops_credits),
            ],
            bytes: [
                Bucket::new(
                    parameters.mb_per_second_burst * byte,
                    parameters.mb_at_once * byte,
                ),
                Bucket::new(
                    parameters.mb_per_second * byte,
                    parameters.mb_credits * byte,
                ),
            ],
        }
    }

    /// When so much has passed all of them.
    fn pass(&mut self, now_ns: u64, ios: f64, bytes: f64) -> u64 {
        let mut passed_ns = now_ns;
        for bucket in &mut self.ios {
            passed_ns = passed_ns.max(bucket.take(now_ns, ios));
        }
        for bucket in &mut self.bytes {
            passed_ns = passed_ns.max(bucket.take(now_ns, bytes));
        }
        passed_ns
    }
}

/// A rate-limited volume. See the module's description.
pub struct Cloud {
    parameters: CloudParameters,
    /// Of reads and of writes; the first of both, if they share it.
    limiters: [Limiter; 2],
    read_latency: Latency,
    write_latency: Latency,
    endings: BinaryHeap<Reverse<Ending>>,
    submitted: u64,
    foreseen_ns: Option<u64>,
    chance: Seeded,
}

impl Cloud {
    /// # Errors
    /// [`ParameterError`] for parameters of no possible volume.
    pub fn new(parameters: CloudParameters, seed: u64) -> Result<Cloud, ParameterError> {
        parameters.validate()?;
        Ok(Cloud {
            limiters: [Limiter::new(&parameters), Limiter::new(&parameters)],
            read_latency: Latency::new(parameters.read_median_us, parameters.read_p99_us),
            write_latency: Latency::new(parameters.write_median_us, parameters.write_p99_us),
            endings: BinaryHeap::with_capacity(parameters.queue_max),
            submitted: 0,
            foreseen_ns: None,
            chance: Seeded::new(seed),
            parameters,
        })
    }

    /// When a command of so many bytes has passed the limiter.
    fn pass_limiter(&mut self, now_ns: u64, kind: Kind, bytes: u32) -> u64 {
        let ios = f64::from(bytes.div_ceil(self.parameters.io_unit_bytes));
        let second = self.parameters.each_way && kind == Kind::Write;
        self.limiters[usize::from(second)].pass(now_ns, ios, f64::from(bytes))
    }
}

impl Model for Cloud {
    fn capacity_bytes(&self) -> u64 {
        self.parameters.capacity_bytes
    }

    fn queue_max(&self) -> usize {
        self.parameters.queue_max
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        assert_valid(self, self.endings.len(), &command);
        let at_ns = match command.kind {
            Kind::Flush => now_ns,
            Kind::Read => {
                let latency_ns = self.read_latency.draw_ns(&mut self.chance);
                self.pass_limiter(now_ns, command.kind, command.length) + latency_ns
            }
            Kind::Write => {
                let latency_ns = self.write_latency.draw_ns(&mut self.chance);
                self.pass_limiter(now_ns, command.kind, command.length) + latency_ns
            }
        };
        self.submitted += 1;
        self.foreseen_ns = Some(at_ns);
        self.endings.push(Reverse(Ending {
            at_ns,
            number: self.submitted,
            tag: command.tag,
        }));
    }

    fn foreseen_ns(&self) -> Option<u64> {
        self.foreseen_ns
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.endings.peek().map(|ending| ending.0.at_ns)
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some(&Reverse(ending)) = self.endings.peek()
            && ending.at_ns <= now_ns
        {
            self.endings.pop();
            done.push(Done {
                tag: ending.tag,
                at_ns: ending.at_ns,
            });
        }
    }
}
