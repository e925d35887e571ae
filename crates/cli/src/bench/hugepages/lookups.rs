//! What a row look-up costs, and how often it misses the data TLB.

use std::hint::black_box;
use std::io;

use super::cache::{Cache, mix};
use super::measure::Context;
use super::{Dtlb, HugepagesError, Skip, Spread};
use crate::sys::counter::{Counter, Event};
use crate::sys::cpu_clock::thread_cpu_ns;

/// Between two looks at the stop flag: some tens of milliseconds.
const LOOKUPS_PER_LOOK: u64 = 100_000;

/// Samples on one kind of pages.
pub(super) struct LookupSamples {
    lookup_ns: Vec<f64>,
    misses: u64,
    counter: io::Result<Counter>,
}

impl LookupSamples {
    /// None yet.
    pub(super) fn new() -> Self {
        LookupSamples {
            lookup_ns: Vec::new(),
            misses: 0,
            counter: Counter::open(Event::DtlbLoadMisses),
        }
    }

    /// One more. The order depends on the round, not on the kind of pages.
    pub(super) fn measure(
        &mut self,
        cache: &Cache,
        context: &Context<'_>,
        round: u32,
    ) -> Result<(), HugepagesError> {
        let state = mix(context.options.seed ^ mix(round.into()));
        let work = || look_up(context, cache, state);
        let lookup_ns = match &mut self.counter {
            Ok(counter) => match counter.count(work) {
                Ok((lookup_ns, misses)) => {
                    self.misses += misses;
                    lookup_ns
                }
                Err(error) => {
                    self.counter = Err(error);
                    look_up(context, cache, state)
                }
            },
            Err(_) => work(),
        };
        self.lookup_ns.push(lookup_ns?);
        Ok(())
    }

    /// What the samples, of `lookups` each, say; `None` when there are none.
    pub(super) fn finish(self, lookups: u64) -> Option<(Spread, Dtlb)> {
        let counted = lookups as f64 * self.lookup_ns.len() as f64;
        let dtlb = match self.counter {
            Ok(_) => Dtlb::Measured {
                misses_per_lookup: self.misses as f64 / counted,
            },
            Err(error) => Dtlb::Skipped(no_counter(&error)),
        };
        Some((Spread::of(self.lookup_ns)?, dtlb))
    }
}

/// CPU time per look-up: look-ups never wait, so what else the machine does
/// with the processor is not theirs.
fn look_up(context: &Context<'_>, cache: &Cache, mut state: u64) -> Result<f64, HugepagesError> {
    let start_ns = thread_cpu_ns();
    let mut left = context.options.lookups;
    while left > 0 {
        context.check()?;
        let now = left.min(LOOKUPS_PER_LOOK);
        state = black_box(cache.look_up(now, state));
        left -= now;
    }
    Ok((thread_cpu_ns() - start_ns) as f64 / context.options.lookups as f64)
}

fn no_counter(error: &io::Error) -> Skip {
    let (cause, remedy) = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => (
            "this processor, or the virtual machine, shows no counter of DTLB misses".into(),
            "measure on the bare machine, or let the hypervisor pass its counters on",
        ),
        Some(libc::EACCES | libc::EPERM) => (
            format!("the kernel does not allow performance counters here: {error}"),
            "sysctl kernel.perf_event_paranoid=2, or run as root outside of a container",
        ),
        _ => (
            format!("the counter of DTLB misses failed: {error}"),
            "end other users of performance counters and try again",
        ),
    };
    Skip {
        cause,
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_counter_has_a_cause_and_a_remedy() {
        for errno in [libc::ENOENT, libc::EACCES, libc::EMFILE] {
            let skip = no_counter(&io::Error::from_raw_os_error(errno));
            assert!(!skip.cause.is_empty() && !skip.remedy.is_empty());
        }
        let skip = no_counter(&io::Error::from_raw_os_error(libc::EACCES));
        assert!(skip.remedy.contains("perf_event_paranoid"));
    }
}
