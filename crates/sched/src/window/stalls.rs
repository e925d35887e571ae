//! Recognises a volume whose budget runs empty, and stays just under it.
//!
//! A token bucket in the kernel (`blk-throttle`) or in a hypervisor serves at
//! full speed until the budget of its period is used up, and then lets
//! everything wait for the next period, for tens of milliseconds: whoever
//! arrives then waits, however urgent. Its signature is a series of stalls
//! between which the same amount is served, at the same pace. Once that is
//! seen, requests are [paced](super::pace): the bucket never runs empty.
//!
//! A head that seeks stalls as well, for 5 to 20 ms, and does it for ever: some
//! of its stalls agree by chance. But what lies between two of them is a few
//! transfers, which prove nothing, or differs from one time to the next. So a
//! budget of less than eight transfers a period is not recognised: it looks
//! like a slow disk.

use super::pace::{Pace, RateLimit, RateUnit, TEST_AFTER_NS_MAX, TEST_AFTER_NS_MIN};
use super::served::Served;

/// A stall: nothing completed for this long while something was in flight...
const STALL_NS_MIN: u64 = 5_000_000;
/// ... and for this many times the device's service time.
const STALL_SERVICE_TIMES: u64 = 20;
/// Periods, each ended by a stall, that must agree.
const PERIODS: usize = 4;
/// Transfers as large as its largest that a period must have seen: where the
/// data of a few take so long, the device is slow, and does not stall.
const TRANSFERS_MIN: f64 = 8.0;
/// How far their rates may differ, as a part of their mean...
const AGREE: f64 = 0.03;
/// ... and how far what was served in each.
const AGREE_AMOUNT: f64 = 0.15;
/// Least part of the time that is spent in stalls. A device with a hiccup
/// now and then is not rate-limited.
const STALLED_SHARE_MIN: f64 = 0.2;
/// A period longer than this says nothing: the load paused.
const PERIOD_NS_MAX: u64 = 2_000_000_000;
/// Nor does one that may be a turn of a disk, whose full cache takes as many writes
/// in each. The kernel's shortest is 20 ms.
const PERIOD_NS_MIN: u64 = 15_000_000;
/// Nor do a few while the device did more than this many times their rate within the
/// last `BLOCKS` blocks of its time: a shared one has moments in which it does a
/// fortieth, in rounds of as much as its queue holds. A budget that was saved up
/// looks like that too, but lasts.
const FASTER: f64 = 1.5;
const BLOCK_NS: u64 = 100_000_000;
const BLOCKS: usize = 10;
/// A pace under which nothing stalls for this long is right. Longer than the
/// stalls that [`PERIODS`] of the longest kind need to be recognised again, or
/// rare pauses would lower the pace without end.
const SETTLED_NS: u64 = (PERIODS as u64 + 2) * PERIOD_NS_MAX;
/// So often running, the pace is lowered because of stalls under it; then they
/// are a false alarm...
const LOWERED_MAX: u32 = 1;
/// ... and ignored for this long, doubled each time.
const IGNORE_NS_MIN: u64 = 10_000_000_000;
const IGNORE_NS_MAX: u64 = 640_000_000_000;
/// Each step of a test raises the pace by this factor for `TEST_STEP_NS`.
const TEST_STEP: f64 = 1.01;
const TEST_STEP_NS: u64 = 200_000_000;
/// Without a stall up to this factor, there is no limit any more.
const TEST_END: f64 = 1.25;
/// A transfer this many times slower than is usual under the pace, or more,
/// while a test runs, ends the test: the bucket begins to empty. The shortest
/// latency would be no measure: where the page cache answers some of the reads,
/// all others are far slower than it, and every test would end at once.
const TEST_SLOW_TIMES: f64 = 40.0;
/// For so long after a limit was recognised, what is slow was sent before.
const LAG_NS: u64 = 1_000_000_000;
/// Weight of one transfer in the usual latency.
const USUAL_PART: f64 = 1.0 / 64.0;

/// What was served from the end of one stall to the end of the next.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    elapsed_ns: u64,
    stalled_ns: u64,
    /// In the time in which something was in flight.
    served: Served,
    /// Of the largest transfer.
    largest_bytes: f64,
}

/// The latest blocks.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// Each with the time in which something was in flight.
    blocks: [Served; BLOCKS],
    at: usize,
    /// Until when time was counted, or since when something is in flight.
    counted_ns: u64,
}

impl Recent {
    /// Returns for how long something has been in flight since the last, of a
    /// stall at most a block: a long one would stand for all others.
    fn completed(&mut self, now_ns: u64, bytes: f64) -> u64 {
        let busy_ns = now_ns.saturating_sub(self.counted_ns).min(BLOCK_NS);
        self.counted_ns = now_ns;
        if self.blocks[self.at].elapsed_ns >= BLOCK_NS {
            self.at = (self.at + 1) % BLOCKS;
            self.blocks[self.at] = Served::default();
        }
        self.blocks[self.at].add(busy_ns, bytes);
        busy_ns
    }

