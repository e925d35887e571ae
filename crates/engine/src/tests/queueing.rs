//! Queued requests: order, promotion, cancellation, allocation groups, the
//! end of the engine.

use super::{BLOCK, Rig, at};
use crate::backend::OpCode;
use crate::{Cause, Level, OpenOptions, Operation, Policy, WindowConfig};
use std::sync::mpsc;
use std::time::Duration;

/// The first request fills the window, the others queue behind it.
#[test]
fn merged_neighbours_get_their_own_bytes() {
    let rig = Rig::new(1, 100);
    rig.control.hold();
    let first = rig
        .file
        .read(vec![0; BLOCK], at(100), Level::Normal)
        .unwrap();
    rig.control.wait_seen(1);
    let blocks = [7, 5, 6, 9];
    let pending: Vec<_> = blocks
        .iter()
        .map(|&block| {
            rig.file
                .read(vec![0; BLOCK], at(block), Level::Normal)
                .unwrap()
        })
        .collect();
    rig.control.release();
    for (block, pending) in blocks.into_iter().zip(pending) {
        let completion = pending.wait();
        assert_eq!(completion.result.unwrap(), BLOCK);
        assert_eq!(completion.buffer, [block as u8; BLOCK]);
    }
    first.wait().result.unwrap();
    let read = |block| (OpCode::Read, at(block));
    assert_eq!(rig.control.seen(), [read(100), read(5), read(9)]);
    let statistics = rig.file.device().statistics();
    assert_eq!(statistics.total().read.merged, 3);
    assert_eq!(statistics.total().read.requests, 5);
    assert_eq!(statistics.transfers, 3);
    assert_eq!(statistics.outstanding.count(), 0);
}

#[test]
fn gaps_are_read_through_and_thrown_away() {
    let control = std::sync::Arc::new(super::faulty::Control::default());
    let rig = Rig::new(1, 100);
    let engine = crate::Engine::builder()
        .policy(Policy::Noop)
        .open_backend(super::faulty::opener(&control))
        .configure(|_, config| {
            config.window = WindowConfig::Fixed(1);
            config.merge_gap_bytes_max = 2 * BLOCK as u32;
        })
        .build()
        .unwrap();
    let file = engine
        .open(rig.file.path(), OpenOptions::new().read(true))
        .unwrap();
    control.hold();
    let first = file.read(vec![0; BLOCK], at(100), Level::Normal).unwrap();
    control.wait_seen(1);
    let near = file.read(vec![0; BLOCK], at(10), Level::Normal).unwrap();
    let far = file.read(vec![0; BLOCK], at(13), Level::Normal).unwrap();
    control.release();
    assert_eq!(near.wait().buffer, [10; BLOCK]);
    assert_eq!(far.wait().buffer, [13; BLOCK]);
    first.wait().result.unwrap();
    assert_eq!(control.seen().len(), 2, "{:?}", control.seen());
}

#[test]
fn a_queued_request_can_be_cancelled_and_one_in_flight_cannot() {
    let rig = Rig::new(1, 100);
    rig.control.hold();
    let in_flight = rig.file.read(vec![1; BLOCK], 0, Level::Normal).unwrap();
    rig.control.wait_seen(1);
    let queued = rig
        .file
        .read(vec![2; BLOCK], at(50), Level::Normal)
        .unwrap();
    assert_eq!(queued.cancel().unwrap(), vec![2; BLOCK]);
    let in_flight = in_flight.cancel().unwrap_err();
    rig.control.release();
    assert_eq!(in_flight.wait().result.unwrap(), BLOCK);
    assert_eq!(rig.control.seen(), [(OpCode::Read, 0)]);
    assert_eq!(rig.file.device().snapshot().queued, [0; 5]);
}

