//! What a device has done in some time.

use super::super::pace::RateUnit;

/// What was served, and in how long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub elapsed_ns: u64,
    pub transfers: f64,
    pub bytes: f64,
}

impl Served {
    /// One more transfer, after so much more time.
    pub fn add(&mut self, elapsed_ns: u64, bytes: f64) {
        self.elapsed_ns += elapsed_ns;
        self.transfers += 1.0;
        self.bytes += bytes;
    }

    pub fn amount(&self, unit: RateUnit) -> f64 {
        unit.amount(self.transfers, self.bytes)
    }

    pub fn per_ns(&self, unit: RateUnit) -> f64 {
        self.amount(unit) / self.elapsed_ns.max(1) as f64
    }
}
