//! Keeps the lower levels to a limit: what goes, goes evenly and slightly below
//! it. What waits then waits in our queue, where levels count, and not with the
//! volume.

use crate::request::Direction;

/// Pace as a part of the limit. Kernel and hypervisor budgets are exact, so the
/// slack only has to absorb bursts of our own and rounding.
const PACE: f64 = 0.985;
/// Requests that may go at once after a pause, in time at the paced rate.
const BURST_NS: f64 = 1_500_000.0;
/// Once nothing is left, what comes in so much time is saved up before more goes.
/// Each go wakes a thread and the device: one for each request takes a processor
/// where a volume allows some tens of thousands a second.
const GRAIN_NS: f64 = 100_000.0;
/// How far urgent requests, which never wait, may overdraw, in bursts.
const DEBT_BURSTS: f64 = 20.0;
/// Part of the rate that the lower levels keep when urgent ones use all of it:
/// no level starves.
const RESERVE: f64 = 0.02;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// Transfers, whatever their size.
    Transfers,
    /// Bytes.
    Bytes,
}

/// Whose transfers a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateScope {
    /// Reads and writes together.
    Both,
    /// Reads, and as many writes.
    Each,
}

/// A recognised limit of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// What it counts.
    pub unit: RateUnit,
    /// And of which transfers.
    pub scope: RateScope,
    /// How many of them a second the volume was seen to allow.
    pub per_second: f64,
}

impl RateLimit {
    /// What a transfer of `bytes` takes of it, in units.
    fn units(&self, bytes: f64) -> f64 {
        match self.unit {
            RateUnit::Transfers => 1.0,
            RateUnit::Bytes => bytes,
        }
    }
}

/// What may go of the lower levels under a limit.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    limit: RateLimit,
    /// Factor on the paced rate.
    factor: f64,
    /// Of reads, and of writes; of both the first, if they have one together.
    budgets: [Budget; 2],
    filled_ns: u64,
}

impl Pace {
    pub fn new(now_ns: u64, limit: RateLimit) -> Pace {
        Pace {
            limit,
            factor: 1.0,
            budgets: [Budget::new(limit.units(4096.0)); 2],
            filled_ns: now_ns,
        }
    }

    pub fn limit(&self) -> RateLimit {
        self.limit
    }

    /// What may go, in units.
    pub fn per_ns(&self) -> f64 {
        self.limit.per_second * PACE * self.factor / 1e9
    }

    /// Lets time pass.
    pub fn fill(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.filled_ns) as f64;
        self.filled_ns = now_ns.max(self.filled_ns);
        let per_ns = self.per_ns();
        for budget in self.in_use_mut() {
            budget.fill(elapsed_ns, per_ns);
        }
    }

    fn count(&self) -> usize {
        match self.limit.scope {
            RateScope::Both => 1,
            RateScope::Each => 2,
        }
    }

    fn in_use(&self) -> &[Budget] {
        &self.budgets[..self.count()]
    }

    fn in_use_mut(&mut self) -> &mut [Budget] {
        let count = self.count();
        &mut self.budgets[..count]
    }

    fn index(&self, direction: Direction) -> usize {
        match self.limit.scope {
            RateScope::Both => 0,
            RateScope::Each => direction as usize,
        }
    }

    /// Whether a transfer that nobody waits for may go.
    pub fn has_room(&self, direction: Direction) -> bool {
        self.budgets[self.index(direction)].has_room()
    }

    /// When [`has_room`](Pace::has_room) becomes true, if it is false.
    pub fn next_timer(&self) -> Option<u64> {
        let waits_ns = self
            .in_use()
            .iter()
            .filter_map(|it| it.wait_ns(self.per_ns()));
        waits_ns.map(|ns| self.filled_ns + ns).min()
    }

    /// Notes a transfer. Urgent ones do not ask [`has_room`](Pace::has_room).
    pub fn departed(&mut self, direction: Direction, bytes: f64, urgent: bool) {
        let units = self.limit.units(bytes);
        let index = self.index(direction);
        self.budgets[index].departed(units, urgent);
    }

    /// Goes by so many times the pace from now on.
    pub fn set_factor(&mut self, factor: f64) {
        self.factor = factor;
    }
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    /// Units that may go now; negative after urgent ones went without asking.
    tokens: f64,
    /// A small transfer, in units.
    small: f64,
    /// Largest transfer of the lower levels, in units: it may overdraw by
    /// itself, and all of that has to be paid back.
    largest: f64,
    /// What the lower levels may send even then, in units.
    reserve: f64,
    /// Nothing was left, and a grain has not been saved up since.
    is_saving: bool,
}

