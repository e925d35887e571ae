//! What a transfer costs the device, relative to one of 16 KiB.
//!
//! cost = 1 / (most transfers per second) + bytes / (most bytes per second),
//! the form that Seastar and ADIOS use. Both maxima are learned while running,
//! from epochs in which the window was full, and fade slowly. Only their
//! quotient matters, the size at which moving the data costs as much as the
//! rest: two loads of different sizes pin it down, and a load of one size does
//! not need it. A least-squares fit of time against count and bytes was tried:
//! on a parallel device below saturation, where time is not the sum of costs,
//! it is far off.

/// Costs are in thousandths of a 16 KiB transfer.
pub(crate) const UNIT: f64 = 1000.0;
const UNIT_BYTES: f64 = 16_384.0;

/// Part of a maximum that is left after an epoch that did not reach it: half
/// after some 700 epochs, at least six seconds.
const FADE: f64 = 0.999;
/// Before anything was measured. Between NVMe (about 8 KiB) and virtual disks
/// (about 24 KiB).
const EQUAL_BYTES_START: f64 = 16_384.0;
const EQUAL_BYTES_MIN: f64 = 2_048.0;
const EQUAL_BYTES_MAX: f64 = 4_194_304.0;

/// Cost of a transfer of `bytes` where moving `equal_bytes` costs as much as the
/// rest.
pub(super) fn of(bytes: u32, equal_bytes: f64) -> f64 {
    (equal_bytes + f64::from(bytes)) / (equal_bytes + UNIT_BYTES) * UNIT
}

#[derive(Clone, Debug)]
pub(crate) struct CostModel {
    equal_bytes: f64,
    transfers_per_ns: f64,
    bytes_per_ns: f64,
}

impl CostModel {
    pub(crate) fn new() -> CostModel {
        CostModel {
            equal_bytes: EQUAL_BYTES_START,
            transfers_per_ns: 0.0,
            bytes_per_ns: 0.0,
        }
    }

    /// Cost of a transfer of `bytes`, at least 1.
    pub(crate) fn cost(&self, bytes: u32) -> u64 {
        (of(bytes, self.equal_bytes) as u64).max(1)
    }

    /// Learns from an epoch in which the lower levels used the whole window.
    pub(crate) fn learn(&mut self, elapsed_ns: f64, transfers: f64, bytes: f64) {
        self.transfers_per_ns = (self.transfers_per_ns * FADE).max(transfers / elapsed_ns);
        self.bytes_per_ns = (self.bytes_per_ns * FADE).max(bytes / elapsed_ns);
        self.equal_bytes =
            (self.bytes_per_ns / self.transfers_per_ns).clamp(EQUAL_BYTES_MIN, EQUAL_BYTES_MAX);
    }

    /// Size at which moving the data costs as much as the rest.
    pub(crate) fn equal_bytes(&self) -> f64 {
        self.equal_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of 50,000 transfers or 1.9 GB a second, as a disk of a virtual
    /// machine was measured to be.
    #[test]
    fn learns_what_size_costs_from_two_loads() {
        let mut model = CostModel::new();
        for _ in 0..20 {
            model.learn(1e9, 50_000.0, 50_000.0 * 4096.0);
            model.learn(1e9, 1_800.0, 1_800.0 * 1_048_576.0);
        }
        let quotient = model.cost(1 << 20) as f64 / model.cost(4096) as f64;
        // True: (20 + 555) / 20.
        assert!((20.0..32.0).contains(&quotient), "{quotient}");
    }

    #[test]
    fn a_16_kib_transfer_is_the_unit() {
        let mut model = CostModel::new();
        assert_eq!(model.cost(16_384), UNIT as u64);
        model.learn(1e9, 200.0, 200.0 * 1_048_576.0);
        assert_eq!(model.cost(16_384), UNIT as u64);
        assert!(model.cost(1) > 0);
    }
}
