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
//! turn out to be much quicker.

use super::line::{Fit, Line};
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
/// A drive that has had nothing to write for so long, or for as long as a flush
/// takes, may have emptied its cache by itself: such flushes say nothing.
const OLD_NS_MIN: f64 = 2_000_000.0;
/// Nobody's flushes have come for so long: there are none to spare.
const LINGERS_NS: u64 = 1_000_000_000;

/// What a flush takes, and each small write before it, on a disk with a head: a
/// turn, and with a short way to each of many half of one.
const HEAD_OWN_NS: f64 = 8_000_000.0;
const HEAD_WRITE_NS: f64 = 4_000_000.0;
/// So many flushes that together take less than this part of what they would with
/// nothing else to do are not those of such a disk: flash that a hypervisor calls
/// rotational, or a controller whose cache survives a power cut.
const PRESUMED_FLUSHES: u32 = 8;
const PRESUMED_SHARE: f64 = 0.25;

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
    ended_ns: u64,
    /// Flushes since, and whether the limit was reached since.
    flushes: u32,
    limited: bool,
}

/// What flushes that somebody waited for took.
#[derive(Clone, Copy, Debug, Default)]
struct Presumed {
    flushes: u32,
    took_ns: f64,
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
    /// While both are what such a disk usually has.
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
        Unflushed {
            own_ns: HEAD_OWN_NS,
            ns_per_cost: HEAD_WRITE_NS / super::cost::UNIT,
            presumed: Some(Presumed::default()),
            ..Unflushed::default()
        }
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

    /// Notes a write of the lower levels that goes to the device.
    pub(super) fn sent(&mut self, cost: f64) {
        self.sent += cost;
        self.typical += (cost - self.typical) / 32.0;
        self.written_ns = self.now_ns;
        let reserve_ns = (cost * self.ns_per_cost / RESERVE) as u64;
        self.reserved_ns = self.reserved_ns.max(self.now_ns) + reserve_ns.min(LINGERS_NS);
        self.rest.limited |= self.is_enough();
    }

