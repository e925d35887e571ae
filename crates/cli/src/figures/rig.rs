//! What all figures stand on: disks, elevators, streams, and processors to
//! simulate on.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use iolane_disk::elevator::{Anticipatory, BlockLayerParameters, Cfq, LinuxDeadline, LinuxNoop};
use iolane_disk::simulation::{Arrival, Time};
use iolane_disk::{Description, Elevator, Model, ParameterError};

use crate::cleanup::StopFlag;
use crate::error::Failure;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
pub const MIB: f64 = 1_048_576.0;
/// InnoDB's page, and the request of most experiments.
pub const PAGE_BYTES: u32 = 16 << 10;

/// More threads would only wait for the longest simulation.
const THREADS_MAX: usize = 8;

/// Where a figure is simulated.
pub struct Rig<'a> {
    pub seed: u64,
    stop: &'a StopFlag,
}

impl<'a> Rig<'a> {
    pub fn new(seed: u64, stop: &'a StopFlag) -> Self {
        Self { seed, stop }
    }

    /// A disk that is known by name.
    ///
    /// # Errors
    /// Never with the presets that there are.
    pub fn disk(&self, preset: &str) -> Result<Box<dyn Model>, Failure> {
        Description::preset(preset)
            .and_then(|description| description.build(self.seed))
            .map_err(|error| defect(&error))
    }

    /// Runs independent simulations side by side; the results come in the order
    /// of the jobs, whichever thread had them.
    ///
    /// # Errors
    /// The first job's that failed, or an interruption.
    pub fn all<J: Sync, R: Send>(
        &self,
        jobs: &[J],
        simulate: impl Fn(&J) -> Result<R, Failure> + Sync,
    ) -> Result<Vec<R>, Failure> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<R, Failure>>>> =
            Mutex::new(jobs.iter().map(|_| None).collect());
        let work = || {
            while let Some((index, job)) = take(&next, jobs) {
                let result = self.stop.check().and_then(|()| simulate(job));
                if let Ok(mut results) = results.lock() {
                    results[index] = Some(result);
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..threads.min(THREADS_MAX).min(jobs.len()) {
                scope.spawn(work);
            }
            work();
        });
        let results = results.into_inner().unwrap_or_default();
        results.into_iter().flatten().collect()
    }
}

fn take<'j, J>(next: &AtomicUsize, jobs: &'j [J]) -> Option<(usize, &'j J)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}

/// The parameters are this program's own.
pub fn defect(error: &dyn std::error::Error) -> Failure {
    Failure::Internal {
        message: format!("a figure's own set-up was refused: {error}"),
    }
}

/// So many outstanding, without a pause.
pub fn closed(outstanding: u32) -> Arrival {
    Arrival::Closed {
        outstanding,
        think: Time::Fixed(0),
    }
}

/// The schedulers of Linux 2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linux {
    Noop,
    Deadline,
    Anticipatory,
    Cfq,
}

impl Linux {
    /// One with its defaults.
    ///
    /// # Errors
    /// Never with block layer parameters in range.
    pub fn build(self, layer: BlockLayerParameters) -> Result<Box<dyn Elevator>, Failure> {
        let built: Result<Box<dyn Elevator>, ParameterError> = match self {
            Self::Noop => LinuxNoop::noop(layer).map(|one| Box::new(one) as Box<dyn Elevator>),
            Self::Deadline => LinuxDeadline::deadline(Default::default(), layer)
                .map(|one| Box::new(one) as Box<dyn Elevator>),
            Self::Anticipatory => Anticipatory::anticipatory(Default::default(), layer)
                .map(|one| Box::new(one) as Box<dyn Elevator>),
            Self::Cfq => {
                Cfq::cfq(Default::default(), layer).map(|one| Box::new(one) as Box<dyn Elevator>)
            }
        };
        built.map_err(|error| defect(&error))
    }
}

/// The paper's file of 10 GB, in whole pages.
pub const PAPERS_FILE: Range<u64> = 0..610_351 * PAGE_BYTES as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let stop = StopFlag::default();
        let jobs: Vec<u64> = (0..100).collect();
        let squares = Rig::new(1, &stop).all(&jobs, |job| Ok(job * job)).unwrap();
        assert_eq!(
            squares,
            jobs.iter().map(|job| job * job).collect::<Vec<_>>()
        );
    }

    #[test]
    fn an_interruption_ends_it() {
        let stop = StopFlag::default();
        stop.raise(libc::SIGINT);
        let result = Rig::new(1, &stop).all(&[1, 2, 3], |job| Ok(*job));
        assert!(matches!(result, Err(Failure::Interrupted { .. })));
    }
}
