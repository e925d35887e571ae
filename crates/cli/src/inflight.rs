//! What the kernel sees while a phase runs: requests in the device, and CPU
//! time of this process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::sys::usage::{self, Usage};
use crate::system::SystemPaths;

/// Between two looks. A look costs some microseconds.
const INTERVAL: Duration = Duration::from_millis(1);

/// Above this, requests are counted together; no device queue is deeper.
const REQUESTS_MAX: usize = 4096;

/// How many requests were in the device, looked at about every millisecond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    pub samples: u64,
    pub mean_requests: f64,
    pub max_requests: u64,
    /// Share of the samples, 0 to 1, that found the device without work.
    pub idle_share: f64,
    /// Pairs of a number of requests and the samples that found it.
    pub distribution: Vec<(u64, u64)>,
}

impl InFlight {
    fn from_counts(counts: &[u64]) -> Self {
        let distribution: Vec<(u64, u64)> = (0..)
            .zip(counts.iter().copied())
            .filter(|(_, samples)| *samples > 0)
            .collect();
        Self::from_distribution(distribution)
    }

    fn from_distribution(distribution: Vec<(u64, u64)>) -> Self {
        let samples: u64 = distribution.iter().map(|(_, samples)| samples).sum();
        let requests: u64 = distribution.iter().map(|(n, samples)| n * samples).sum();
        let idle = distribution
            .iter()
            .find(|(n, _)| *n == 0)
            .map_or(0, |(_, s)| *s);
        let of_samples = |count: u64| count as f64 / samples.max(1) as f64;
        Self {
            samples,
            mean_requests: of_samples(requests),
            max_requests: distribution.iter().map(|(n, _)| *n).max().unwrap_or(0),
            idle_share: of_samples(idle),
            distribution,
        }
    }

    /// Both, as if they had been sampled as one.
    pub fn merged(&self, other: &Self) -> Self {
        let mut distribution = self.distribution.clone();
        for (requests, samples) in &other.distribution {
            match distribution.iter_mut().find(|(n, _)| n == requests) {
                Some((_, sum)) => *sum += samples,
                None => distribution.push((*requests, *samples)),
            }
        }
        distribution.sort_unstable();
        Self::from_distribution(distribution)
    }
}

/// Samples until finished or dropped.
pub struct InFlightSampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<InFlight>>,
}

