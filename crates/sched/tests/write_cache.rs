//! What waits while the drive's cache holds enough for the next flush.

mod common;

use common::{KIB, dispatch, read, sync, write};
use iolane_sched::{Config, Level, Policy, RequestId, Scheduler};

const MS: u64 = 1_000_000;

/// A disk whose flush takes 8 ms, and 5 more for each write before it.
struct Disk {
    scheduler: Scheduler,
    now_ns: u64,
    cached: u64,
    offset: u64,
}

impl Disk {
    /// After some commits beside writes of the lowest level.
    fn after_commits() -> Disk {
        let mut config = Config::new(Policy::Lanes);
        config.transfer_members_max = 1;
        let mut disk = Disk {
            scheduler: Scheduler::new(config).unwrap(),
            now_ns: 0,
            cached: 0,
            offset: 0,
        };
        for commit in 0..800 {
            for _ in 0..commit % 4 {
                disk.write(Level::Background);
            }
            disk.send();
            disk.flush();
        }
        while disk.scheduler.has_queued() {
            disk.send();
            disk.flush();
        }
        // A rest ends with a flush that has nothing else to do.
        disk.flush();
        disk
    }

    fn write(&mut self, level: Level) -> RequestId {
        self.offset += 64 * KIB;
        let write = write(self.offset, 16 * KIB, level);
        self.scheduler.enqueue(self.now_ns, write).unwrap()
    }

    /// Sends what may go; the cache takes it at once.
    fn send(&mut self) -> Vec<RequestId> {
        let sent = dispatch(&mut self.scheduler, self.now_ns);
        self.now_ns += MS / 10;
        self.cached += sent.len() as u64;
        sent.into_iter()
            .map(|(transfer, _)| {
                self.scheduler.complete(self.now_ns, transfer, true);
                transfer
            })
            .collect()
    }

    fn flush(&mut self) {
        let flush = self.begin_flush();
        self.now_ns += (8 + 5 * self.cached) * MS;
        self.cached = 0;
        self.scheduler.complete(self.now_ns, flush, true);
    }

    fn begin_flush(&mut self) -> RequestId {
        self.scheduler
            .start(self.now_ns, sync(Level::Critical))
            .expect("nothing is as urgent")
    }
}

#[test]
fn the_scheduler_says_what_a_write_costs_the_next_flush() {
    let cache = Disk::after_commits()
        .scheduler
        .snapshot()
        .window
        .write_cache;
    let cache = cache.expect("a cache");
    assert!((7.0e6..9.0e6).contains(&cache.flush_ns), "{cache:?}");
    assert!((4.5e6..5.5e6).contains(&cache.write_ns), "{cache:?}");
}

#[test]
fn writes_and_syncs_of_lower_levels_wait_for_a_flush_and_nothing_else_does() {
    let mut disk = Disk::after_commits();
    let writes: Vec<RequestId> = (0..3).map(|_| disk.write(Level::Background)).collect();
    let low_sync = sync(Level::Background);
    let low_sync = disk.scheduler.enqueue(disk.now_ns, low_sync).unwrap();
    assert_eq!(
        disk.send(),
        writes[..1],
        "one costs more than half of a flush"
    );
    assert!(disk.send().is_empty());
    // Reads of the same level pass them, and what somebody waits for.
    let page = read(0, 16 * KIB, Level::Background);
    let page = disk.scheduler.enqueue(disk.now_ns, page).unwrap();
    assert_eq!(disk.send(), [page]);
    assert!(disk.scheduler.promote(writes[2], Level::Foreground));
    assert_eq!(disk.send(), [writes[2]]);
    // Cancelled, one leaves no trace.
    let cancelled = disk.write(Level::Background);
    assert!(disk.scheduler.cancel(cancelled));
    disk.flush();
    assert_eq!(disk.send(), [writes[1]]);
    assert!(disk.send().is_empty());
    disk.flush();
    assert_eq!(disk.send(), [low_sync]);
    assert!(!disk.scheduler.has_queued());
}

#[test]
fn a_thread_that_would_wait_cannot_pass_the_limit_with_a_low_level() {
    let mut disk = Disk::after_commits();
    disk.write(Level::Background);
    assert_eq!(disk.send().len(), 1);
    let low = write(0, 16 * KIB, Level::Background);
    assert_eq!(disk.scheduler.start(disk.now_ns, low), None);
    let high = write(0, 16 * KIB, Level::Foreground);
    assert!(disk.scheduler.start(disk.now_ns, high).is_some());
}

/// Nobody commits any more: the timer says when to go on.
#[test]
fn held_writes_go_in_time_without_flushes() {
    let mut disk = Disk::after_commits();
    for _ in 0..20 {
        disk.write(Level::Background);
    }
    let begin_ns = disk.now_ns;
    disk.send();
    while disk.scheduler.has_queued() {
        let then_ns = disk.scheduler.next_timer().expect("no timer");
        assert!(then_ns > disk.now_ns, "a timer in the past");
        disk.now_ns = then_ns;
        assert!(!disk.send().is_empty(), "woken for nothing");
    }
    let waited_ms = (disk.now_ns - begin_ns) / MS;
    assert!((100..1200).contains(&waited_ms), "{waited_ms} ms");
    assert_eq!(disk.scheduler.next_timer(), None);
}

/// Whatever was with the device when the window was set anew.
#[test]
fn a_window_that_is_set_anew_begins_anew() {
    use iolane_sched::WindowConfig::{Fixed, Learned};
    let mut disk = Disk::after_commits();
    disk.write(Level::Background);
    disk.send();
    let flush = disk.begin_flush();
    disk.scheduler.set_policy(Policy::Lanes, Fixed(8)).unwrap();
    disk.scheduler.set_policy(Policy::Lanes, Learned).unwrap();
    disk.scheduler.complete(disk.now_ns, flush, true);
    assert_eq!(disk.scheduler.snapshot().window.write_cache, None);
    disk.flush();
    let writes: Vec<RequestId> = (0..3).map(|_| disk.write(Level::Background)).collect();
    assert_eq!(disk.send(), writes);
}
