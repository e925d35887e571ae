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
