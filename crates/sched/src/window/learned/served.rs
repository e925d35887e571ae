//! What a device has done in some time.

use super::super::pace::{RateScope, RateUnit};
use crate::request::Direction;

/// What was served, and in how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Served {
    pub elapsed_ns: u64,
    ways: [Amount; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amount {
    transfers: f64,
    bytes: f64,
}

impl Amount {
    fn of(&self, unit: RateUnit) -> f64 {
        match unit {
            RateUnit::Transfers => self.transfers,
            RateUnit::Bytes => self.bytes,
        }
    }
}

impl Served {
    /// One more transfer, after so much more time.
    pub fn add(&mut self, elapsed_ns: u64, direction: Direction, bytes: f64) {
        self.elapsed_ns += elapsed_ns;
        let way = &mut self.ways[direction as usize];
        way.transfers += 1.0;
        way.bytes += bytes;
    }

    /// And all this.
    pub fn merge(&mut self, other: Served) {
        self.elapsed_ns += other.elapsed_ns;
        for (way, more) in self.ways.iter_mut().zip(other.ways) {
            way.transfers += more.transfers;
            way.bytes += more.bytes;
        }
    }

    /// In one direction.
    pub fn way(&self, unit: RateUnit, direction: Direction) -> f64 {
        self.ways[direction as usize].of(unit)
    }

    /// In both, or in that in which it is more.
    pub fn amount(&self, unit: RateUnit, scope: RateScope) -> f64 {
        let [reads, writes] = self.ways.map(|way| way.of(unit));
        match scope {
            RateScope::Both => reads + writes,
            RateScope::Each => reads.max(writes),
        }
    }
}