    /// Of the time in which something was in flight.
    fn per_second(&self, unit: RateUnit) -> f64 {
        let busy_ns: u64 = self.blocks.iter().map(|block| block.elapsed_ns).sum();
        let amounts = self.blocks.iter().map(|block| block.amount(unit));
        amounts.sum::<f64>() / busy_ns.max(1) as f64 * 1e9
    }
}

/// A pace, and whether what it lets go is slow.
#[derive(Clone, Debug)]
struct Paced {
    pace: Pace,
    /// Of the pace, above 1 while a test runs.
    factor: f64,
    test_ns: u64,
    test_after_ns: u64,
    /// Moving average of the latency while no test runs; of one that stalled
    /// only as much as makes a stall.
    usual_ns: f64,
    begin_ns: u64,
    /// Transfers are slow now and then although no test runs. Then they do not
    /// end a test either: each would be, and the pace would stay for ever. If
    /// the limit still holds, it is recognised anew.
    slow_anyway: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    last_completion_ns: u64,
    begin_ns: Option<u64>,
    current: Period,
    periods: [Period; PERIODS],
    seen: usize,
    recent: Recent,
    paced: Option<Paced>,
    /// When a limit was recognised last, the rates then, and how many times running
    /// they were lower than those before.
    recognised_ns: u64,
    rates: [f64; 2],
    lowered: u32,
    /// After a false alarm: until when, and how long the next time.
    ignore_until_ns: u64,
    ignore_ns: u64,
}

impl Paced {
    fn new(now_ns: u64, limit: RateLimit) -> Paced {
        Paced {
            pace: Pace::new(now_ns, limit),
            factor: 1.0,
            test_ns: now_ns + TEST_AFTER_NS_MIN,
            test_after_ns: TEST_AFTER_NS_MIN,
            usual_ns: 0.0,
            begin_ns: now_ns,
            slow_anyway: false,
        }
    }
}

impl Stalls {
    pub fn pace(&self) -> Option<&Pace> {
        self.paced.as_ref().map(|paced| &paced.pace)
    }

    pub fn pace_mut(&mut self) -> Option<&mut Pace> {
        self.paced.as_mut().map(|paced| &mut paced.pace)
    }

    /// Lets time pass.
    pub fn advance(&mut self, now_ns: u64) {
        let Some(paced) = &mut self.paced else { return };
        paced.pace.fill(now_ns);
        if now_ns < paced.test_ns {
            return;
        }
        paced.factor *= TEST_STEP;
        paced.pace.set_factor(paced.factor);
        paced.test_ns = now_ns + TEST_STEP_NS;
        if paced.factor > TEST_END {
            self.paced = None;
            self.seen = 0;
        }
    }

    /// A transfer goes, and nothing else is in flight.
    pub fn begins(&mut self, now_ns: u64) {
        self.recent.counted_ns = now_ns;
    }

    pub fn completed(&mut self, now_ns: u64, dispatched_ns: u64, bytes: f64, service_ns: u64) {
        let waited_ns = now_ns - self.last_completion_ns.max(dispatched_ns).min(now_ns);
        self.last_completion_ns = now_ns;
        let busy_ns = self.recent.completed(now_ns, bytes);
        self.end_test_if_slow(now_ns, now_ns - dispatched_ns, service_ns);
        let stalled = waited_ns >= STALL_NS_MIN.max(STALL_SERVICE_TIMES * service_ns);
        if stalled && now_ns >= self.ignore_until_ns {
            self.end_period(now_ns, waited_ns);
        }
        self.current.served.add(busy_ns, bytes);
        self.current.largest_bytes = self.current.largest_bytes.max(bytes);
    }

    fn end_test_if_slow(&mut self, now_ns: u64, latency_ns: u64, service_ns: u64) {
        let Some(paced) = &mut self.paced else { return };
        let slow_ns = TEST_SLOW_TIMES * paced.usual_ns.max(service_ns as f64);
        let slow = latency_ns as f64 > slow_ns;
        if paced.factor <= 1.0 {
            paced.slow_anyway |= slow && now_ns - paced.begin_ns > LAG_NS;
            let latency_ns = latency_ns.min(STALL_NS_MIN) as f64;
            paced.usual_ns += (latency_ns - paced.usual_ns) * USUAL_PART;
        } else if slow && !paced.slow_anyway {
            paced.factor = 1.0;
            paced.pace.set_factor(1.0);
            paced.test_after_ns = (paced.test_after_ns * 2).min(TEST_AFTER_NS_MAX);
            paced.test_ns = now_ns + paced.test_after_ns;
        }
    }

    fn end_period(&mut self, now_ns: u64, stalled_ns: u64) {
        let period = std::mem::take(&mut self.current);
        let begin_ns = self.begin_ns.replace(now_ns);
        let Some(elapsed_ns) = begin_ns.map(|begin_ns| now_ns - begin_ns) else {
            return;
        };
        let few = period.served.bytes < TRANSFERS_MIN * period.largest_bytes;
        if !(PERIOD_NS_MIN..=PERIOD_NS_MAX).contains(&elapsed_ns) || few {
            self.seen = 0;
            return;
        }
        self.periods[self.seen % PERIODS] = Period {
            elapsed_ns,
            stalled_ns,
            ..period
        };
        self.seen += 1;
        if self.seen >= PERIODS {
            self.recognise(now_ns);
        }
    }

