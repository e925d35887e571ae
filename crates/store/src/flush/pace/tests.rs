use super::*;

const FRAMES: usize = 1000;
const BATCH: usize = 128;
const FLIGHTS: usize = 4;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A pool at ease, in which nothing happens.
const EASE: Situation = Situation {
    frames: FRAMES,
    free: 0,
    dirty: 0,
    passed: 0,
    writing: 0,
    copying: 0,
    is_low: false,
    frame_wanted: false,
    room_wanted: false,
    checkpoint_wanted: false,
    pressure: 0.1,
    changes: 1,
    reads: 1,
    stopped: false,
};

fn free(percent: usize) -> Situation {
    Situation {
        dirty: FRAMES * (100 - percent) / 100,
        ..EASE
    }
}

/// What is written with high and with low priority in a second that begins at
/// `ms`, when there is always enough.
fn second(pace: &mut Pace, ms: u64, seen: &Situation) -> (usize, usize, usize) {
    let (mut high, mut low, mut most) = (0, 0, 0);
    for step in 0..99 {
        let now = at(ms + step * 10);
        while let Some(order) = pace.next(now, seen) {
            assert_eq!((order.flights, order.line), (1, f64::INFINITY));
            match order.haste {
                Haste::Urgent => high += order.pages,
                Haste::Raised => low += order.pages,
                Haste::Low => panic!("a level of its own"),
            }
            most = most.max(order.pages);
            pace.begun(now, &order, order.pages);
        }
    }
    (high, low, most)
}

/// The paper, section 4.4.
#[test]
fn the_steps_are_the_papers() {
    let mut pace = Pace::new(Preflush::Steps, BATCH, FLIGHTS);
    let expected = [
        (80, (0, 0)),
        (50, (0, 0)),
        (49, (0, 64)),
        (41, (0, 64)),
        (40, (0, 5 * 64)),
        (39, (0, 10 * 64)),
        (11, (0, 10 * 64)),
        (10, (100, 100)),
        (3, (100, 100)),
        (60, (0, 0)),
    ];
    for (number, (percent, (high, low))) in expected.into_iter().enumerate() {
        let begin = 1000 * (number as u64 + 1);
        let found = second(&mut pace, begin, &free(percent));
        assert_eq!((found.0, found.1), (high, low), "{percent} % free");
        assert!(found.2 <= BATCH);
    }
}

/// High priority comes first, and pages under way are not free.
#[test]
fn pages_being_written_are_not_free_for_the_steps() {
    let mut pace = Pace::new(Preflush::Steps, BATCH, FLIGHTS);
    let seen = Situation {
        dirty: 100,
        writing: 800,
        ..EASE
    };
    let order = pace.next(at(1000), &seen).unwrap();
    assert_eq!((order.haste, order.pages), (Haste::Urgent, 100));
    pace.begun(at(1000), &order, 100);
    let order = pace.next(at(1001), &seen).unwrap();
    assert_eq!((order.haste, order.pages), (Haste::Raised, 100));
}

#[test]
fn the_conservative_policy_writes_when_there_is_nothing_else_to_do() {
    let mut pace = Pace::new(Preflush::Idle, BATCH, FLIGHTS);
    // Reads are activity, and so are changes.
    for ms in 0..50 {
        let seen = Situation {
            reads: 2 + ms,
            ..free(5)
        };
        assert_eq!(pace.next(at(ms * 100), &seen), None);
        let seen = Situation {
            changes: 2 + ms,
            ..free(5)
        };
        assert_eq!(pace.next(at(ms * 100 + 50), &seen), None);
    }
    let still = free(5);
    assert_eq!(pace.next(at(5000), &still), None);
    assert_eq!(second(&mut pace, 6100, &still), (0, IDLE_PAGES, IDLE_PAGES));
    assert_eq!(second(&mut pace, 7200, &still), (0, IDLE_PAGES, IDLE_PAGES));
}

#[test]
fn the_conservative_policies_write_in_small_batches_for_those_who_wait() {
    for policy in [Preflush::Idle, Preflush::Steps] {
        let mut pace = Pace::new(policy, BATCH, FLIGHTS);
        let seen = Situation {
            frame_wanted: true,
            ..free(100)
        };
        let order = pace.next(at(10), &seen).unwrap();
        assert_eq!((order.pages, order.flights), (PRESSED_PAGES, 1));
        assert_eq!((order.haste, order.cleaning), (Haste::Urgent, true));
        let seen = Situation {
            room_wanted: true,
            pressure: 1.0,
            ..free(100)
        };
        let order = pace.next(at(20), &seen).unwrap();
        assert_eq!((order.line, order.cleaning), (PRESSED_LOG, false));
        // No sooner, however full the log.
        let seen = Situation {
            room_wanted: false,
            ..seen
        };
        assert_eq!(pace.next(at(30), &seen), None);
    }
}

