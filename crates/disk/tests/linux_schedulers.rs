//! What was published of the retired schedulers' behaviour.

mod common;

use common::{GIB, Head, MIB, MS, dispatch, read, serve, write};
use iolane_disk::elevator::{
    Anticipatory, AnticipatoryParameters, BlockLayerParameters, Cfq, CfqParameters,
    DeadlineParameters, Dispatched, Elevator, LinuxDeadline, LinuxNoop,
};
use iolane_disk::simulation::{Arrival, Pattern, Report, Stream, Time};
use iolane_disk::{Kind, Simulation};
use iolane_sched::Level;

fn unmerged() -> BlockLayerParameters {
    BlockLayerParameters {
        segments_max: 1,
        ..BlockLayerParameters::default()
    }
}

fn noop() -> LinuxNoop {
    LinuxNoop::noop(BlockLayerParameters::default()).unwrap()
}

fn deadline() -> LinuxDeadline {
    LinuxDeadline::deadline(DeadlineParameters::default(), unmerged()).unwrap()
}

fn anticipatory() -> Anticipatory {
    Anticipatory::anticipatory(AnticipatoryParameters::default(), unmerged()).unwrap()
}

fn cfq() -> Cfq {
    Cfq::cfq(CfqParameters::default(), unmerged()).unwrap()
}