    /// If the last periods agree in a rate, paces to it.
    fn recognise(&mut self, now_ns: u64) {
        let sum = |of: fn(&Period) -> f64| self.periods.iter().map(of).sum::<f64>();
        let elapsed_ns = sum(|period| period.elapsed_ns as f64);
        if sum(|period| period.stalled_ns as f64) < STALLED_SHARE_MIN * elapsed_ns {
            return;
        }
        let amounts = |unit| self.periods.iter().map(move |it| it.served.amount(unit));
        let rate = |unit| amounts(unit).sum::<f64>() / elapsed_ns;
        let spread = |unit| {
            let mean = rate(unit);
            amounts(unit)
                .zip(&self.periods)
                .map(|(amount, period)| (amount / period.elapsed_ns as f64 / mean - 1.0).abs())
                .fold(0.0, f64::max)
        };
        let units = [RateUnit::Transfers, RateUnit::Bytes];
        let [by_count, by_bytes] = units.map(spread);
        if by_count.min(by_bytes) > AGREE {
            return;
        }
        let unit = if by_count <= by_bytes {
            RateUnit::Transfers
        } else {
            RateUnit::Bytes
        };
        let amount = amounts(unit).sum::<f64>();
        let mean = amount / PERIODS as f64;
        if amounts(unit).any(|amount| (amount / mean - 1.0).abs() > AGREE_AMOUNT) {
            return;
        }
        let per_second = rate(unit) * 1e9;
        let busy_per_second = amount / sum(|period| period.served.elapsed_ns as f64) * 1e9;
        if self.recent.per_second(unit) > FASTER * busy_per_second {
            return;
        }
        let rates = units.map(rate);
        self.seen = 0;
        self.begin_ns = None;
        if self.is_false_alarm(now_ns, rates) {
            self.paced = None;
            self.ignore_ns = (self.ignore_ns * 2).clamp(IGNORE_NS_MIN, IGNORE_NS_MAX);
            self.ignore_until_ns = now_ns + self.ignore_ns;
            return;
        }
        self.paced = Some(Paced::new(now_ns, RateLimit { unit, per_second }));
    }

    /// A budget that was lowered is met by a lower pace. If stalls go on under
    /// one lower pace after another, they have another cause, and going on
    /// would end in standstill. `rates`: of transfers and of bytes; where one of them
    /// rose, it is another budget that is met.
    fn is_false_alarm(&mut self, now_ns: u64, rates: [f64; 2]) -> bool {
        let soon = now_ns.saturating_sub(self.recognised_ns) < SETTLED_NS;
        let lower = rates[0] < self.rates[0] && rates[1] < self.rates[1];
        self.lowered = if self.paced.is_some() && soon && lower {
            self.lowered + 1
        } else {
            0
        };
        (self.recognised_ns, self.rates) = (now_ns, rates);
        self.lowered > LOWERED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// So many transfers at once after each stall, so often a second: what is first
    /// recognised.
    fn after_stalls(period_ns: u64, transfers: u32) -> Option<RateUnit> {
        let mut stalls = Stalls::default();
        for period in 1..20 {
            for _ in 0..transfers {
                let dispatched_ns = (period - 1) * period_ns;
                stalls.completed(period * period_ns, dispatched_ns, 16_384.0, 0);
            }
            if let Some(pace) = stalls.pace() {
                return Some(pace.limit().unit);
            }
        }
        None
    }

    #[test]
    fn a_budget_is_recognised() {
        assert_eq!(after_stalls(20 * MS, 14), Some(RateUnit::Transfers));
    }

    #[test]
    fn a_budget_that_was_saved_up_is_recognised_and_a_slow_moment_is_none() {
        let mut stalls = Stalls::default();
        let mut now_ns = MS;
        stalls.begins(now_ns);
        for _ in 0..200_000 {
            now_ns += 5_000;
            stalls.completed(now_ns, now_ns - 100_000, 16_384.0, 12_000);
        }
        let round_ns = 17 * MS;
        let mut rounds = 0;
        while stalls.pace().is_none() && rounds < 1000 {
            now_ns += round_ns;
            rounds += 1;
            for _ in 0..85 {
                stalls.completed(now_ns, now_ns - round_ns, 16_384.0, 12_000);
            }
        }
        let after_ns = rounds * round_ns;
        assert!((900 * MS..1100 * MS).contains(&after_ns), "{after_ns}");
        let limit = stalls.pace().unwrap().limit();
        assert!((limit.per_second / 5_000.0 - 1.0).abs() < 0.01, "{limit:?}");
    }

    /// A full cache takes as many writes in each.
    #[test]
    fn a_turn_of_a_disk_is_no_period_of_a_budget() {
        for turn_ns in [6 * MS, 9_066_000, 11_111_000] {
            assert_eq!(after_stalls(turn_ns, 14), None, "{turn_ns}");
        }
    }
}
