//! What a transfer is expected to cost the device: base + slope x size.
//!
//! Fitted online while the device is saturated: then the time that passes is
//! the sum of what the finished transfers cost, so that each epoch gives one
//! equation (time = count x base + bytes x slope). Least squares with
//! exponential forgetting, pulled weakly towards a prior, as a load of one
//! size only says nothing about the split (and does not need it). The form of
//! the model is Seastar's and ADIOS's; neither learns it under load.

/// Weight that an older epoch keeps when a new one comes.
const KEEP: f64 = 0.98;
/// How many epochs the prior counts for.
const PRIOR_WEIGHT: f64 = 0.05;
/// Prior: a size at which moving the data costs as much as the rest. Between
/// NVMe (about 8 KiB) and virtual disks (about 24 KiB).
const PRIOR_EQUAL_BYTES: f64 = 16_384.0;

/// Cost of a transfer in nanoseconds of device time.
#[derive(Clone, Debug)]
pub(crate) struct CostModel {
    base_ns: f64,
    slope_ns_per_byte: f64,
    // Normal equations of (count, bytes / PRIOR_EQUAL_BYTES) against time.
    cc: f64,
    cb: f64,
    bb: f64,
    ct: f64,
    bt: f64,
}

impl CostModel {
    pub(crate) fn new() -> CostModel {
        CostModel {
            base_ns: 20_000.0,
            slope_ns_per_byte: 20_000.0 / PRIOR_EQUAL_BYTES,
            cc: 0.0,
            cb: 0.0,
            bb: 0.0,
            ct: 0.0,
            bt: 0.0,
        }
    }

    /// Expected cost of a transfer of `bytes`.
    pub(crate) fn cost_ns(&self, bytes: u32) -> u64 {
        (self.base_ns + self.slope_ns_per_byte * f64::from(bytes)) as u64 + 1
    }

    /// Learns from an epoch in which the device always had work.
    pub(crate) fn learn(&mut self, elapsed_ns: f64, count: f64, bytes: f64) {
        // Per transfer, so that a fast device's epochs do not outweigh others.
        let (time, size) = (elapsed_ns / count, bytes / count / PRIOR_EQUAL_BYTES);
        self.cc = self.cc * KEEP + 1.0;
        self.cb = self.cb * KEEP + size;
        self.bb = self.bb * KEEP + size * size;
        self.ct = self.ct * KEEP + time;
        self.bt = self.bt * KEEP + size * time;
        // Ridge towards base == slope x PRIOR_EQUAL_BYTES at the mean time.
        let prior = self.ct / (self.cc + self.cb);
        let weight = PRIOR_WEIGHT * self.cc;
        let (a, b, d) = (self.cc + weight, self.cb, self.bb + weight);
        let (x, y) = (self.ct + weight * prior, self.bt + weight * prior);
        let determinant = a * d - b * b;
        let base = (x * d - y * b) / determinant;
        let slope = (a * y - b * x) / determinant;
        // Neither part can be negative; a fit that says so has too little
        // variety in sizes, and the other part carries the whole.
        // A device that became a hundred times faster crosses these bounds.
        self.base_ns = base.min(time * 2.0).max(prior * 0.02);
        self.slope_ns_per_byte = slope.max(prior * 0.002) / PRIOR_EQUAL_BYTES;
    }

    /// Size at which moving the data costs as much as the rest.
    pub(crate) fn equal_bytes(&self) -> f64 {
        self.base_ns / self.slope_ns_per_byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_base_and_slope_when_sizes_vary() {
        let mut model = CostModel::new();
        for epoch in 0..400u32 {
            let large = f64::from(epoch % 5) * 100.0;
            let small = 500.0;
            let (count, bytes) = (small + large, small * 4096.0 + large * 131_072.0);
            model.learn(count * 12_000.0 + bytes * 0.5, count, bytes);
        }
        for (bytes, expected) in [(4096, 14_048.0), (16_384, 20_192.0), (131_072, 77_536.0)] {
            let cost = model.cost_ns(bytes) as f64;
            assert!(
                (cost / expected - 1.0).abs() < 0.15,
                "{bytes} bytes: {cost} ns, expected {expected}"
            );
        }
    }

    #[test]
    fn follows_a_device_that_becomes_much_faster() {
        let mut model = CostModel::new();
        for time_ns in [8_000_000.0, 10_000.0] {
            for _ in 0..1000 {
                model.learn(100.0 * time_ns, 100.0, 100.0 * 16_384.0);
            }
            let cost = model.cost_ns(16_384) as f64;
            assert!((cost / time_ns - 1.0).abs() < 0.05, "{cost}");
        }
    }

    #[test]
    fn one_size_is_right_for_that_size() {
        let mut model = CostModel::new();
        for _ in 0..200 {
            model.learn(1000.0 * 20_000.0, 1000.0, 1000.0 * 16_384.0);
        }
        let cost = model.cost_ns(16_384) as f64;
        assert!((cost / 20_000.0 - 1.0).abs() < 0.05, "{cost}");
        assert!(model.equal_bytes() > 4096.0 && model.equal_bytes() < 65_536.0);
    }
}