#[test]
fn a_promoted_request_goes_first() {
    let rig = Rig::new(1, 100);
    rig.file
        .device()
        .set_policy(Policy::Lanes, WindowConfig::Fixed(1))
        .unwrap();
    rig.control.hold();
    let first = rig.file.read(vec![0; BLOCK], 0, Level::Normal).unwrap();
    rig.control.wait_seen(1);
    let normal = rig
        .file
        .read(vec![0; BLOCK], at(20), Level::Normal)
        .unwrap();
    let ahead = rig
        .file
        .read(vec![0; BLOCK], at(40), Level::Prefetch)
        .unwrap();
    assert!(ahead.promote(Level::Foreground));
    rig.control.release();
    assert_eq!(ahead.wait().buffer, [40; BLOCK]);
    normal.wait().result.unwrap();
    first.wait().result.unwrap();
    let read = |block| (OpCode::Read, at(block));
    assert_eq!(rig.control.seen(), [read(0), read(40), read(20)]);
    let levels = rig.file.device().statistics().levels;
    assert_eq!(levels[Level::Foreground.index()].read.requests, 1);
    assert_eq!(levels[Level::Prefetch.index()].read.requests, 0);
}

#[test]
fn a_deadline_of_a_request_is_kept_in_its_level() {
    let rig = Rig::new(1, 100);
    rig.file
        .device()
        .set_policy(Policy::PrioDeadline, WindowConfig::Fixed(1))
        .unwrap();
    rig.control.hold();
    let first = rig.file.read(vec![0; BLOCK], 0, Level::Normal).unwrap();
    rig.control.wait_seen(1);
    let mut batch = rig.file.device().batch();
    let mut read = |block, deadline| {
        batch.set_deadline(deadline);
        batch
            .read(&rig.file, vec![0; BLOCK], at(block), Level::Normal)
            .unwrap()
    };
    let others = [read(20, None), read(60, Some(Duration::from_secs(7200)))];
    let soon = read(40, Some(Duration::from_nanos(1)));
    batch.submit();
    rig.control.release();
    assert_eq!(soon.wait().buffer, [40; BLOCK]);
    for other in others.into_iter().chain([first]) {
        other.wait().result.unwrap();
    }
    let seen = rig.control.seen();
    assert_eq!(seen[..2], [(OpCode::Read, 0), (OpCode::Read, at(40))]);
}

#[test]
fn a_full_group_blocks_threads_and_refuses_others() {
    let rig = Rig::new(1, 2);
    rig.control.hold();
    let level = Level::Background;
    let mut pending = vec![rig.file.read(vec![0; BLOCK], 0, level).unwrap()];
    rig.control.wait_seen(1);
    for block in [20, 40] {
        pending.push(rig.file.read(vec![0; BLOCK], at(block), level).unwrap());
    }
    let refused = rig
        .file
        .try_read(vec![9; BLOCK], at(60), level)
        .unwrap_err();
    assert_eq!(refused.buffer, vec![9; BLOCK]);
    assert!(
        matches!(
            refused.error.cause(),
            Cause::QueueFull {
                level: Level::Background,
                limit: 2
            }
        ),
        "{refused}"
    );
    // Another level has its own group.
    pending.push(
        rig.file
            .try_read(vec![0; BLOCK], at(80), Level::Normal)
            .unwrap(),
    );

    let (sender, receiver) = mpsc::channel();
    let file = rig.file.clone();
    let blocked = std::thread::spawn(move || {
        let pending = file.read(vec![0; BLOCK], at(100), level).unwrap();
        sender.send(()).unwrap();
        pending.wait().result.unwrap()
    });
    assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err());
    rig.control.release();
    assert_eq!(blocked.join().unwrap(), BLOCK);
    for pending in pending {
        pending.wait().result.unwrap();
    }
}

