//! Nothing starves beyond its bound.

mod common;

use common::workload::{config, level};
use iolane_sched::{
    Batch, Config, Deadline, Kind, Level, Policy, Request, RequestId, Scheduler, WindowConfig,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Requests of different pages, so that none is held.
fn page(number: usize, place: u64, kind: Kind, level: Level) -> Request {
    Request {
        kind,
        file: 0,
        offset: (place * 4096 + number as u64 % 4096) * 8192,
        length: 4096,
        level,
        durable: false,
    }
}

proptest! {
    #![proptest_config(iolane_testing::cases(200))]

    /// `lanes`: a level that has something queued is passed by at most
    /// 2 x `in_flight_max` completions between two transfers of its own, if
    /// its `min_active` is 1 or more and `in_flight_max` suffices for the
    /// `min_active` of all levels, on a device that completes in order. Why:
    /// its own transfers in flight end within `in_flight_max` completions;
    /// from then on it is below its `min_active`, and of the others in flight
    /// at most `in_flight_max`, all older, end before a place comes free that
    /// no other such level can claim. What is queued for somebody who waits, and is
    /// older than all that the level has queued, goes before and does not count.
    #[test]
    fn every_lane_moves(
        base in config(),
        window in 1u32..12,
        spare in 0u32..4,
        min_active in prop::collection::vec(1u32..4, Level::COUNT),
        arrivals in prop::collection::vec((level(), 0u64..64, 0u64..20), 200..600),
    ) {
        let mut config = Config { policy: Policy::Lanes, window: WindowConfig::Fixed(window), ..base };
        config.in_flight_max = spare + min_active.iter().sum::<u32>();
        for (level, min_active) in config.levels.iter_mut().zip(min_active) {
            level.min_active = min_active;
            level.queued_max = 64;
        }
        let bound = 2 * config.in_flight_max;
        let mut scheduler = Scheduler::new(config).unwrap();
        let mut in_flight = VecDeque::new();
        let mut batch = Batch::default();
        let mut passed = [0; Level::COUNT];
        let mut queued: Vec<(Level, u64, RequestId)> = Vec::new();
        for (number, (level, place, wait_ns)) in arrivals.into_iter().enumerate() {
            let now_ns = number as u64 * 20 + wait_ns;
            // More come than go, so that the levels stay full; those above
            // more than those below.
            for extra in 0..2 {
                let level = Level::ALL[level.index() * extra];
                let page = page(number, place * 2 + extra as u64, Kind::Read, level);
                let id = scheduler.enqueue(now_ns, page);
                queued.extend(id.map(|id| (level, now_ns, id)));
            }
            if let Some(id) = in_flight.pop_front() {
                scheduler.complete(now_ns, id, true);
                passed = passed.map(|count| count + 1);
            }
            batch.clear();
            scheduler.dispatch(now_ns, &mut batch);
            for transfer in &batch.transfers {
                in_flight.push_back(transfer.id);
                passed[transfer.level.index()] = 0;
            }
            queued.retain(|one| !batch.members.iter().any(|member| member.id == one.2));
            for level in Level::ALL {
                let oldest = |level| queued.iter().filter(|one| one.0 == level).map(|one| one.1).min();
                let urgent = [Level::Critical, Level::Foreground].into_iter().filter_map(oldest).min();
                let is_behind = level > Level::Foreground && urgent < oldest(level) && urgent.is_some();
                if oldest(level).is_none() || is_behind {
                    passed[level.index()] = 0;
                }
                prop_assert!(passed[level.index()] <= bound, "{level}: {passed:?}, bound {bound}");
            }
        }
    }

    /// `lanes` without room for every `min_active`: a request whose deadline
    /// has passed is passed by at most 7 others for each expired one that goes
    /// before it, those with an earlier deadline.
    #[test]
    fn an_expired_lane_moves(
        in_flight_max in 1u32..5,
        min_active in prop::collection::vec(0u32..3, Level::COUNT),
        levels in prop::collection::vec(level(), 400),
    ) {
        let mut config = common::one_by_one(Policy::Lanes, 1);
        config.in_flight_max = in_flight_max;
        for (level, min_active) in config.levels.iter_mut().zip(min_active) {
            level.min_active = min_active;
            level.deadline = Deadline::Fixed(0);
            level.queued_max = 8;
        }
        let mut scheduler = Scheduler::new(config).unwrap();
        let mut in_flight = VecDeque::new();
        let mut batch = Batch::default();
        let mut waiting: Vec<(u64, RequestId, u32)> = Vec::new();
        for (number, level) in levels.into_iter().enumerate() {
            let now_ns = number as u64;
            for level in [Level::Critical, Level::Foreground, level] {
                let request = page(number, level.index() as u64, Kind::Read, level);
                if let Ok(id) = scheduler.enqueue(now_ns, request) {
                    waiting.push((now_ns, id, 0));
                }
            }
            if let Some(id) = in_flight.pop_front() {
                scheduler.complete(now_ns, id, true);
            }
            batch.clear();
            scheduler.dispatch(now_ns, &mut batch);
            for member in &batch.members {
                in_flight.push_back(member.id);
                waiting.retain(|entry| entry.1 != member.id);
                for entry in &mut waiting {
                    entry.2 += 1;
                }
            }
            // 5 groups of 8, so at most 39 wait before it, each with 7 others;
            // and those that took the places before it.
            for (_, id, passed) in &waiting {
                prop_assert!(*passed <= 40 * 8 + in_flight_max, "{id:?} passed by {passed}");
            }
        }
    }

    /// `prio-deadline`: once a deadline has passed, only requests of an
    /// earlier or the same deadline go before it.
    #[test]
    fn what_expired_first_goes_first(
        arrivals in prop::collection::vec((level(), 0u64..64, 0u64..400, any::<bool>()), 1..300),
    ) {
        let mut config = common::one_by_one(Policy::PrioDeadline, 1);
        for (index, level) in config.levels.iter_mut().enumerate() {
            level.deadline = Deadline::Fixed(500 * (index as u64 + 1));
        }
        let mut scheduler = Scheduler::new(config.clone()).unwrap();
        let mut waiting = Vec::new();
        let mut now_ns = 0;
        let mut arrivals = arrivals.into_iter().enumerate();
        let mut more = true;
        while more || !waiting.is_empty() {
            for (number, (level, place, wait_ns, write)) in arrivals.by_ref().take(3) {
                now_ns += wait_ns;
                let kind = if write { Kind::Write } else { Kind::Read };
                let id = scheduler.enqueue(now_ns, page(number, place, kind, level)).unwrap();
                waiting.push((now_ns + 500 * (level.index() as u64 + 1), id));
            }
            more = arrivals.len() > 0;
            now_ns += 300;
            for (id, _) in common::dispatch(&mut scheduler, now_ns) {
                let at = waiting.iter().position(|entry| entry.1 == id).unwrap();
                let (deadline_ns, _) = waiting.remove(at);
                let earliest_ns = waiting.iter().map(|entry| entry.0).min().unwrap_or(u64::MAX);
                prop_assert!(earliest_ns > now_ns || deadline_ns <= earliest_ns);
                scheduler.complete(now_ns, id, true);
            }
        }
    }

    /// `deadline`: the oldest request of a direction, once expired, is passed
    /// by at most the rest of a batch of 16 and two batches of reads.
    #[test]
    fn neither_direction_starves(
        arrivals in prop::collection::vec((0u64..64, any::<bool>(), 1usize..4), 100..400),
    ) {
        let mut config = common::one_by_one(Policy::Deadline, 1);
        (config.deadline_read_ns, config.deadline_write_ns) = (1_000, 2_000);
        let offset_ns = |kind| if kind == Kind::Write { 2_000 } else { 1_000 };
        let mut scheduler = Scheduler::new(config).unwrap();
        let mut waiting: Vec<(u64, Kind, iolane_sched::RequestId)> = Vec::new();
        let mut passed = [0; 2];
        for (number, (place, write, count)) in arrivals.into_iter().enumerate() {
            let now_ns = number as u64 * 100;
            let kind = if write { Kind::Write } else { Kind::Read };
            for extra in 0..count {
                let request = page(number, place * 4 + extra as u64, kind, Level::Normal);
                let id = scheduler.enqueue(now_ns, request).unwrap();
                waiting.push((now_ns, kind, id));
            }
            for (id, _) in common::dispatch(&mut scheduler, now_ns) {
                for kind in [Kind::Read, Kind::Write] {
                    let oldest = waiting.iter().find(|entry| entry.1 == kind);
                    let expired = oldest.filter(|entry| entry.0 + offset_ns(kind) <= now_ns);
                    let passed = &mut passed[usize::from(kind == Kind::Write)];
                    match expired {
                        Some(entry) if entry.2 != id => *passed += 1,
                        _ => *passed = 0,
                    }
                    prop_assert!(*passed <= 48, "{kind:?}");
                }
                waiting.retain(|entry| entry.2 != id);
                scheduler.complete(now_ns, id, true);
            }
        }
    }
}

/// A disk that goes where its head is nearest serves a sorted background before
/// a foreground read elsewhere, as long as it has any. `lanes` finds that: then it sends
/// no more than a windowful after the read, so that it has none left after two, or nothing.
#[test]
fn what_a_device_prefers_overtakes_a_foreground_by_two_windowfuls() {
    let mut scheduler = Scheduler::new(Config::new(Policy::Lanes)).unwrap();
    let mut batch = Batch::default();
    let mut lower = VecDeque::new();
    let mut place = 0;
    let mut within = 0;
    for round in 0..300u64 {
        let mut now_ns = (round + 1) * 1_000_000_000;
        let read = page(0, 1 << 20, Kind::Read, Level::Foreground);
        let foreground = scheduler.start(now_ns, read).unwrap();
        let limit = scheduler.snapshot().window.transfers.ceil() as u32;
        // What the device has next it has chosen before the next can come.
        let (mut served, mut chosen) = (0, None);
        loop {
            while scheduler.snapshot().queued[4] < 64 {
                place += 1;
                let background = page(0, place, Kind::Read, Level::Background);
                scheduler.enqueue(now_ns, background).unwrap();
            }
            batch.clear();
            scheduler.dispatch(now_ns, &mut batch);
            lower.extend(batch.transfers.iter().map(|transfer| transfer.id));
            if served > 0 && chosen.is_none() || served > 1000 {
                break;
            }
            now_ns += 4_000_000;
            if let Some(id) = chosen.or_else(|| lower.pop_front()) {
                scheduler.complete(now_ns, id, true);
                served += 1;
            }
            chosen = lower.pop_front();
        }
        now_ns += 4_000_000;
        scheduler.complete(now_ns, foreground, true);
        // It tries what is next to that now and then.
        if round >= 200 {
            within += u32::from(served <= 2 * limit + 2);
        }
    }
    assert!(within >= 90, "{within} of 100");
}
