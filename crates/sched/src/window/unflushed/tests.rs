use super::*;

const MS: u64 = 1_000_000;
/// Of each write here.
const COST: u64 = 1000;
const BYTES: u32 = 16 << 10;

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
            self.unflushed.sent(COST, BYTES);
            self.unflushed.settled(COST, BYTES, self.taken_ns);
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
    drive.commits(Presumed::FLUSHES);
    assert_eq!(drive.unflushed.state(), None);
    let (_, writes) = drive.commits(1000);
    assert!(writes > 0.95 * 64.0, "{writes} writes each");
}

/// Much that is written at once takes less each than little.
#[test]
fn a_head_that_finds_a_short_way_is_no_flash() {
    let mut drive = Drive::new(8 * MS, MS / 4, 64);
    drive.unflushed = Unflushed::of_head();
    drive.commits(Presumed::FLUSHES);
    assert!(drive.unflushed.state().is_some());
}

/// Where somebody else writes much at times, flushes with nothing of the lower
/// levels before them are the late ones.
#[test]
fn a_line_that_falls_denies_no_head() {
    let mut unflushed = Unflushed::of_head();
    for _ in 0..200 {
        for (writes, latency_ms) in [(0, 200), (0, 8), (1, 16), (1, 9)] {
            for _ in 0..writes {
                unflushed.sent(COST, BYTES);
                unflushed.settled(COST, BYTES, MS / 20);
            }
            let flush = unflushed.begins(true);
            unflushed.advance(unflushed.now_ns + latency_ms * MS);
            unflushed.ends((latency_ms * MS) as f64, flush, true, true);
        }
    }
    let write_ns = unflushed.state().expect("it has a head").write_ns;
    assert!(write_ns > 2e6, "{write_ns} ns");
}

/// Where each write waits until there is room for it, it takes as long as it owes.
#[test]
fn a_full_cache_denies_no_head() {
    let mut drive = Drive::new(8 * MS, 4 * MS, 64);
    drive.unflushed = Unflushed::of_head();
    drive.taken_ns = 9 * MS;
    for commits in 1..200 {
        drive.commit(true);
        assert!(drive.unflushed.state().is_some(), "after {commits}");
    }
}

/// Such as a volume on a network that a hypervisor calls rotational.
#[test]
fn slow_flushes_that_owe_nothing_are_no_head_s() {
    for own_ms in [3, 5] {
        let mut drive = Drive::new(own_ms * MS, 0, 64);
        drive.unflushed = Unflushed::of_head();
        drive.commits(200);
        let (_, writes) = drive.commits(1000);
        assert!(writes > 0.9 * 64.0, "{own_ms} ms: {writes} writes each");
    }
}

#[test]
fn a_head_has_hardly_more_to_do_for_a_large_write() {
    let mut large = Unflushed::of_head();
    large.sent(8 * COST, 256 << 10);
    let mut small = Unflushed::of_head();
    small.sent(COST, BYTES);
    let ratio = large.longer_ns() / small.longer_ns();
    assert!((1.0..1.5).contains(&ratio), "{ratio}");
}

/// After what was taken for a budget.
#[test]
fn a_head_is_presumed_again() {
    let mut unflushed = Unflushed::of_head();
    unflushed.sent(COST, BYTES);
    unflushed.forget();
    assert_eq!(unflushed.state(), None);
    unflushed.presume_head();
    // It went before.
    unflushed.settled(COST, BYTES, MS);
    assert!(!unflushed.is_enough());
    unflushed.sent(COST, BYTES);
    assert!(unflushed.is_enough());
}

/// Its cache is full all the time, and what finds no room in it waits: the last
/// write went long ago, and yet it has not emptied its cache by itself.
#[test]
fn a_drive_with_writes_before_its_cache_is_not_idle() {
    let mut unflushed = Unflushed::default();
    unflushed.sent(COST, BYTES);
    unflushed.sent(COST, BYTES);
    unflushed.settled(COST, BYTES, MS);
    unflushed.advance(1000 * MS);
    assert!(!unflushed.begins(true).is_old);
    unflushed.settled(COST, BYTES, MS);
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
    drive.unflushed.rest.latest_ns = drive.now_ns + REST_NS_LATEST;
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

/// A rest ends with a flush that has nothing before it, in whatever order what was
/// before it came back.
#[test]
fn writes_that_come_back_in_another_order_leave_nothing() {
    let sizes = [256 << 10, 32 << 10, 4 << 10, 16 << 10, 1 << 20, 12 << 10];
    let mut unflushed = Unflushed::of_head();
    for first in 0..1000 {
        let bytes = |number: usize| sizes[(first + number) % sizes.len()];
        (0..3).for_each(|number| unflushed.sent(COST, bytes(number)));
        (0..3)
            .rev()
            .for_each(|number| unflushed.settled(COST, bytes(number), MS));
        let flush = unflushed.begins(true);
        unflushed.advance(unflushed.now_ns + 8 * MS);
        unflushed.ends(8e6, flush, true, true);
        assert_eq!(unflushed.sent - unflushed.flushed, 0.0, "{first}");
    }
}

/// Much that went while there were no flushes.
#[test]
fn what_went_is_no_debt_for_ever() {
    let mut unflushed = Unflushed::of_head();
    for _ in 0..10_000 {
        unflushed.sent(COST, BYTES);
        unflushed.settled(COST, BYTES, MS);
    }
    unflushed.urgent_sent();
    assert!(unflushed.is_full());
    unflushed.advance(2 * LINGERS_NS);
    assert!(!unflushed.is_full());
}

/// Somebody writes all the time, and flushes nothing.
#[test]
fn a_rest_ends_where_nobody_flushes() {
    let mut unflushed = Unflushed::default();
    unflushed.rest.until_ns = Some(MS);
    unflushed.rest.latest_ns = REST_NS_LATEST;
    unflushed.urgent_sent();
    for _ in 0..2000 {
        unflushed.urgent_sent();
        unflushed.advance(unflushed.now_ns + 10 * MS);
        unflushed.urgent_settled();
        assert_eq!(unflushed.is_full(), unflushed.now_ns < REST_NS_LATEST);
    }
    unflushed.sent(COST, BYTES);
    unflushed.begins(true);
    assert_eq!(unflushed.rest.until_ns, None);
}
