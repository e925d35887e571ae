//! Which of several requests goes first where the policy leaves no choice.

mod common;

use common::{dispatch, drain, one_by_one, read, write};
use iolane_sched::{Config, Deadline, Level, Policy, Scheduler, Terms};

const ALONE: Terms = Terms {
    alone: true,
    within_ns: None,
};

#[test]
fn promotion_does_not_move_a_request_back() {
    for policy in [Policy::Noop, Policy::Deadline] {
        let mut scheduler = Scheduler::new(one_by_one(policy, 1)).unwrap();
        let first = scheduler
            .enqueue(0, read(0, 4096, Level::Background))
            .unwrap();
        let second = scheduler
            .enqueue(0, read(8192, 4096, Level::Background))
            .unwrap();
        assert!(scheduler.promote(first, Level::Critical));
        let expired = 2_000_000_000;
        assert_eq!(drain(&mut scheduler, expired), [first, second], "{policy}");
    }
}

#[test]
fn promotion_does_not_postpone_the_deadline() {
    let mut config = one_by_one(Policy::PrioDeadline, 1);
    config.levels[Level::Critical.index()].deadline = Deadline::Fixed(1_000_000);
    config.levels[Level::Background.index()].deadline = Deadline::Fixed(1_000);
    let mut scheduler = Scheduler::new(config).unwrap();
    let near = scheduler
        .enqueue(0, read(0, 4096, Level::Critical))
        .unwrap();
    let promoted = scheduler
        .enqueue(0, read(1 << 30, 4096, Level::Background))
        .unwrap();
    assert!(scheduler.promote(promoted, Level::Critical));
    assert_eq!(drain(&mut scheduler, 2_000), [promoted, near]);
}

#[test]
fn requests_released_together_go_in_the_order_of_arrival() {
    let mut scheduler = Scheduler::new(one_by_one(Policy::Noop, 8)).unwrap();
    let wide = scheduler
        .enqueue(0, write(0, 65536, Level::Normal))
        .unwrap();
    let waiting: Vec<_> = (0..4u64)
        .map(|page| {
            scheduler
                .enqueue(0, read(page * 16384, 16384, Level::Normal))
                .unwrap()
        })
        .collect();
    let later = scheduler
        .enqueue(0, read(1 << 20, 4096, Level::Normal))
        .unwrap();
    let sent = dispatch(&mut scheduler, 0);
    assert_eq!(sent.iter().map(|t| t.0).collect::<Vec<_>>(), [wide, later]);
    scheduler.complete(0, wide, true);
    let order: Vec<_> = dispatch(&mut scheduler, 0)
        .into_iter()
        .map(|t| t.0)
        .collect();
    assert_eq!(order, waiting);
}

#[test]
fn a_write_is_not_held_by_the_gap_of_a_read() {
    let config = Config {
        merge_gap_bytes_max: 8192,
        ..Config::new(Policy::Noop)
    };
    let mut scheduler = Scheduler::new(config).unwrap();
    scheduler.enqueue(0, read(0, 4096, Level::Normal)).unwrap();
    scheduler
        .enqueue(0, read(8192, 4096, Level::Normal))
        .unwrap();
    assert_eq!(dispatch(&mut scheduler, 0).len(), 1);

    scheduler
        .enqueue(1, write(4096, 4096, Level::Normal))
        .unwrap();
    assert_eq!(scheduler.snapshot().held, 0);
    let held = scheduler.enqueue(1, write(8192, 1, Level::Normal)).unwrap();
    assert_eq!(scheduler.snapshot().held, 1);
    assert!(scheduler.cancel(held));
}

#[test]
fn a_started_request_moves_the_head() {
    let mut config = one_by_one(Policy::Lanes, 1);
    config.rotational = true;
    let mut scheduler = Scheduler::new(config).unwrap();
    let started = scheduler
        .start(0, read(1 << 20, 4096, Level::Normal))
        .unwrap();
    let below = scheduler.enqueue(0, read(0, 4096, Level::Normal)).unwrap();
    let above = scheduler
        .enqueue(0, read(2 << 20, 4096, Level::Normal))
        .unwrap();
    scheduler.complete(1, started, true);
    assert_eq!(drain(&mut scheduler, 1), [above, below]);
}

#[test]
fn noop_has_no_deadline_to_miss() {
    let mut scheduler = Scheduler::new(one_by_one(Policy::Noop, 1)).unwrap();
    scheduler.enqueue(0, read(0, 4096, Level::Normal)).unwrap();
    drain(&mut scheduler, 1_000_000_000_000);
    assert_eq!(scheduler.snapshot().expired, 0);
}

/// Under every policy that knows deadlines: ahead of those of its level whose
/// deadlines are later, and when it has passed ahead of position order too.
#[test]
fn a_deadline_of_its_own_is_kept() {
    const MS: u64 = 1_000_000;
    let within = |ms| Terms {
        alone: false,
        within_ns: Some(ms * MS),
    };
    for policy in [Policy::Deadline, Policy::PrioDeadline, Policy::Lanes] {
        let mut scheduler = Scheduler::new(one_by_one(policy, 1)).unwrap();
        let mut add = |page: u64, terms| {
            let request = read(page << 20, 4096, Level::Normal);
            scheduler.enqueue_with(0, request, terms).unwrap()
        };
        add(0, Terms::default());
        let later = add(1, within(3));
        let soon = add(2, within(1));
        // One that is later than its level's has no effect.
        add(3, within(1_000_000_000));
        let order = drain(&mut scheduler, 4 * MS);
        assert_eq!(order[0], soon, "{policy}");
        if policy != Policy::Deadline {
            // That one goes through a batch by position before it looks again.
            assert_eq!(order[1], later, "{policy}");
        }
        assert_eq!(scheduler.snapshot().expired, 2, "{policy}");
    }
}

#[test]
fn what_goes_alone_is_merged_with_no_neighbour() {
    for policy in Policy::ALL {
        let mut config = Config::new(policy);
        config.window = iolane_sched::WindowConfig::Fixed(16);
        for alone in 0..3u64 {
            let mut scheduler = Scheduler::new(config.clone()).unwrap();
            let mut lone = None;
            for page in 0..3u64 {
                let request = write(page * 4096, 4096, Level::Normal);
                match page == alone {
                    true => lone = scheduler.enqueue_with(0, request, ALONE).ok(),
                    false => drop(scheduler.enqueue(0, request).unwrap()),
                }
            }
            let sent = dispatch(&mut scheduler, 0);
            let members: usize = sent.iter().map(|(_, members)| members.len()).sum();
            assert_eq!(members, 3, "{policy}");
            let its = sent.iter().find(|(id, _)| Some(*id) == lone);
            assert_eq!(its.unwrap().1.len(), 1, "{policy}, page {alone}");
            // The others are neighbours unless it lies between them.
            let transfers = if alone == 1 { 3 } else { 2 };
            assert_eq!(sent.len(), transfers, "{policy}, page {alone}");
        }
    }
}
