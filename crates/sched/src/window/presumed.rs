//! What a disk with a head is taken for before its flushes say more.

use super::cost;

/// Each small write before a flush, with a short way to each of many: half a turn.
const WRITE_NS: f64 = 4_000_000.0;
/// Moving so much takes such a disk as long as getting there.
const EQUAL_BYTES: f64 = 1_048_576.0;
/// Flushes that together take less than this part of what they would with nothing
/// else to do are not those of such a disk: flash that a hypervisor calls rotational,
/// or a controller whose cache survives a power cut. What was written before says
/// nothing: a disk finds a short way to much of it.
const DENIED_SHARE: f64 = 0.25;

/// What flushes that somebody waited for took lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presumed {
    flushes: u32,
    took_ns: f64,
}

impl Presumed {
    /// What a flush takes: a turn.
    pub(super) const OWN_NS: f64 = 8_000_000.0;
    /// And longer for each unit of what was written before.
    pub(super) const NS_PER_COST: f64 = WRITE_NS / cost::UNIT;
    /// So many flushes are looked at together.
    pub(super) const FLUSHES: u32 = 8;

    /// What a write costs the next flush: its way, hardly its size. A whole number, so
    /// that sums in another order are the same.
    pub(super) fn cost(bytes: u32) -> f64 {
        cost::of(bytes, EQUAL_BYTES).round()
    }

    /// Whether this flush and those before were too quick.
    pub(super) fn is_denied_by(&mut self, latency_ns: f64) -> bool {
        self.flushes += 1;
        self.took_ns += latency_ns;
        if self.flushes < Self::FLUSHES {
            return false;
        }
        let took_ns = self.took_ns;
        *self = Presumed::default();
        took_ns < DENIED_SHARE * f64::from(Self::FLUSHES) * Self::OWN_NS
    }
}
