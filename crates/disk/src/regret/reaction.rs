//! How soon a foreground has its usual latency again after a load's change.

use super::run::p99_ns;
use crate::simulation::Ended;

/// How long after a change is looked at: a second, ...
const LOOK_NS: u64 = 1_000_000_000;
/// ... and on a slow device so many operations.
const LOOK_OPERATIONS: usize = 100;
/// Latency that counts as settled, in settled latencies.
const SETTLED_TIMES: u64 = 2;

/// A foreground's latency after a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reaction {
    /// 99th percentile in the second after the change, or of the first hundred
    /// operations if that takes longer.
    pub p99_ns: u64,
    /// The same in the second half of what follows the change.
    pub settled_p99_ns: u64,
    /// After so long, of the rest of that second 99 of 100 took at most twice
    /// the settled time.
    pub within_ns: u64,
    /// The same in foreground operations.
    pub within_operations: u64,
}

impl Reaction {
    /// Of the foreground's operations in the order of their ends. Nothing where
    /// they are too few.
    pub fn of(ended: &[Ended], change_ns: u64, end_ns: u64) -> Option<Reaction> {
        let after = &ended[ended.partition_point(|one| one.at_ns < change_ns)..];
        let settled_ns = change_ns + (end_ns - change_ns) / 2;
        let settled = &after[after.partition_point(|one| one.at_ns < settled_ns)..];
        if settled.len() < LOOK_OPERATIONS || after.len() < 2 * LOOK_OPERATIONS {
            return None;
        }
        let second = after.partition_point(|one| one.at_ns < change_ns + LOOK_NS);
        let look = &after[..second.max(LOOK_OPERATIONS)];
        let settled_p99_ns = p99_ns(settled);
        let bound_ns = SETTLED_TIMES * settled_p99_ns;
        // From the end on, how far back the longer ones are few.
        let (mut longer, mut begins) = (0, look.len());
        for (index, one) in look.iter().enumerate().rev() {
            longer += usize::from(one.latency_ns > bound_ns);
            if longer * LOOK_OPERATIONS <= look.len() - index {
                begins = index;
            }
        }
        let within_ns = match begins {
            0 => 0,
            _ => look[begins - 1].at_ns - change_ns,
        };
        Some(Reaction {
            p99_ns: p99_ns(look),
            settled_p99_ns,
            within_ns,
            within_operations: begins as u64,
        })
    }

    /// The first in settled latencies.
    pub fn ratio(&self) -> f64 {
        self.p99_ns as f64 / self.settled_p99_ns.max(1) as f64
    }
}