    /// Notes that one has completed.
    pub(super) fn settled(&mut self, cost: f64, latency_ns: u64) {
        self.write_ns.add(self.now_ns, latency_ns);
        self.written_ns = self.now_ns;
        // One that went before the window was set anew was not counted.
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
            let is_over = |until_ns: u64| is_empty || self.pending == 1 && self.now_ns >= until_ns;
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
            if urgent {
                self.check_presumed(latency_ns);
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
            }
        }
    }

    /// Forgets what a flush takes: there is another reason.
    pub(super) fn forget(&mut self) {
        (self.line, self.ns_per_cost, self.sure) = (Line::default(), 0.0, 0);
        self.presumed = None;
        self.end_rest();
    }

    fn end_rest(&mut self) {
        self.rest = Rest {
            ended_ns: self.now_ns,
            ..Rest::default()
        };
    }

    /// Gives up what a disk with a head usually has, as soon as it cannot be so. What
    /// was written before says nothing: a disk finds a short way to much of it.
    fn check_presumed(&mut self, latency_ns: f64) {
        let Some(presumed) = &mut self.presumed else {
            return;
        };
        presumed.flushes += 1;
        presumed.took_ns += latency_ns;
        if presumed.flushes == PRESUMED_FLUSHES {
            let least_ns = PRESUMED_SHARE * f64::from(PRESUMED_FLUSHES) * HEAD_OWN_NS;
            if presumed.took_ns < least_ns {
                self.forget();
            } else {
                *presumed = Presumed::default();
            }
        }
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
                self.presumed = None;
            }
        } else if let Some(fit) = self.line.fit() {
            // What was known before stays so as long as it may be true: little
            // is seen of the slope while the lower levels write little.
            let most = fit.slope + SURE_ERRORS * fit.error;
            self.ns_per_cost = self.ns_per_cost.min(most.max(0.0));
            if !self.owes(self.ns_per_cost) {
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
        let limit_ns = self.is_enough().then(|| {
            let after_ns = (self.longer_ns() / SHARE).min(LINGERS_NS as f64) as u64;
            unless_pending(urgent_ns + after_ns).min(self.reserved_ns)
        });
        rest_ns.max(limit_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// Of each write here.
    const COST: f64 = 1000.0;

    /// A drive that takes writes at once, and writes them one after the other
    /// while it has nothing else to do; and a lower level that has more of them
    /// than it takes.
    struct Drive {
        unflushed: Unflushed,
        own_ns: u64,
        write_ns: u64,
        /// Until a write is acknowledged.
        taken_ns: u64,
        /// As many as its cache holds.
        cache_max: u32,
        cached: u32,
        /// Since it began with the next of them.
        idle_ns: u64,
        now_ns: u64,
        seed: u32,
    }

    impl Drive {
        fn new(own_ns: u64, write_ns: u64, cache_max: u32) -> Drive {
            Drive {
                unflushed: Unflushed::default(),
                own_ns,
                write_ns,
                taken_ns: MS / 20,
                cache_max,
                cached: 0,
                idle_ns: 0,
                now_ns: 0,
                seed: 1,
            }
        }

        /// From 0 to 1, evenly.
        fn random(&mut self) -> f64 {
            self.seed = self
                .seed
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            f64::from(self.seed >> 8) / f64::from(1 << 24)
        }

        fn pass(&mut self, ns: u64) {
            self.now_ns += ns;
            self.unflushed.advance(self.now_ns);
        }

        fn idle(&mut self, ns: u64) {
            self.pass(ns);
            self.idle_ns += ns;
            while self.cached > 0 && self.idle_ns >= self.write_ns {
                self.idle_ns -= self.write_ns;
                self.cached -= 1;
            }
            if self.cached == 0 {
                self.idle_ns = 0;
            }
        }

        /// Returns how many may go.
        fn write(&mut self) -> u32 {
            let before = self.cached;
            while self.cached < self.cache_max && !self.unflushed.is_full() {
                self.unflushed.sent(COST);
                self.unflushed.settled(COST, self.taken_ns);
                self.cached += 1;
            }
            self.cached - before
        }

        /// A commit some time later; the lower level writes all the time.
        /// Returns the flush's latency and how many were written.
        fn commit(&mut self, ok: bool) -> (u64, u32) {
            let gap_ns = (2.0 * 10e6 * self.random()) as u64;
            let mut wrote = 0;
            for _ in 0..20 {
                wrote += self.write();
                self.idle(gap_ns / 20);
            }
            let flush = self.unflushed.begins(true);
            let own_ns = (self.own_ns as f64 * (0.5 + self.random())) as u64;
            let latency_ns = own_ns + u64::from(self.cached) * self.write_ns;
            self.cached = 0;
            self.pass(latency_ns / 2);
            wrote += self.write();
            self.pass(latency_ns - latency_ns / 2);
            self.unflushed.ends(latency_ns as f64, flush, true, ok);
            (latency_ns, wrote)
        }

        /// Mean latency in ms and writes of so many commits.
        fn commits(&mut self, count: u32) -> (f64, f64) {
            let (mut latency_ns, mut wrote) = (0, 0);
            for _ in 0..count {
                let (latency, writes) = self.commit(true);
                latency_ns += latency;
                wrote += writes;
            }
            let mean = |sum: f64| sum / f64::from(count);
            (mean(latency_ns as f64) / 1e6, mean(f64::from(wrote)))
        }
    }

    #[test]
    fn a_flush_takes_half_longer_than_alone_at_the_most() {
        let mut drive = Drive::new(8 * MS, 2 * MS, 64);
        drive.commits(100);
        let (latency_ms, writes) = drive.commits(200);
        assert!((8.0..8.0 * 1.6).contains(&latency_ms), "{latency_ms} ms");
        assert!((1.0..3.0).contains(&writes), "{writes} writes each");
    }

    /// The cache is always full, so at first all flushes are the same.
    #[test]
    fn a_full_cache_is_recognised() {
        let mut drive = Drive::new(8 * MS, 5 * MS, 400);
        let (latency_ms, _) = drive.commits(5);
        assert!(latency_ms > 1000.0, "{latency_ms} ms");
        drive.commits(100);
        let (latency_ms, writes) = drive.commits(200);
        assert!(latency_ms < 20.0, "{latency_ms} ms");
        assert!(writes > 0.8, "{writes} writes each");
    }

    /// Nothing has been learned yet.
    #[test]
    fn on_a_disk_with_a_head_the_first_commits_wait_for_little() {
        let mut drive = Drive::new(8 * MS, 4 * MS, 64);
        drive.unflushed = Unflushed::of_head();
        drive.commit(true);
        let (latency_ms, writes) = drive.commits(30);
        assert!(latency_ms < 20.0, "{latency_ms} ms");
        assert!(writes > 0.8, "{writes} writes each");
    }

    #[test]
    fn a_head_behind_a_cache_that_survives_is_found_out() {
        let mut drive = Drive::new(MS / 20, 0, 64);
        drive.unflushed = Unflushed::of_head();
        drive.commits(PRESUMED_FLUSHES);
        assert_eq!(drive.unflushed.state(), None);
        let (_, writes) = drive.commits(1000);
        assert!(writes > 0.95 * 64.0, "{writes} writes each");
    }

    /// Much that is written at once takes less each than little.
    #[test]
    fn a_head_that_finds_a_short_way_is_no_flash() {
        let mut drive = Drive::new(8 * MS, MS / 4, 64);
        drive.unflushed = Unflushed::of_head();
        drive.commits(PRESUMED_FLUSHES);
        assert!(drive.unflushed.state().is_some());
    }

    /// Its cache is full all the time, and what finds no room in it waits: the last
    /// write went long ago, and yet it has not emptied its cache by itself.
    #[test]
    fn a_drive_with_writes_before_its_cache_is_not_idle() {
        let mut unflushed = Unflushed::default();
        unflushed.sent(COST);
        unflushed.sent(COST);
        unflushed.settled(COST, MS);
        unflushed.advance(1000 * MS);
        assert!(!unflushed.begins(true).is_old);
        unflushed.settled(COST, MS);
        assert!(!unflushed.begins(true).is_old);
        unflushed.advance(2000 * MS);
        assert!(unflushed.begins(true).is_old);
    }

    /// A rest lasts until the flush behind a commit's write has come.
    #[test]
    fn a_rest_does_not_end_between_a_commit_s_write_and_its_flush() {
        let mut drive = Drive::new(8 * MS, 2 * MS, 64);
        drive.commits(200);
        drive.unflushed.rest.until_ns = Some(drive.now_ns + MS);
        drive.unflushed.urgent_sent();
        drive.pass(1000 * MS);
        assert!(drive.unflushed.is_full());
        drive.unflushed.urgent_settled();
        assert!(drive.unflushed.is_full());
    }

    #[test]
    fn what_costs_nothing_is_not_held_back() {
        let mut drive = Drive::new(MS / 20, 0, 64);
        let (_, writes) = drive.commits(2000);
        assert!(writes > 0.97 * 64.0, "{writes} writes each");
        assert_eq!(drive.unflushed.ns_per_cost, 0.0);
    }

    /// A volume without a cache: what it is busy with, a flush waits for.
    #[test]
    fn what_was_paid_for_at_once_is_not_held_back() {
        let mut drive = Drive::new(2 * MS, MS / 4, 16);
        drive.taken_ns = MS / 2;
        let (_, writes) = drive.commits(2000);
        assert!(writes > 0.95 * 16.0, "{writes} writes each");
    }

    /// Commits so rare that no rest lasts until one comes.
    #[test]
    fn rests_cost_little_where_commits_are_rare() {
        let mut drive = Drive::new(MS / 20, 0, 64);
        let (mut held, mut passed) = (0, 0);
        for _ in 0..1000 {
            for _ in 0..200 {
                drive.pass(MS);
                held += u32::from(drive.unflushed.is_full());
                passed += 1;
                drive.write();
                drive.cached = 0;
            }
            let flush = drive.unflushed.begins(true);
            drive.pass(MS / 20);
            drive.unflushed.ends(50e3, flush, true, true);
        }
        let share = f64::from(held) / f64::from(passed);
        assert!(share < 0.03, "held back for {share} of the time");
    }

    #[test]
    fn a_drive_that_has_changed_is_found_out() {
        let mut drive = Drive::new(8 * MS, 2 * MS, 64);
        drive.commits(200);
        drive.write_ns = 0;
        drive.commits(3000);
        let (_, writes) = drive.commits(200);
        assert!(writes > 16.0, "{writes} writes each");
    }

    #[test]
    fn without_flushes_all_goes() {
        let mut drive = Drive::new(8 * MS, 2 * MS, 64);
        drive.commits(200);
        drive.cached = 0;
        drive.write();
        assert!(drive.cached < 10, "{} at once", drive.cached);
        let mut waited_ns = 0;
        while drive.cached < 64 {
            let then_ns = drive.unflushed.next_timer().expect("no timer");
            assert!(then_ns > drive.now_ns, "a timer that does not help");
            waited_ns += then_ns - drive.now_ns;
            drive.pass(then_ns - drive.now_ns);
            assert!(drive.write() > 0, "woken for nothing");
        }
        assert!(waited_ns <= LINGERS_NS, "{} ms", waited_ns / MS);
    }

    /// Flush upon flush, so that one is always with the device.
    #[test]
    fn writes_do_not_starve_behind_flushes() {
        let mut drive = Drive::new(8 * MS, 2 * MS, 64);
        drive.commits(200);
        let begin_ns = drive.now_ns;
        let (mut flushes, mut wrote) = (vec![drive.unflushed.begins(true)], 0);
        while drive.now_ns < begin_ns + 20_000 * MS {
            flushes.push(drive.unflushed.begins(true));
            wrote += drive.write();
            drive.pass(8 * MS);
            let first = flushes.remove(0);
            drive.unflushed.ends(8e6, first, true, true);
            drive.cached = 0;
        }
        // At 2 ms each.
        assert!(wrote > 100, "{wrote} writes in 20 s");
    }

    #[test]
    fn a_failed_flush_covers_nothing_and_teaches_nothing() {
        let mut drive = Drive::new(8 * MS, 2 * MS, 4);
        for _ in 0..100 {
            drive.commit(false);
        }
        assert_eq!(drive.unflushed.flushed, 0.0);
        assert_eq!(drive.unflushed.ns_per_cost, 0.0);
    }
}
