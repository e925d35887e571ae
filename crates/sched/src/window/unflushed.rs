//! Limits what the lower levels write between two flushes.
//!
//! A drive with a volatile cache takes a write at once and pays for it later:
//! a flush waits until all that the cache holds is on the medium. What the lower
//! levels write is so paid by the next commit, however few of their transfers
//! are in flight, and no window sees it. Here the latency of flushes is explained
//! by what the lower levels wrote since the last one, with a line through both
//! (least squares, old flushes forgotten): where it rises, writes of the lower
//! levels make a flush wait for half of what it takes without them at the most.
//! Where it does not (no cache, one that survives a power cut, a forced write that
//! leaves the rest of the cache alone), nothing is held back. Nor where it rises
//! by less than a write takes itself: a drive that was done with a write before it
//! said so owes nothing; there a flush only waits its turn, for which the window
//! is. A disk with a head begins with the line of the usual ones, until its flushes
//! turn out to be much quicker, or no slower with writes before them: as far as that
//! can be told, which it cannot where they differ by some 3 ms of themselves.

use super::line::{Fit, Line};
use super::presumed::Presumed;
use super::shortest::Shortest;

/// The line rises if it does by so many of its slope's standard errors.
const SURE_ERRORS: f64 = 4.0;
/// At the end of so many rests running, before anything is held back: where
/// flushes are many, a stall makes all of those that the line knows late.
const SURE_RESTS: u32 = 3;
/// How much longer a flush may take for what the lower levels wrote, in parts of
/// what it takes without.
const LONGER: f64 = 0.5;
/// Where flushes are rare, what the lower levels wrote may take the device this
/// part of the time since the last one.
const SHARE: f64 = 0.125;
/// And this part of the time in any case: where a flush is always with the device,
/// they do not starve.
const RESERVE: f64 = 0.02;
/// Once in so long, the lower levels write nothing until a flush comes with
/// nothing else to do: so the line's beginning is known.
const REST_EVERY_NS: u64 = 2_000_000_000;
/// Twice as long after each rest that showed nothing, so many times.
const VAIN_MAX: u32 = 1;
/// While the limit holds writes back, after so many flushes that somebody waits
/// for.
const REST_EVERY: u32 = 16;
/// And no longer than this if no flush comes.
const REST_NS_MAX: u64 = 100_000_000;
/// Nor, while somebody writes and does not flush, than this: longer than the flush of
/// a full cache takes.
const REST_NS_LATEST: u64 = 10_000_000_000;
/// A drive that has had nothing to write for so long, or for as long as a flush
/// takes, may have emptied its cache by itself: such flushes say nothing.
const OLD_NS_MIN: f64 = 2_000_000.0;
/// Nobody's flushes have come for so long: there are none to spare.
const LINGERS_NS: u64 = 1_000_000_000;

/// A volatile cache that a flush empties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteCache {
    /// What a flush takes without the lower levels' writes, on average.
    pub flush_ns: f64,
    /// What it takes longer for each of them, as large as they usually are.
    pub write_ns: f64,
}

/// What was written when a flush went to the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Cost of the lower levels' writes that were in the cache at the most.
    unflushed: f64,
    /// Cost of all that had completed: this much the flush has to cover.
    settled: f64,
    /// The drive has had time to write them by itself.
    is_old: bool,
}

/// Nothing is written before some flush, so that the line's beginning is known.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// When it ends if no flush comes.
    until_ns: Option<u64>,
    /// And in any case.
    latest_ns: u64,
    ended_ns: u64,
    /// Flushes since, and whether the limit was reached since.
    flushes: u32,
    limited: bool,
}

/// See the file's page.
#[derive(Clone, Debug, Default)]
pub(super) struct Unflushed {
    /// Cost of the lower levels' writes that went to the device, of those that
    /// have completed, and of those that a flush has covered.
    sent: f64,
    settled: f64,
    flushed: f64,
    line: Line,
    /// What a flush takes without the lower levels' writes.
    own_ns: f64,
    /// What it takes longer for each unit of cost; 0 until it is known to.
    ns_per_cost: f64,
    /// Of a disk with a head, as long as its flushes do not deny that. A write costs
    /// there its way, hardly its size.
    presumed: Option<Presumed>,
    /// Flushes and writes with the device that somebody waits for, and when the last
    /// one went or came.
    pending: u32,
    urgent_ns: Option<u64>,
    rest: Rest,
    /// Rests running at whose end the line rose, or did not.
    sure: u32,
    vain: u32,
    /// Mean cost of one of the lower levels' writes.
    typical: f64,
    /// When the last of them went or came.
    written_ns: u64,
    /// Least latency of one of them lately.
    write_ns: Shortest,
    /// When the lower levels' writes have used up no more than their reserve.
    reserved_ns: u64,
    now_ns: u64,
}

