//! Whether a quota of the processors' time stops the machine.
//!
//! A virtual machine may have so much of its host's processors in each period,
//! which is 100 ms unless somebody chose another (the kernel's
//! Documentation/scheduler/sched-bwc.rst). If it has used that up, it stands still
//! until the next period begins: stops then end whole periods apart. Quotas of
//! control groups within a machine are not seen so: they do not count threads that
//! go before all others, as those that look do.

use super::witness::Spans;

const PERIOD_NS: u64 = 100_000_000;
/// Shorter ones have many causes.
const STOP_NS_MIN: u64 = 5_000_000;
/// Ends may lie so far from whole periods: until the thread that looks is woken.
const OFF_NS_MAX: u64 = 10_000_000;
/// Pairs of ends that follow each other, and the part of them that lies whole periods
/// apart. By chance a fifth does, and this many of as many once in 13,000 times.
const PAIRS_MIN: usize = 10;
const IN_STEP_MIN: f64 = 0.8;

/// Of stops in the order of their ends, that do not overlap.
pub fn ends_stops(stops: &Spans) -> bool {
    let long = stops.iter().filter(|(from, to)| to - from >= STOP_NS_MIN);
    let ends: Vec<u64> = long.map(|stop| stop.1).collect();
    let pairs = ends.windows(2);
    let count = pairs.len();
    let in_step = pairs.filter(|pair| {
        let beyond_ns = (pair[1] - pair[0]) % PERIOD_NS;
        beyond_ns.min(PERIOD_NS - beyond_ns) <= OFF_NS_MAX
    });
    count >= PAIRS_MIN && in_step.count() as f64 >= IN_STEP_MIN * count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::offsets::Random;

    const MS: u64 = 1_000_000;

    fn stops(ends_ms: impl IntoIterator<Item = u64>) -> Spans {
        let of_end = |ms: u64| ((ms - 12) * MS, ms * MS);
        ends_ms.into_iter().map(of_end).collect()
    }

    #[test]
    fn a_quotas_stops_end_whole_periods_apart() {
        // Not each period, not quite on time, and the period's clock runs on.
        let ends =
            |stops: u64| (0..stops).map(|stop| 40 + 100 * (stop + stop / 3) + stop % 5 + stop / 20);
        assert!(ends_stops(&stops(ends(40))));
        assert!(!ends_stops(&stops(ends(10))), "too few to be sure");
    }

    #[test]
    fn other_stops_are_no_quotas() {
        for apart_ms in [17, 30, 50, 130, 170, 250] {
            let ends = (1..60).map(|stop| 20 + stop * apart_ms);
            assert!(!ends_stops(&stops(ends)), "{apart_ms}");
        }
        let short = (0..60).map(|stop| (100 * stop * MS, (100 * stop + 3) * MS));
        assert!(!ends_stops(&short.collect()));
    }

    #[test]
    fn stops_at_any_time_are_no_quotas() {
        for seed in 0..200 {
            let mut random = Random::new(seed, 0);
            let mut end_ms = 0;
            let ends = (0..60).map(|_| {
                end_ms += 15 + random.next() % 1000;
                end_ms
            });
            assert!(!ends_stops(&stops(ends)), "{seed}");
        }
    }
}
