//! A request makes everything that it waits for as urgent as itself.

mod common;

use common::{dispatch, one_by_one, read, write};
use iolane_sched::{Level, Policy, Scheduler};

#[test]
fn all_that_a_request_overlaps_take_its_level() {
    let mut scheduler = Scheduler::new(one_by_one(Policy::Lanes, 1)).unwrap();
    for page in 0..3 {
        let low = write(page * 4096, 4096, Level::Background);
        scheduler.enqueue(0, low).unwrap();
    }
    scheduler
        .enqueue(1, read(0, 12288, Level::Foreground))
        .unwrap();
    let snapshot = scheduler.snapshot();
    assert_eq!(snapshot.queued, [0, 4, 0, 0, 0]);
    assert_eq!(snapshot.held, 1);
    // Foreground is not bound by the window of one: all three go at once.
    assert_eq!(dispatch(&mut scheduler, 1).len(), 3);
}

#[test]
fn the_level_passes_through_held_requests() {
    let mut scheduler = Scheduler::new(one_by_one(Policy::Lanes, 1)).unwrap();
    // In flight; everything else waits for it or for one that does.
    scheduler
        .enqueue(0, write(0, 4096, Level::Background))
        .unwrap();
    assert_eq!(dispatch(&mut scheduler, 0).len(), 1);
    let queued = write(8192, 4096, Level::Background);
    scheduler.enqueue(1, queued).unwrap();
    // Overlaps both the one in flight and the queued one.
    scheduler
        .enqueue(2, write(0, 12288, Level::Prefetch))
        .unwrap();
    assert_eq!(scheduler.snapshot().queued, [0, 0, 0, 2, 0]);
    let last = scheduler
        .enqueue(3, read(4096, 100, Level::Background))
        .unwrap();
    assert_eq!(scheduler.snapshot().queued, [0, 0, 0, 2, 1]);
    assert!(scheduler.promote(last, Level::Critical));
    assert_eq!(scheduler.snapshot().queued, [3, 0, 0, 0, 0]);
}

#[test]
fn a_later_request_is_not_raised() {
    let mut scheduler = Scheduler::new(one_by_one(Policy::Lanes, 1)).unwrap();
    let first = scheduler
        .enqueue(0, write(0, 4096, Level::Background))
        .unwrap();
    scheduler
        .enqueue(1, read(0, 4096, Level::Background))
        .unwrap();
    assert!(scheduler.promote(first, Level::Foreground));
    assert_eq!(scheduler.snapshot().queued, [0, 1, 0, 0, 1]);
}