#[test]
fn a_group_full_of_promoted_requests_blocks_threads_too() {
    let rig = Rig::new(1, 2);
    rig.control.hold();
    let level = Level::Background;
    let mut pending = vec![rig.file.read(vec![0; BLOCK], 0, level).unwrap()];
    rig.control.wait_seen(1);
    for block in [20, 40] {
        let queued = rig.file.read(vec![0; BLOCK], at(block), level).unwrap();
        assert!(queued.promote(Level::Foreground));
        pending.push(queued);
    }
    let (sender, receiver) = mpsc::channel();
    let file = rig.file.clone();
    std::thread::spawn(move || {
        let pending = file.read(vec![0; BLOCK], at(60), level).unwrap();
        sender.send(pending.wait().result.unwrap())
    });
    assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err());
    rig.control.release();
    // A thread that spins for room under the lock keeps everything from going.
    let waited = receiver.recv_timeout(Duration::from_secs(20));
    assert_eq!(waited, Ok(BLOCK));
    for pending in pending {
        pending.wait().result.unwrap();
    }
}

#[test]
fn overlapping_writes_keep_their_order() {
    let rig = Rig::new(8, 100);
    rig.control.hold();
    let writes: Vec<_> = (1..=5u8)
        .map(|n| rig.file.write(vec![n; BLOCK], 512, Level::Normal).unwrap())
        .collect();
    let urgent = rig.file.read(vec![0; BLOCK], 512, Level::Critical).unwrap();
    rig.control.wait_seen(1);
    rig.control.release();
    for write in writes {
        assert_eq!(write.wait().result.unwrap(), BLOCK);
    }
    assert_eq!(urgent.wait().buffer, [5; BLOCK]);
}

#[test]
fn a_dropped_pending_still_writes() {
    let rig = Rig::new(1, 100);
    rig.control.hold();
    drop(
        rig.file
            .write(vec![77; BLOCK], at(3), Level::Normal)
            .unwrap(),
    );
    rig.control.release();
    let after = rig.file.read(vec![0; BLOCK], at(3), Level::Normal).unwrap();
    assert_eq!(after.wait().buffer, [77; BLOCK]);
}

#[test]
fn dropping_the_engine_completes_what_is_outstanding() {
    let Rig {
        control,
        file,
        engine,
        folder,
    } = Rig::new(1, 1);
    control.hold();
    let level = Level::Normal;
    let first = file.read(vec![0; BLOCK], 0, level).unwrap();
    control.wait_seen(1);
    let second = file.read(vec![0; BLOCK], at(9), level).unwrap();
    let waiting = {
        let file = file.clone();
        std::thread::spawn(move || file.write_at(&[1; BLOCK], at(30), level))
    };
    while file.device().0.waiting_for_room() == 0 {
        std::thread::yield_now();
    }
    let dropping = std::thread::spawn(move || drop(engine));
    // Its write never got into the queue.
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error.cause(), Cause::Closed), "{error}");
    assert!(!dropping.is_finished());
    control.release();
    dropping.join().unwrap();
    assert_eq!(first.wait().buffer, [0; BLOCK]);
    assert_eq!(second.wait().buffer, [9; BLOCK]);
    let error = file.read_at(&mut [0; 16], 0, level).unwrap_err();
    assert!(matches!(error.cause(), Cause::Closed), "{error}");
    let refused = file.submit_sync(Operation::SyncAll, level).unwrap_err();
    assert!(matches!(refused.error.cause(), Cause::Closed), "{refused}");
    drop(folder);
}

#[test]
fn a_blocking_read_queues_behind_what_it_may_not_overtake() {
    let rig = Rig::new(1, 100);
    rig.control.hold();
    let first = rig.file.read(vec![0; BLOCK], 0, Level::Normal).unwrap();
    rig.control.wait_seen(1);
    let file = rig.file.clone();
    let reader = std::thread::spawn(move || {
        let mut block = [0; BLOCK];
        assert_eq!(
            file.read_at(&mut block, at(8), Level::Foreground).unwrap(),
            BLOCK
        );
        block
    });
    while rig.file.device().snapshot().queued[Level::Foreground.index()] == 0 {
        std::thread::yield_now();
    }
    rig.control.release();
    assert_eq!(reader.join().unwrap(), [8; BLOCK]);
    first.wait().result.unwrap();
}