impl Budget {
    fn new(small: f64) -> Budget {
        Budget {
            tokens: 0.0,
            small,
            largest: 0.0,
            reserve: 0.0,
            is_saving: true,
        }
    }

    fn fill(&mut self, elapsed_ns: f64, per_ns: f64) {
        let burst = (BURST_NS * per_ns).max(1.0);
        let more = elapsed_ns * per_ns;
        let debt_max = (burst * DEBT_BURSTS).max(self.largest);
        self.tokens = (self.tokens + more).clamp(-debt_max, burst);
        self.reserve = (self.reserve + more * RESERVE).min(1.0_f64.max(burst * RESERVE));
        self.is_saving &= self.tokens <= self.enough(per_ns);
    }

    /// With more units than these another grain goes: the last of its transfers
    /// overdraws.
    fn enough(&self, per_ns: f64) -> f64 {
        (GRAIN_NS * per_ns - self.small).max(0.0)
    }

    fn has_room(&self) -> bool {
        !self.is_saving || self.reserve >= 1.0
    }

    /// How long until there is room, if there is none.
    fn wait_ns(&self, per_ns: f64) -> Option<u64> {
        if self.has_room() {
            return None;
        }
        // Half a unit more, so that one wake-up is enough.
        let tokens = 0.5_f64.mul_add(self.small, self.enough(per_ns)) - self.tokens;
        let reserve = (1.0 - self.reserve) / RESERVE;
        Some((tokens.min(reserve) / per_ns).ceil() as u64 + 1)
    }

    fn departed(&mut self, units: f64, urgent: bool) {
        if !urgent {
            self.largest = self.largest.max(units);
            if self.tokens <= 0.0 {
                self.reserve -= units;
            }
        }
        self.tokens -= units;
        self.is_saving |= self.tokens <= 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of these takes a tenth of the budget of a second.
    #[test]
    fn large_transfers_keep_to_a_small_budget_of_bytes() {
        const BYTES: f64 = 1_048_576.0;
        let limit = RateLimit {
            unit: RateUnit::Bytes,
            scope: RateScope::Both,
            per_second: 10.0 * BYTES,
        };
        let mut pace = Pace::new(0, limit);
        let mut transfers = 0;
        for ms in 1..=9_000 {
            pace.fill(ms * 1_000_000);
            while pace.has_room(Direction::Read) {
                pace.departed(Direction::Read, BYTES, false);
                transfers += 1;
            }
        }
        assert!((86..=93).contains(&transfers), "{transfers} in 9 s");
    }

    /// Times that something goes in a second, and transfers, where a timer wakes
    /// whoever has always more to send.
    fn wake_ups(per_second: f64) -> (u32, u32) {
        let limit = RateLimit {
            unit: RateUnit::Transfers,
            scope: RateScope::Both,
            per_second,
        };
        let mut pace = Pace::new(0, limit);
        let (mut now_ns, mut wake_ups, mut transfers) = (0, 0, 0);
        while now_ns < 1_000_000_000 {
            while pace.has_room(Direction::Read) {
                pace.departed(Direction::Read, 16_384.0, false);
                transfers += 1;
            }
            now_ns = pace.next_timer().unwrap();
            pace.fill(now_ns);
            wake_ups += 1;
            assert!(pace.has_room(Direction::Read), "one wake-up is enough");
        }
        (wake_ups, transfers)
    }

    #[test]
    fn a_small_budget_goes_evenly_and_a_large_one_in_grains() {
        for (per_second, each) in [(3000.0, 1.0), (61_000.0, 6.0), (256_000.0, 25.2)] {
            let (wake_ups, transfers) = wake_ups(per_second);
            let share = f64::from(transfers) / per_second;
            assert!((0.98..0.99).contains(&share), "{share} of {per_second}");
            let each_time = f64::from(transfers) / f64::from(wake_ups);
            assert!((each_time / each - 1.0).abs() < 0.1, "{each_time} at once");
        }
    }
}