#[test]
fn the_steady_policy_rises_with_the_pressure() {
    let mut pace = Pace::new(Preflush::Steady, BATCH, FLIGHTS);
    let mut changes = 1;
    let mut seen_at = |ms: u64, pressure: f64, dirty: usize| {
        changes += 1;
        let seen = Situation {
            pressure,
            dirty,
            changes,
            ..EASE
        };
        let order = pace.next(at(ms), &seen).unwrap();
        (order.haste, order.line, order.flights)
    };
    assert_eq!(seen_at(1, 0.2, 0), (Haste::Low, 0.0, 2));
    // More of the log the fuller it is.
    let (haste, line, _) = seen_at(2, 0.6, 0);
    assert!(haste == Haste::Low && line > 0.1 && line < 0.2, "{line}");
    let (haste, line, flights) = seen_at(3, 0.8, 0);
    assert!(haste == Haste::Raised && line > 0.3 && line < 0.5, "{line}");
    assert_eq!(flights, FLIGHTS);
    assert_eq!(seen_at(4, 0.9, 0).0, Haste::Urgent);
    // Dirty frames before those are missing.
    assert_eq!(seen_at(5, 0.2, 300), (Haste::Low, f64::INFINITY, FLIGHTS));
    assert_eq!(
        seen_at(6, 0.2, 600),
        (Haste::Raised, f64::INFINITY, FLIGHTS)
    );
    assert_eq!(
        seen_at(7, 0.2, 750),
        (Haste::Urgent, f64::INFINITY, FLIGHTS)
    );
}

#[test]
fn the_steady_policy_leaves_changes_in_memory_while_frames_are_free() {
    let mut pace = Pace::new(Preflush::Steady, BATCH, FLIGHTS);
    let order_of = |pace: &mut Pace, free: usize, pressure: f64| {
        let seen = Situation {
            dirty: FRAMES / 2 + 1,
            free,
            pressure,
            ..EASE
        };
        pace.next(at(0), &seen)
            .map(|order| (order.line, order.haste))
    };
    let all = Some((f64::INFINITY, Haste::Raised));
    assert_eq!(order_of(&mut pace, 0, 0.1), all);
    assert_eq!(order_of(&mut pace, FRAMES / 8, 0.1), all);
    assert_eq!(
        order_of(&mut pace, FRAMES / 4, 0.1),
        Some((0.0, Haste::Low))
    );
    // But not beyond what the log holds.
    assert_eq!(
        order_of(&mut pace, FRAMES / 4, 1.0),
        Some((0.5, Haste::Urgent))
    );
}

/// However few are dirty: what a change of many pages has passed is written
/// behind it, at the lowest level.
#[test]
fn the_steady_policy_follows_a_change_of_many_pages() {
    let mut pace = Pace::new(Preflush::Steady, BATCH, FLIGHTS);
    let mut next = |passed: usize| {
        let seen = Situation {
            dirty: 100,
            passed,
            changes: 1 + passed as u64,
            ..EASE
        };
        pace.next(at(1), &seen).unwrap()
    };
    // Two batches are enough for what comes now and then.
    let order = next(BATCH / 4 - 1);
    assert_eq!((order.passed, order.flights), (true, FLIGHTS / 2));
    let order = next(BATCH / 4);
    assert_eq!((order.passed, order.flights), (true, FLIGHTS));
    // Others are still left to their age.
    assert_eq!((order.haste, order.line), (Haste::Low, 0.0));
    assert_eq!((order.pages, order.pages_min), (BATCH, BATCH / 4));
    for policy in [Preflush::Idle, Preflush::Steps] {
        let mut pace = Pace::new(policy, BATCH, FLIGHTS);
        let seen = Situation {
            passed: BATCH,
            ..EASE
        };
        assert_eq!(pace.next(at(1), &seen), None);
        let pressed = Situation {
            frame_wanted: true,
            ..seen
        };
        assert!(!pace.next(at(2), &pressed).unwrap().passed);
    }
}

