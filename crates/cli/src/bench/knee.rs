//! Where a disk is full but does not queue yet.
//!
//! The knee is the depth with the greatest power, throughput divided by mean
//! latency (Kleinrock, "Power and deterministic rules of thumb for
//! probabilistic problems in computer communications", 1979): beyond it a
//! request more costs a larger share of latency than it gains of throughput.
//! Databases that care for throughput only go on to the full depth.

use serde::Serialize;

/// Share of the best throughput from which a depth counts as full.
const FULL_SHARE: f64 = 0.95;

/// A depth and what it achieved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DepthFigures {
    pub depth: u64,
    pub operations_per_second: f64,
    pub mean_latency_ns: f64,
    /// Of the best throughput of the sweep, 0 to 1.
    pub share_of_best: f64,
}

/// The two depths that characterise a disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// Greatest throughput per latency.
    pub knee: DepthFigures,
    /// The least depth with 95 % of the best throughput.
    pub full: DepthFigures,
}

/// From `(depth, operations per second, mean latency in ns)`, in rising order
/// of depth. `None` when no run did anything.
pub fn find(runs: &[(u64, f64, f64)]) -> Option<Knee> {
    let best = runs.iter().map(|run| run.1).fold(0.0, f64::max);
    if best <= 0.0 {
        return None;
    }
    let figures = |run: &(u64, f64, f64)| DepthFigures {
        depth: run.0,
        operations_per_second: run.1,
        mean_latency_ns: run.2,
        share_of_best: run.1 / best,
    };
    let power = |run: &(u64, f64, f64)| run.1 / run.2.max(1.0);
    // The first of equals: the lesser depth.
    let knee = runs
        .iter()
        .reduce(|a, b| if power(b) > power(a) { b } else { a })?;
    let full = runs.iter().find(|run| run.1 >= FULL_SHARE * best)?;
    Some(Knee {
        knee: figures(knee),
        full: figures(full),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that serves `parallel` requests at once in 100 us each.
    fn disk(parallel: u64, depths: &[u64]) -> Vec<(u64, f64, f64)> {
        depths
            .iter()
            .map(|depth| {
                let rate = (*depth).min(parallel) as f64 / 100e-6;
                (*depth, rate, *depth as f64 / rate * 1e9)
            })
            .collect()
    }

    #[test]
    fn the_knee_of_an_ideal_disk_is_its_parallelism() {
        let knee = find(&disk(8, &[1, 2, 4, 8, 16, 32])).unwrap();
        assert_eq!((knee.knee.depth, knee.full.depth), (8, 8));
        assert!((knee.knee.share_of_best - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_gently_bending_disk_has_its_knee_before_it_is_full() {
        let runs = [
            (1, 14_400.0, 52e3),
            (4, 33_700.0, 111e3),
            (16, 45_800.0, 344e3),
            (64, 49_900.0, 1277e3),
            (256, 47_900.0, 5339e3),
        ];
        let knee = find(&runs).unwrap();
        assert_eq!((knee.knee.depth, knee.full.depth), (4, 64));
    }

    #[test]
    fn nothing_measured_has_no_knee() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[(1, 0.0, 0.0)]), None);
    }
}