impl InFlightSampler {
    /// Starts to look at a whole disk, by its name in `/sys/block`.
    ///
    /// # Errors
    /// When the kernel has no `inflight` file for it, or no thread starts.
    pub fn start(paths: &SystemPaths, device: &str) -> io::Result<Self> {
        let file = File::open(paths.block(device).join("inflight"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("in-flight".to_owned())
            .spawn(move || sample(&file, &stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it and gives what was seen.
    pub fn finish(mut self) -> InFlight {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for InFlightSampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn sample(file: &File, stop: &AtomicBool) -> InFlight {
    let mut counts = vec![0; REQUESTS_MAX + 1];
    let mut text = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        // sysfs makes the text anew at each read from the start.
        if let Some(requests) = file
            .read_at(&mut text, 0)
            .ok()
            .and_then(|length| parse(text.get(..length)?))
        {
            counts[requests.min(REQUESTS_MAX)] += 1;
        }
        thread::sleep(INTERVAL);
    }
    InFlight::from_counts(&counts)
}

/// Reads and writes, as in `       3        0`.
fn parse(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<usize>);
    let reads = numbers.next()?.ok()?;
    let writes = numbers.next()?.ok()?;
    Some(reads + writes)
}

/// CPU time and context switches of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user_ns: u64,
    pub system_ns: u64,
    pub context_switches: u64,
}

impl CpuTime {
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    pub fn ns_per_operation(&self, operations: u64) -> f64 {
        self.total_ns() as f64 / operations.max(1) as f64
    }

    /// Per million bytes.
    pub fn ms_per_megabyte(&self, bytes: u64) -> f64 {
        self.total_ns() as f64 / bytes.max(1) as f64
    }

    pub fn merged(&self, other: &Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            context_switches: self.context_switches + other.context_switches,
        }
    }

    /// As it stands in documents, with the helpful quotients.
    pub fn document(&self, operations: u64, bytes: u64) -> CpuDocument {
        CpuDocument {
            user_ns: self.user_ns,
            system_ns: self.system_ns,
            context_switches: self.context_switches,
            ns_per_operation: self.ns_per_operation(operations),
            ms_per_megabyte: self.ms_per_megabyte(bytes),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuDocument {
    pub user_ns: u64,
    pub system_ns: u64,
    pub context_switches: u64,
    pub ns_per_operation: f64,
    pub ms_per_megabyte: f64,
}

/// Whose CPU time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All threads of the process: the engine's too.
    Process,
    /// The calling thread, which must also be the one that reads the meter.
    Thread,
}

/// Measures from its start on.
#[derive(Clone, Copy, Debug)]
pub struct CpuMeter {
    scope: Scope,
    start: Usage,
    started: Instant,
}

impl CpuMeter {
    /// # Errors
    /// What getrusage(2) says.
    pub fn start(scope: Scope) -> io::Result<Self> {
        Ok(Self {
            scope,
            start: read(scope)?,
            started: Instant::now(),
        })
    }

    /// Used since the start.
    ///
    /// # Errors
    /// What getrusage(2) says.
    pub fn used(&self) -> io::Result<CpuTime> {
        let now = read(self.scope)?;
        let switches = |usage: Usage| usage.voluntary_switches + usage.involuntary_switches;
        Ok(CpuTime {
            user_ns: now.user_ns.saturating_sub(self.start.user_ns),
            system_ns: now.system_ns.saturating_sub(self.start.system_ns),
            context_switches: switches(now).saturating_sub(switches(self.start)),
        })
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

fn read(scope: Scope) -> io::Result<Usage> {
    match scope {
        Scope::Process => usage::process(),
        Scope::Thread => usage::thread(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_parsed() {
        assert_eq!(parse(b"       3       12\n"), Some(15));
        assert_eq!(parse(b"3\n"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn figures_come_from_the_distribution() {
        let seen = InFlight::from_counts(&[1, 0, 2, 1]);
        assert_eq!(seen.samples, 4);
        assert_eq!(seen.max_requests, 3);
        assert!((seen.mean_requests - 7.0 / 4.0).abs() < 1e-9);
        assert!((seen.idle_share - 0.25).abs() < 1e-9);
        assert_eq!(seen.distribution, [(0, 1), (2, 2), (3, 1)]);
        let both = seen.merged(&InFlight::from_counts(&[3, 1]));
        assert_eq!(both.distribution, [(0, 4), (1, 1), (2, 2), (3, 1)]);
        assert_eq!(both.samples, 8);
        assert!((both.idle_share - 0.5).abs() < 1e-9);
    }

    #[test]
    fn nothing_seen_is_no_division_by_zero() {
        assert_eq!(InFlight::from_counts(&[]), InFlight::default());
    }

    #[test]
    fn a_device_is_sampled_until_finished() {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths::below(root.path());
        std::fs::create_dir_all(paths.block("vda")).unwrap();
        std::fs::write(paths.block("vda").join("inflight"), "  2  3\n").unwrap();
        // Longer where its thread has to wait for a processor.
        let sampled = (0..10).map(|doubled| {
            let sampler = InFlightSampler::start(&paths, "vda").unwrap();
            thread::sleep(Duration::from_millis(50 << doubled));
            sampler.finish()
        });
        let seen = { sampled }.find(|seen| seen.samples > 2).unwrap();
        assert_eq!(seen.distribution, [(5, seen.samples)]);
        assert!(InFlightSampler::start(&paths, "vdb").is_err());
    }

    #[test]
    fn cpu_time_of_a_busy_thread_is_seen() {
        let meter = CpuMeter::start(Scope::Thread).unwrap();
        let mut value = 1u64;
        while meter.elapsed() < Duration::from_millis(20) || value == 0 {
            value = std::hint::black_box(value.wrapping_mul(3));
        }
        assert!(meter.used().unwrap().total_ns() > 0);
    }

    #[test]
    fn quotients() {
        let cpu = CpuTime {
            user_ns: 1_000_000,
            system_ns: 3_000_000,
            context_switches: 7,
        };
        // 4 ms for 1000 requests of 2000 bytes: 2 MB.
        assert!((cpu.ns_per_operation(1000) - 4000.0).abs() < 1e-9);
        assert!((cpu.ms_per_megabyte(2_000_000) - 2.0).abs() < 1e-9);
    }
}