#[test]
fn the_steady_policy_writes_few_pages_rarely_unless_they_are_needed() {
    let mut pace = Pace::new(Preflush::Steady, BATCH, FLIGHTS);
    let busy = |changes| Situation { changes, ..EASE };
    let order = pace.next(at(0), &busy(2)).unwrap();
    pace.begun(at(0), &order, 40);
    assert_eq!(pace.next(at(100), &busy(3)).unwrap().pages_min, BATCH / 4);
    assert_eq!(pace.next(at(260), &busy(4)).unwrap().pages_min, 1);
    pace.begun(at(260), &order, 1);
    assert_eq!(pace.next(at(270), &busy(5)).unwrap().pages_min, BATCH / 4);
    let low = Situation {
        is_low: true,
        ..busy(6)
    };
    let order = pace.next(at(280), &low).unwrap();
    assert_eq!((order.pages_min, order.haste), (1, Haste::Raised));
    // After half a second without a change, all; reads do not count.
    let read = Situation {
        reads: 9,
        ..busy(6)
    };
    let order = pace.next(at(790), &read).unwrap();
    assert_eq!((order.pages_min, order.line), (1, f64::INFINITY));
}

/// Half of the batches may go to the area, so that the others are on their way to
/// their places meanwhile.
#[test]
fn the_steady_policy_keeps_batches_out_of_step() {
    let mut pace = Pace::new(Preflush::Steady, BATCH, FLIGHTS);
    let seen = Situation {
        copying: FLIGHTS / 2,
        ..free(40)
    };
    assert_eq!(pace.next(at(1), &seen), None);
    let fewer = Situation {
        copying: FLIGHTS / 2 - 1,
        ..seen
    };
    assert_eq!(pace.next(at(2), &fewer).unwrap().haste, Haste::Raised);
    let for_a_frame = Situation {
        frame_wanted: true,
        ..seen
    };
    let for_a_checkpoint = Situation {
        checkpoint_wanted: true,
        ..seen
    };
    for waiting in [for_a_frame, for_a_checkpoint] {
        assert_eq!(pace.next(at(3), &waiting).unwrap().flights, FLIGHTS);
    }
}

/// Ahead of backups and behind queries, whatever the policy; but who waits for a
/// frame or for room comes first.
#[test]
fn a_checkpoint_that_is_waited_for_is_raised() {
    for policy in [Preflush::Idle, Preflush::Steps, Preflush::Steady] {
        let mut pace = Pace::new(policy, BATCH, FLIGHTS);
        let wanted = Situation {
            checkpoint_wanted: true,
            ..EASE
        };
        assert_eq!(wanted.waited_for(), Some(Haste::Raised));
        for ms in [1, 2] {
            let order = pace.next(at(ms), &wanted).unwrap();
            assert_eq!((order.haste, order.pages_min), (Haste::Raised, 1));
            assert_eq!((order.pages, order.line), (BATCH, 0.0));
            pace.begun(at(ms), &order, 1);
        }
        let pressed = Situation {
            frame_wanted: true,
            ..wanted
        };
        assert_eq!(pressed.waited_for(), Some(Haste::Urgent));
        assert_eq!(pace.next(at(3), &pressed).unwrap().haste, Haste::Urgent);
    }
    let mut pace = Pace::new(Preflush::Steady, BATCH, FLIGHTS);
    let full = Situation {
        checkpoint_wanted: true,
        pressure: 0.9,
        ..EASE
    };
    assert_eq!(pace.next(at(1), &full).unwrap().haste, Haste::Urgent);
    assert_eq!(EASE.waited_for(), None);
}

#[test]
fn at_the_end_everything_is_written() {
    for policy in [Preflush::Idle, Preflush::Steps, Preflush::Steady] {
        let mut pace = Pace::new(policy, BATCH, FLIGHTS);
        let seen = Situation {
            stopped: true,
            ..EASE
        };
        let order = pace.next(at(0), &seen).unwrap();
        assert_eq!((order.pages, order.flights), (BATCH, FLIGHTS));
        assert_eq!((order.pages_min, order.line), (1, f64::INFINITY));
    }
}

#[test]
fn without_priorities_all_levels_are_alike() {
    let with = IoPolicy::AGGRESSIVE;
    let levels = [Haste::Low, Haste::Raised, Haste::Urgent].map(|haste| haste.level(&with));
    let expected = [Level::Background, Level::Prefetch, Level::Foreground];
    assert_eq!(levels, expected);
    let without = IoPolicy {
        priorities: false,
        ..with
    };
    let levels = [Haste::Low, Haste::Urgent].map(|haste| haste.level(&without));
    assert_eq!(levels, [Level::Normal; 2]);
}
