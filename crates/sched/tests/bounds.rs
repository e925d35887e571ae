//! Limits: allocation groups, places in flight, settings, times.

mod common;

use common::{dispatch, drain, one_by_one, read, write};
use iolane_sched::{Config, ConfigError, Deadline, EnqueueError, Level, Policy, Scheduler};

#[test]
fn promoted_requests_still_count_against_their_own_group() {
    let mut config = one_by_one(Policy::Lanes, 1);
    for level in &mut config.levels {
        level.queued_max = 2;
    }
    let mut scheduler = Scheduler::new(config).unwrap();
    for page in 0..2 {
        let id = scheduler
            .enqueue(0, read(page * 8192, 4096, Level::Background))
            .unwrap();
        assert!(scheduler.promote(id, Level::Foreground));
    }
    // A promotion that made room would let requests in without end.
    assert_eq!(
        scheduler.enqueue(0, read(1 << 20, 4096, Level::Background)),
        Err(EnqueueError::GroupFull {
            level: Level::Background,
            limit: 2
        })
    );
    // And it takes nobody's place in the group above.
    scheduler
        .enqueue(0, read(2 << 20, 4096, Level::Foreground))
        .unwrap();
    scheduler
        .enqueue(0, read(3 << 20, 4096, Level::Foreground))
        .unwrap();
    assert_eq!(scheduler.snapshot().queued, [0, 4, 0, 0, 0]);
    assert_eq!(drain(&mut scheduler, 1).len(), 4);
    scheduler
        .enqueue(2, read(0, 4096, Level::Background))
        .unwrap();
}

/// A foreground that keeps every place in flight taken: each completion is
/// followed by the next foreground request.
fn background_waits_for(config: Config, step_ns: u64, steps: u64) -> Option<u64> {
    let mut scheduler = Scheduler::new(config).unwrap();
    let mut in_flight = std::collections::VecDeque::new();
    let mut offset = 1 << 30;
    let mut feed = |scheduler: &mut Scheduler, now_ns| {
        while scheduler.snapshot().queued[Level::Foreground.index()] < 16 {
            offset += 8192;
            scheduler
                .enqueue(now_ns, read(offset, 4096, Level::Foreground))
                .unwrap();
        }
    };
    feed(&mut scheduler, 0);
    in_flight.extend(dispatch(&mut scheduler, 0).into_iter().map(|t| t.0));
    let low = scheduler
        .enqueue(0, read(0, 4096, Level::Background))
        .unwrap();
    for step in 1..=steps {
        let now_ns = step * step_ns;
        feed(&mut scheduler, now_ns);
        scheduler.complete(now_ns, in_flight.pop_front().unwrap(), true);
        for (id, _) in dispatch(&mut scheduler, now_ns) {
            if id == low {
                return Some(step);
            }
            in_flight.push_back(id);
        }
    }
    None
}

#[test]
fn min_active_holds_when_the_foreground_takes_every_place() {
    let mut config = one_by_one(Policy::Lanes, 2);
    config.in_flight_max = 8;
    assert_eq!(background_waits_for(config, 1_000, 1_000), Some(1));
}

#[test]
fn min_active_goes_after_the_older_requests_of_a_foreground_that_overflows() {
    let mut config = one_by_one(Policy::Lanes, 2);
    config.in_flight_max = 2;
    let mut scheduler = Scheduler::new(config).unwrap();
    let enqueue = |scheduler: &mut Scheduler, now_ns: u64, level| {
        let page = read(now_ns * 8192, 4096, level);
        scheduler.enqueue(now_ns, page).unwrap()
    };
    let first = [0, 1].map(|now_ns| enqueue(&mut scheduler, now_ns, Level::Foreground));
    assert_eq!(dispatch(&mut scheduler, 1).len(), 2);
    let older = [2, 3].map(|now_ns| enqueue(&mut scheduler, now_ns, Level::Foreground));
    let low = enqueue(&mut scheduler, 4, Level::Background);
    let newer = enqueue(&mut scheduler, 5, Level::Foreground);
    let mut sent = Vec::new();
    for (now_ns, id) in [(6, first[0]), (7, first[1]), (8, older[0]), (9, older[1])] {
        scheduler.complete(now_ns, id, true);
        sent.extend(
            dispatch(&mut scheduler, now_ns)
                .into_iter()
                .map(|(id, _)| id),
        );
    }
    assert_eq!(sent, [older[0], older[1], low, newer]);
}

#[test]
fn without_min_active_a_level_goes_after_its_deadline() {
    let mut config = one_by_one(Policy::Lanes, 2);
    config.in_flight_max = 8;
    let background = &mut config.levels[Level::Background.index()];
    background.min_active = 0;
    background.deadline = Deadline::Fixed(100_000);
    let steps = background_waits_for(config, 1_000, 1_000).expect("it goes at last");
    assert!((100..=108).contains(&steps), "{steps}");
}