#[test]
fn neighbours_are_merged_behind_and_in_front_up_to_the_limits() {
    let mut elevator = noop();
    let length = 16 << 10;
    elevator.add(0, 0, &read(0, 10 * length));
    elevator.add(0, 1, &read(0, 11 * length));
    elevator.add(0, 2, &read(0, 9 * length));
    elevator.add(0, 3, &write(0, 12 * length));
    elevator.add(0, 4, &read(0, 13 * length));
    let mut dispatched = Dispatched::default();
    elevator.dispatch(0, 8, &mut dispatched);
    let found: Vec<_> = dispatched
        .transfers
        .iter()
        .map(|transfer| {
            (
                transfer.kind,
                transfer.offset / length,
                transfer.length / length as u32,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (Kind::Read, 9, 3),
            (Kind::Write, 12, 1),
            (Kind::Read, 13, 1)
        ]
    );
    assert_eq!(dispatched.members[..3], [0, 1, 2]);

    // What has gone to the disk takes no more.
    elevator.add(0, 5, &read(0, 14 * length));
    assert_eq!(dispatch(&mut elevator, 0, 8), [5]);

    // 512 KiB are 32 of these.
    for tag in 0..40 {
        elevator.add(0, 100 + tag, &read(0, GIB + u64::from(tag) * length));
    }
    assert_eq!(dispatch(&mut elevator, 0, 8), [100, 132]);
}

#[test]
fn the_pool_is_full_with_128_a_direction_but_not_for_what_can_be_merged() {
    let mut elevator = noop();
    for tag in 0..128 {
        assert!(elevator.admits(&read(0, u64::from(tag) * MIB)));
        elevator.add(0, tag, &read(0, u64::from(tag) * MIB));
    }
    assert!(!elevator.admits(&read(0, GIB)));
    assert!(elevator.admits(&write(0, GIB)));
    assert!(elevator.admits(&read(0, 16 << 10)));
    // A request exists until it has ended.
    assert_eq!(dispatch(&mut elevator, 0, 1), [0]);
    assert!(!elevator.admits(&read(0, GIB)));
    elevator.complete(0, 0);
    assert!(elevator.admits(&read(0, GIB)));
}

#[test]
fn a_flush_goes_past_the_queue() {
    for elevator in [
        &mut noop() as &mut dyn Elevator,
        &mut deadline(),
        &mut anticipatory(),
        &mut cfq(),
    ] {
        elevator.add(0, 0, &write(0, 0));
        let flush = iolane_disk::elevator::Request {
            kind: Kind::Flush,
            length: 0,
            ..write(0, 0)
        };
        elevator.add(0, 1, &flush);
        let mut dispatched = Dispatched::default();
        elevator.dispatch(0, 2, &mut dispatched);
        assert_eq!(dispatched.members, [1, 0]);
        elevator.complete(1, 1);
        elevator.complete(1, 0);
    }
}

#[test]
fn noop_goes_by_arrival() {
    let mut elevator = noop();
    for (tag, place) in [5, 1, 9, 3].into_iter().enumerate() {
        elevator.add(0, tag as u32, &read(0, place * MIB));
    }
    assert_eq!(dispatch(&mut elevator, 0, 8), [0, 1, 2, 3]);
}

#[test]
fn deadline_goes_by_position() {
    let mut elevator = deadline();
    for (tag, place) in [5, 1, 9, 3].into_iter().enumerate() {
        elevator.add(0, tag as u32, &read(0, place * MIB));
    }
    assert_eq!(dispatch(&mut elevator, 0, 8), [1, 3, 0, 2]);
}

#[test]
fn deadline_takes_an_expired_read_first_but_only_between_batches() {
    let mut elevator = deadline();
    elevator.add(0, 1000, &read(0, 900 * MIB));
    for tag in 0..40 {
        elevator.add(0, tag, &read(0, u64::from(tag) * MIB));
    }
    let early = dispatch(&mut elevator, 499 * MS, 20);
    assert_eq!(early, (0..20).collect::<Vec<_>>());
    // The second batch of 16 has 12 to go.
    let late = dispatch(&mut elevator, 500 * MS, 14);
    assert_eq!(late[..12], (20..32).collect::<Vec<_>>());
    assert_eq!(late[12], 1000);
}

#[test]
fn deadline_lets_reads_go_before_writes_for_two_batches() {
    let mut elevator = deadline();
    for tag in 0..100 {
        elevator.add(0, tag, &read(0, u64::from(tag) * MIB));
        elevator.add(0, 100 + tag, &write(0, u64::from(tag) * MIB));
    }
    let order = dispatch(&mut elevator, 0, 144);
    let batches: Vec<bool> = order.chunks(16).map(|batch| batch[0] >= 100).collect();
    let write_every_third = [false, false, true, false, false, true, false, false, true];
    assert_eq!(batches, write_every_third);
    for batch in order.chunks(16) {
        assert!(batch.iter().all(|&tag| (tag >= 100) == (batch[0] >= 100)));
    }
}

/// A request of `process` comes, is the only one, and is served.
fn one_read(elevator: &mut impl Elevator, now_ns: u64, process: u32, place: u64) -> u64 {
    elevator.add(now_ns, 0, &read(process, place));
    assert_eq!(dispatch(elevator, now_ns, 1), [0]);
    elevator.complete(now_ns + MS, 0);
    now_ns + MS
}

#[test]
fn anticipatory_waits_for_the_same_process_but_not_longer_than_it_may() {
    let mut elevator = anticipatory();
    let mut now_ns = one_read(&mut elevator, 0, 1, 0);
    now_ns = one_read(&mut elevator, now_ns + MS, 1, 16 << 10);
    elevator.add(now_ns, 7, &read(2, 10 * GIB));
    assert_eq!(dispatch(&mut elevator, now_ns, 4), []);
    assert_eq!(elevator.next_timer_ns(), Some(now_ns + 6 * MS));
    assert_eq!(dispatch(&mut elevator, now_ns + 6 * MS - 1, 4), []);
    assert_eq!(dispatch(&mut elevator, now_ns + 6 * MS, 4), [7]);
    assert_eq!(elevator.next_timer_ns(), None);
}

#[test]
fn anticipatory_serves_at_once_what_it_waited_for() {
    let mut elevator = anticipatory();
    let now_ns = one_read(&mut elevator, 0, 1, 0);
    elevator.add(now_ns, 7, &read(2, 10 * GIB));
    assert_eq!(dispatch(&mut elevator, now_ns, 4), []);
    elevator.add(now_ns + 2 * MS, 8, &read(1, 16 << 10));
    // One at a time.
    assert_eq!(dispatch(&mut elevator, now_ns + 2 * MS, 4), [8]);
    elevator.complete(now_ns + 3 * MS, 8);
    assert_eq!(dispatch(&mut elevator, now_ns + 3 * MS, 4), []);
    assert_eq!(serve(&mut elevator, now_ns + 3 * MS, MS, 1), [7]);
}

#[test]
fn anticipatory_is_not_fooled_by_a_process_that_thinks_longer_or_seeks_farther() {
    let mut elevator = anticipatory();
    let mut now_ns = 0;
    for place in 0..8 {
        now_ns = 15 * MS + one_read(&mut elevator, now_ns, 1, place * (16 << 10));
    }
    let ended_ns = now_ns - 15 * MS;
    elevator.add(ended_ns, 7, &read(2, 10 * GIB));
    assert_eq!(dispatch(&mut elevator, ended_ns, 4), [7]);

    let mut elevator = anticipatory();
    let mut now_ns = 0;
    for place in 0..8 {
        now_ns = one_read(&mut elevator, now_ns, 1, (place % 2) * 30 * GIB);
    }
    elevator.add(now_ns, 7, &read(2, 25 * GIB));
    assert_eq!(dispatch(&mut elevator, now_ns, 4), [7]);
}

#[test]
fn anticipatory_does_not_keep_waiting_what_is_near() {
    let mut elevator = anticipatory();
    let now_ns = one_read(&mut elevator, 0, 1, GIB);
    elevator.add(now_ns, 7, &read(2, GIB + (32 << 10)));
    assert_eq!(dispatch(&mut elevator, now_ns, 4), [7]);
}

#[test]
fn anticipatory_alternates_batches_and_lets_the_drive_finish_each() {
    let mut elevator = anticipatory();
    elevator.add(0, 0, &read(1, 0));
    for tag in 1..60 {
        elevator.add(0, tag, &write(1, u64::from(tag) * MIB));
    }
    assert_eq!(dispatch(&mut elevator, 0, 32), [0]);
    assert_eq!(dispatch(&mut elevator, MS, 32), []);
    elevator.complete(2 * MS, 0);
    // No read left: writes, and as many as the drive takes.
    assert_eq!(
        dispatch(&mut elevator, 2 * MS, 10),
        (1..11).collect::<Vec<_>>()
    );
    elevator.add(3 * MS, 100, &read(1, 40 * GIB));
    // A batch of writes ends after 125 ms, or 16 of them to begin with.
    let rest = dispatch(&mut elevator, 3 * MS, 32);
    assert_eq!(rest, (11..17).collect::<Vec<_>>());
    for tag in 1..17 {
        assert_eq!(dispatch(&mut elevator, 4 * MS, 32), []);
        elevator.complete(4 * MS, tag);
    }
    assert_eq!(dispatch(&mut elevator, 4 * MS, 32), [100]);
}

/// A process that reads on from `place`, one read at a time, `think_ns` after
/// the last.
fn reader(process: u32, place: u64, think_ns: u64, level: Level) -> Stream {
    Stream {
        name: process.to_string(),
        arrival: Arrival::Closed {
            outstanding: 1,
            think: Time::Fixed(think_ns),
        },
        pattern: Pattern::Sequential,
        region: place..place + 8 * GIB,
        sizes: Stream::sizes_of(64 << 10),
        process,
        level,
        ..Stream::default()
    }
}

fn race(elevator: impl Elevator, streams: Vec<Stream>) -> Report {
    let mut simulation = Simulation::new(Head::new(4), elevator, 1);
    for stream in streams {
        simulation = simulation.stream(stream);
    }
    simulation.run(2_000 * MS, 60_000 * MS).unwrap()
}

fn share(report: &Report, name: &str) -> f64 {
    let stream = report.stream(name).unwrap();
    stream.bytes_per_second() / report.bytes_per_second()
}

#[test]
fn waiting_lets_two_readers_share_a_head_that_they_would_otherwise_throw_about() {
    let two = || {
        vec![
            reader(1, 0, MS / 2, Level::Normal),
            reader(2, 30 * GIB, MS / 2, Level::Normal),
        ]
    };
    let mb = |report: &Report| report.bytes_per_second() / MIB as f64;
    // A seek of 8 ms for every 2 ms of transfer.
    let without = race(deadline(), two());
    assert!(mb(&without) < 8.0, "{}", mb(&without));
    for (name, with) in [
        ("anticipatory", race(anticipatory(), two())),
        ("cfq", race(cfq(), two())),
    ] {
        // 2 ms in every 2.5, but for a seek now and then.
        assert!(mb(&with) > 20.0, "{name}: {}", mb(&with));
        let half = share(&with, "1");
        assert!((half - 0.5).abs() < 0.05, "{name}: {half}");
    }
}

#[test]
fn cfq_gives_time_by_priority() {
    // Slices of 180, 100 and 40 ms.
    for (level, priority, slices) in [(Level::Critical, 0, 180.0), (Level::Background, 7, 40.0)] {
        let streams = vec![
            reader(1, 0, MS / 2, Level::Normal),
            reader(2, 30 * GIB, MS / 2, level),
        ];
        let report = race(cfq(), streams);
        let expected = slices / (slices + 100.0);
        let found = share(&report, "2");
        assert!(
            (found - expected).abs() < 0.05,
            "priority {priority} gets {found} of the time instead of {expected}"
        );
    }
}

#[test]
fn cfq_keeps_the_disk_idle_in_a_slice_and_no_longer_than_it_may() {
    let mut elevator = cfq();
    let now_ns = one_read(&mut elevator, 0, 1, 0);
    elevator.add(now_ns, 7, &read(2, 10 * GIB));
    assert_eq!(dispatch(&mut elevator, now_ns, 4), []);
    assert_eq!(elevator.next_timer_ns(), Some(now_ns + 8 * MS));
    elevator.add(now_ns + MS, 8, &read(1, 16 << 10));
    assert_eq!(dispatch(&mut elevator, now_ns + MS, 1), [8]);
    elevator.complete(now_ns + 2 * MS, 8);
    assert_eq!(dispatch(&mut elevator, now_ns + 9 * MS, 4), []);
    assert_eq!(dispatch(&mut elevator, now_ns + 10 * MS, 4), [7]);
}

#[test]
fn cfq_sends_four_of_a_process_at_once_while_others_wait() {
    let mut elevator = cfq();
    for tag in 0..20 {
        elevator.add(0, tag, &read(1, u64::from(tag) * MIB));
    }
    assert_eq!(dispatch(&mut elevator, 0, 32).len(), 16);
    let mut elevator = cfq();
    for tag in 0..20 {
        elevator.add(0, tag, &read(1 + tag % 2, u64::from(tag) * MIB));
    }
    assert_eq!(dispatch(&mut elevator, 0, 32), [0, 2, 4, 6]);
}

#[test]
fn cfq_lets_what_is_waited_for_take_the_turn_from_what_is_not() {
    let mut elevator = cfq();
    for tag in 0..20 {
        elevator.add(0, tag, &write(1, u64::from(tag) * MIB));
    }
    assert_eq!(dispatch(&mut elevator, 0, 2), [0, 1]);
    elevator.add(MS, 100, &read(2, 10 * GIB));
    assert_eq!(dispatch(&mut elevator, MS, 1), [100]);
    // And nothing of the other kind beside it.
    assert_eq!(dispatch(&mut elevator, MS, 32), []);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let message = |error: iolane_disk::ParameterError| error.to_string();
    let block = BlockLayerParameters {
        requests_max: 0,
        ..BlockLayerParameters::default()
    };
    let error = LinuxNoop::noop(block).err().map(message).unwrap();
    assert_eq!(error, "requests_max is 0: must be at least 1");
    let parameters = CfqParameters {
        io_priorities: [0, 1, 2, 3, 8],
        ..CfqParameters::default()
    };
    let error = Cfq::cfq(parameters, unmerged()).err().map(message).unwrap();
    assert_eq!(error, "io_priorities is 8: must be 0 to 7");
    let parameters = AnticipatoryParameters {
        antic_expire_ms: -1.0,
        ..AnticipatoryParameters::default()
    };
    let refused = Anticipatory::anticipatory(parameters, unmerged());
    assert!(refused.is_err());
}
