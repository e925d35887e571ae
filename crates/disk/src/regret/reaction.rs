//! How soon a foreground has its usual latency again after a load's change.

use super::run::p99_ns;
use crate::simulation::Ended;

/// How long after a change is looked at: a second, ...
const LOOK_NS: u64 = 1_000_000_000;
/// ... and on a slow device so many operations.
const LOOK_OPERATIONS: usize = 100;
/// Latency that counts as settled, in settled latencies.
const SETTLED_TIMES: u64 = 2;

/// A foreground's latency after a change, without what began before it: such an operation
/// has waited under the old load, and no scheduler takes that back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reaction {
    /// 99th percentile of what began in the second after the change, or of the first hundred
    /// operations if that takes longer.
    pub p99_ns: u64,
    /// The same of what ended in the second half of what follows the change.
    pub settled_p99_ns: u64,
    /// Of what began later than this in that second, 99 of 100 took at most twice the
    /// settled time.
    pub within_ns: u64,
    /// The same in foreground operations.
    pub within_operations: u64,
}

impl Reaction {
    /// Of the foreground's operations. Nothing where they are too few.
    pub fn of(ended: &[Ended], change_ns: u64, end_ns: u64) -> Option<Reaction> {
        let began_ns = |one: &Ended| one.at_ns.saturating_sub(one.latency_ns);
        let mut after = ended.to_vec();
        after.retain(|one| began_ns(one) >= change_ns);
        after.sort_by_key(began_ns);
        let settled_ns = change_ns + (end_ns - change_ns) / 2;
        let mut settled = after.clone();
        settled.retain(|one| one.at_ns >= settled_ns);
        if settled.len() < LOOK_OPERATIONS || after.len() < 2 * LOOK_OPERATIONS {
            return None;
        }
        let second = after.partition_point(|one| began_ns(one) < change_ns + LOOK_NS);
        let look = &after[..second.max(LOOK_OPERATIONS)];
        let settled_p99_ns = p99_ns(&settled);
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
            _ => began_ns(&look[begins - 1]) - change_ns,
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One operation a millisecond until 4 s, of 1 ms each but for those that
    /// begin in the given time after the change at 1 s.
    fn trace(slow_until_ms: u64) -> Vec<Ended> {
        let ended = |began_ms: u64| {
            let is_slow = (1000..1000 + slow_until_ms).contains(&began_ms);
            let latency_ms = if is_slow { 10 } else { 1 };
            Ended {
                at_ns: (began_ms + latency_ms) * MS,
                latency_ns: latency_ms * MS,
            }
        };
        (0..4000).map(ended).collect()
    }

    fn reaction(slow_until_ms: u64) -> Reaction {
        Reaction::of(&trace(slow_until_ms), 1000 * MS, 4000 * MS).unwrap()
    }

    #[test]
    fn a_slow_beginning_is_seen() {
        let reaction = reaction(300);
        assert_eq!(reaction.settled_p99_ns, MS);
        assert_eq!(reaction.p99_ns, 10 * MS);
        assert_eq!(reaction.ratio(), 10.0);
        // A hundredth of what follows may be as slow.
        assert_eq!(reaction.within_operations, 300 - 7);
        assert_eq!(reaction.within_ns, (300 - 7 - 1) * MS);
    }

    #[test]
    fn nothing_slow_takes_no_time() {
        let reaction = reaction(0);
        assert_eq!(reaction.ratio(), 1.0);
        assert_eq!((reaction.within_ns, reaction.within_operations), (0, 0));
    }

    #[test]
    fn what_waited_since_before_the_change_is_of_the_old_load() {
        let mut trace = trace(0);
        for one in &mut trace[500..1000] {
            one.latency_ns += 600 * MS;
            one.at_ns += 600 * MS;
        }
        let reaction = Reaction::of(&trace, 1000 * MS, 4000 * MS).unwrap();
        assert_eq!((reaction.p99_ns, reaction.within_operations), (MS, 0));
    }

    #[test]
    fn what_began_after_it_counts_however_long_it_takes() {
        let mut trace = trace(0);
        for one in &mut trace[1000..1020] {
            one.latency_ns += 1500 * MS;
            one.at_ns += 1500 * MS;
        }
        let reaction = Reaction::of(&trace, 1000 * MS, 4000 * MS).unwrap();
        assert_eq!(reaction.p99_ns, 1501 * MS);
    }

    #[test]
    fn too_few_operations_say_nothing() {
        assert_eq!(Reaction::of(&trace(0)[..1150], 1000 * MS, 4000 * MS), None);
        assert_eq!(Reaction::of(&[], 1000 * MS, 4000 * MS), None);
    }
}