#[test]
fn an_expired_request_does_not_need_eight_calls() {
    let mut config = one_by_one(Policy::Lanes, 1);
    let background = &mut config.levels[Level::Background.index()];
    background.min_active = 0;
    background.deadline = Deadline::Fixed(10);
    let mut scheduler = Scheduler::new(config).unwrap();
    for page in 0..3 {
        scheduler
            .enqueue(0, read(page * 8192, 4096, Level::Normal))
            .unwrap();
    }
    scheduler
        .enqueue(0, read(1 << 20, 4096, Level::Background))
        .unwrap();
    assert_eq!(dispatch(&mut scheduler, 0).len(), 1);
    assert_eq!(dispatch(&mut scheduler, 10).len(), 1);
    assert_eq!(scheduler.snapshot().in_flight, [0, 0, 1, 0, 1]);
}

#[test]
fn the_fast_path_leaves_the_last_place_to_a_starving_level() {
    let mut config = one_by_one(Policy::Lanes, 1);
    config.in_flight_max = 2;
    let mut scheduler = Scheduler::new(config).unwrap();
    let mut started =
        [0, 8192].map(|at| scheduler.start(0, read(at, 1, Level::Foreground)).unwrap());
    scheduler
        .enqueue(0, read(1 << 20, 4096, Level::Background))
        .unwrap();
    assert!(dispatch(&mut scheduler, 0).is_empty());
    started.sort_by_key(|id| id.slot());
    scheduler.complete(1, started[0], true);
    assert_eq!(scheduler.start(1, read(0, 1, Level::Foreground)), None);
    assert_eq!(dispatch(&mut scheduler, 1).len(), 1);
    assert_eq!(scheduler.snapshot().in_flight, [0, 1, 0, 0, 1]);
}

#[test]
fn what_went_unasked_counts_beyond_every_limit() {
    let mut config = one_by_one(Policy::Lanes, 1);
    config.in_flight_max = 2;
    let mut scheduler = Scheduler::new(config).unwrap();
    let unasked = [0, 1, 2].map(|at| {
        let request = read(at * 4096, 4096, Level::Foreground);
        scheduler.note_started(0, request).unwrap()
    });
    assert_eq!(scheduler.snapshot().in_flight, [0, 3, 0, 0, 0]);
    assert!(!scheduler.has_room(Level::Foreground));
    let later = read(1 << 20, 4096, Level::Background);
    scheduler.enqueue(0, later).unwrap();
    for (ended, id) in unasked.into_iter().enumerate() {
        assert_eq!(dispatch(&mut scheduler, 1).len(), usize::from(ended == 2));
        scheduler.complete(1, id, true);
    }
    assert_eq!(scheduler.snapshot().in_flight, [0, 0, 0, 0, 1]);
    let empty = read(0, 0, Level::Foreground);
    assert!(scheduler.note_started(1, empty).is_err());
}

#[test]
fn what_went_unasked_holds_back_what_comes_after_it_alone() {
    let mut scheduler = Scheduler::new(one_by_one(Policy::Lanes, 8)).unwrap();
    scheduler.enqueue(0, write(0, 4096, Level::Normal)).unwrap();
    let unasked = scheduler.note_started(0, read(0, 8192, Level::Foreground));
    scheduler
        .enqueue(0, write(4096, 4096, Level::Normal))
        .unwrap();
    assert_eq!(scheduler.snapshot().held, 1);
    assert_eq!(dispatch(&mut scheduler, 0).len(), 1);
    scheduler.complete(1, unasked.unwrap(), true);
    assert_eq!(dispatch(&mut scheduler, 1).len(), 1);
}

#[test]
fn gaps_halve_the_members_of_a_transfer() {
    let config = |members, gap| Config {
        transfer_members_max: members,
        merge_gap_bytes_max: gap,
        ..Config::new(Policy::Lanes)
    };
    assert_eq!(config(1024, 0).validate(), Ok(()));
    assert_eq!(config(512, 4096).validate(), Ok(()));
    assert!(matches!(
        config(513, 4096).validate(),
        Err(ConfigError::OutOfRange {
            name: "transfer_members_max",
            max: 512,
            ..
        })
    ));
}

#[test]
fn the_ends_of_time_and_space() {
    for policy in Policy::ALL {
        let mut config = one_by_one(policy, 4);
        config.merge_gap_bytes_max = 1 << 20;
        config.transfer_members_max = 8;
        config.levels[0].deadline = Deadline::Fixed(u64::MAX);
        config.levels[1].deadline = Deadline::ServiceTimes(u32::MAX);
        config.deadline_write_ns = u64::MAX;
        let mut scheduler = Scheduler::new(config).unwrap();
        let top = i64::MAX as u64;
        for now_ns in [0, u64::MAX - 1, u64::MAX] {
            for level in Level::ALL {
                scheduler
                    .enqueue(now_ns, read(top - 4096, 4096, level))
                    .unwrap();
                scheduler
                    .enqueue(now_ns, write(top - 8192, 4096, level))
                    .unwrap();
            }
        }
        assert!(matches!(
            scheduler.enqueue(0, read(top, 1, Level::Normal)),
            Err(EnqueueError::Range { .. })
        ));
        assert_eq!(drain(&mut scheduler, u64::MAX).len(), 30);
        assert_eq!(scheduler.outstanding(), 0);
    }
}