impl Unflushed {
    /// Before the first flushes of a disk with a head: it is one of the usual, which
    /// writes to its medium one after the other, until the line says otherwise.
    /// To learn that takes seconds, in which each commit would wait for a whole cache.
    pub(super) fn of_head() -> Unflushed {
        let mut unflushed = Unflushed::default();
        unflushed.presume_head();
        unflushed
    }

    /// Begins as of such a disk again: what was another reason is none any more.
    pub(super) fn presume_head(&mut self) {
        (self.own_ns, self.ns_per_cost) = (Presumed::OWN_NS, Presumed::NS_PER_COST);
        self.presumed = Some(Presumed::default());
        self.count_anew();
    }

    /// Because writes have other costs.
    fn count_anew(&mut self) {
        (self.sent, self.settled, self.flushed) = (0.0, 0.0, 0.0);
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// What was learned of the drive's cache.
    pub(super) fn state(&self) -> Option<WriteCache> {
        (self.ns_per_cost > 0.0).then_some(WriteCache {
            flush_ns: self.own_ns,
            write_ns: self.ns_per_cost * self.typical,
        })
    }

    /// What a write costs the next flush. What a transfer costs is measured
    /// where a drive's cache takes it.
    fn cost(&self, cost: u64, bytes: u32) -> f64 {
        match self.presumed {
            Some(_) => Presumed::cost(bytes),
            None => cost as f64,
        }
    }

    /// Notes a write of the lower levels that goes to the device.
    pub(super) fn sent(&mut self, cost: u64, bytes: u32) {
        let cost = self.cost(cost, bytes);
        self.sent += cost;
        self.typical += (cost - self.typical) / 32.0;
        self.written_ns = self.now_ns;
        let reserve_ns = (cost * self.ns_per_cost / RESERVE) as u64;
        let reserved_ns = self.reserved_ns.max(self.now_ns) + reserve_ns.min(LINGERS_NS);
        // What went while nobody's flushes came is no debt for ever.
        self.reserved_ns = reserved_ns.min(self.now_ns + LINGERS_NS);
        self.rest.limited |= self.is_enough();
    }

    /// Notes that one has completed.
    pub(super) fn settled(&mut self, cost: u64, bytes: u32, latency_ns: u64) {
        let cost = self.cost(cost, bytes);
        self.write_ns.add(self.now_ns, latency_ns);
        self.written_ns = self.now_ns;
        // One that went before was not counted, if the window was set anew, or costs
        // something else since.
        self.settled = (self.settled + cost).min(self.sent);
    }

    /// Notes a write or flush that somebody waits for; a flush will follow the write.
    pub(super) fn urgent_sent(&mut self) {
        self.pending += 1;
        self.urgent_ns = Some(self.now_ns);
    }

    /// Notes that it has completed.
    pub(super) fn urgent_settled(&mut self) {
        self.pending = self.pending.saturating_sub(1);
        self.urgent_ns = Some(self.now_ns);
        if let Some(until_ns) = &mut self.rest.until_ns {
            *until_ns = self.now_ns + REST_NS_MAX;
        }
    }

    /// Notes a flush that goes to the device; what is returned comes back with
    /// its completion.
    pub(super) fn begins(&mut self, urgent: bool) -> Written {
        let unflushed = self.sent - self.flushed;
        if urgent {
            self.urgent_sent();
            let is_empty = unflushed <= 0.0;
            let (now_ns, latest_ns) = (self.now_ns, self.rest.latest_ns);
            let is_over = |until_ns: u64| {
                is_empty || now_ns >= latest_ns || self.pending == 1 && now_ns >= until_ns
            };
            if self.rest.until_ns.is_some_and(is_over) {
                self.end_rest();
                if is_empty && self.rising().is_some() {
                    (self.sure, self.vain) = (self.sure + 1, 0);
                } else {
                    self.sure = 0;
                    self.vain += u32::from(self.vain < VAIN_MAX && self.line.fit().is_some());
                }
            }
        }
        // What it has not acknowledged yet waits for room in its cache.
        let is_idle = self.settled >= self.sent;
        let idle_ns = self.now_ns.saturating_sub(self.written_ns) as f64;
        Written {
            unflushed,
            settled: self.settled,
            is_old: unflushed > 0.0 && is_idle && idle_ns > self.own_ns.max(OLD_NS_MIN),
        }
    }

    /// Notes that a flush has completed.
    pub(super) fn ends(&mut self, latency_ns: f64, written: Written, urgent: bool, ok: bool) {
        if ok {
            self.flushed = self.flushed.max(written.settled.min(self.sent));
            // Gives up what a disk with a head usually has, as soon as it cannot be so.
            let presumed = self.presumed.as_mut().filter(|_| urgent);
            if presumed.is_some_and(|presumed| presumed.is_denied_by(latency_ns)) {
                self.forget();
            }
            self.learn(latency_ns, written);
        }
        if urgent {
            self.urgent_settled();
            self.rest.flushes += 1;
            let rested_ns = self.now_ns.saturating_sub(self.rest.ended_ns);
            let long_ago = rested_ns >= REST_EVERY_NS << self.vain;
            if long_ago || self.rest.limited && self.rest.flushes >= REST_EVERY {
                self.rest.until_ns = Some(self.now_ns + REST_NS_MAX);
                self.rest.latest_ns = self.now_ns + REST_NS_LATEST;
            }
        }
    }

    /// Forgets what a flush takes: there is another reason.
    pub(super) fn forget(&mut self) {
        (self.line, self.ns_per_cost, self.sure) = (Line::default(), 0.0, 0);
        if self.presumed.take().is_some() {
            self.count_anew();
        }
        self.end_rest();
    }

    fn end_rest(&mut self) {
        self.rest = Rest {
            ended_ns: self.now_ns,
            ..Rest::default()
        };
    }

    fn learn(&mut self, latency_ns: f64, written: Written) {
        if written.is_old || written.unflushed > self.near() {
            return;
        }
        self.line.add(written.unflushed, latency_ns);
        let known = self.ns_per_cost > 0.0 || self.sure >= SURE_RESTS;
        if let Some(fit) = self.rising() {
            if known {
                (self.own_ns, self.ns_per_cost) = (fit.begin.max(0.0), fit.slope);
            }
        } else if let Some(fit) = self.line.fit().filter(|fit| fit.slope >= -fit.error) {
            // What was known before stays so as long as it may be true: little
            // is seen of the slope while the lower levels write little. And nothing of
            // one that falls: other things have made flushes late that had nothing
            // before them.
            let most = fit.slope + SURE_ERRORS * fit.error;
            self.ns_per_cost = self.ns_per_cost.min(most.max(0.0));
            // A head's full cache takes no write before it is done with another.
            if self.presumed.is_none() && !self.owes(self.ns_per_cost) {
                self.ns_per_cost = 0.0;
            }
        }
    }

    /// The line, if it rises for sure.
    fn rising(&self) -> Option<Fit> {
        let fit = self.line.fit()?;
        (fit.slope > SURE_ERRORS * fit.error && self.owes(fit.slope)).then_some(fit)
    }

    /// Whether a write that costs the next flush so much was acknowledged before
    /// the drive was done with it.
    fn owes(&self, ns_per_cost: f64) -> bool {
        let least_ns = self.write_ns.get().unwrap_or(u64::MAX);
        ns_per_cost * self.typical > least_ns as f64
    }

    /// Flushes of more than this say nothing of what little more takes: a drive
    /// that has much to write finds a short way to all of it.
    fn near(&self) -> f64 {
        if self.ns_per_cost > 0.0 {
            2.0 * (LONGER * self.own_ns / self.ns_per_cost).max(self.typical)
        } else {
            f64::INFINITY
        }
    }

    /// What the next flush is expected to take longer.
    fn longer_ns(&self) -> f64 {
        (self.sent - self.flushed) * self.ns_per_cost
    }

    /// Whether the next flush has enough to do. One transfer is never too much.
    fn is_enough(&self) -> bool {
        let longer_ns = self.longer_ns();
        longer_ns > 0.0 && longer_ns >= LONGER * self.own_ns
    }

    /// Whether writes and flushes of the lower levels have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.until_ns()
            .is_some_and(|until_ns| self.now_ns < until_ns)
    }

    /// When they may go if nothing completes before.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let later = |until_ns: &u64| (self.now_ns..u64::MAX).contains(until_ns);
        self.until_ns().filter(later)
    }

    fn until_ns(&self) -> Option<u64> {
        let urgent_ns = self.urgent_ns?;
        // Whatever is pending completes.
        let unless_pending = |until_ns| if self.pending > 0 { u64::MAX } else { until_ns };
        let rest_ns = self.rest.until_ns.map(unless_pending);
        let rest_ns = rest_ns.map(|until_ns| until_ns.min(self.rest.latest_ns));
        let limit_ns = self.is_enough().then(|| {
            let after_ns = (self.longer_ns() / SHARE).min(LINGERS_NS as f64) as u64;
            unless_pending(urgent_ns + after_ns).min(self.reserved_ns)
        });
        rest_ns.max(limit_ns)
    }
}

#[cfg(test)]
mod tests;
