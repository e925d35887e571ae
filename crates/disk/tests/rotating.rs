//! The rotating disk against its data sheet and against Hall and Bonnet's
//! measurements (section 2.2), by closed loops on the model.

mod loops;

use iolane_disk::model::{Rotating, RotatingParameters, Zone};
use iolane_disk::{Command, Done, Kind, Model};
use proptest::prelude::*;

use loops::{Access, Loop, Outcome, Scripted, play, run};

fn ultrastar() -> RotatingParameters {
    RotatingParameters::ultrastar_36lzx()
}

fn paper(kind: Kind, access: Access, outstanding: usize) -> Outcome {
    let mut disk = Rotating::new(ultrastar()).unwrap();
    run(&mut disk, &Loop::paper(kind, access, outstanding))
}

/// Within 15 % of what the paper's text says.
fn assert_near(what: &str, ours: f64, papers: f64) {
    let off = ours / papers - 1.0;
    assert!(
        off.abs() <= 0.15,
        "{what}: {ours:.3}, the paper has {papers} ({:+.1} %)",
        off * 100.0
    );
}

/// Submits one command to a disk that does nothing, and waits for its end.
fn take_ns(disk: &mut Rotating, now_ns: &mut u64, command: Command) -> u64 {
    let mut done = Vec::new();
    disk.advance(*now_ns, &mut done);
    disk.submit(*now_ns, command);
    while done.is_empty() {
        disk.advance(disk.next_event_ns().unwrap(), &mut done);
    }
    let took_ns = done[0].at_ns - *now_ns;
    *now_ns = done[0].at_ns;
    took_ns
}

fn command(kind: Kind, offset: u64, length: u32) -> Command {
    Command {
        tag: 0,
        kind,
        offset,
        length,
        durable: false,
    }
}

const FLUSH: Command = Command {
    tag: 1,
    kind: Kind::Flush,
    offset: 0,
    length: 0,
    durable: false,
};

#[test]
fn random_reads_are_as_fast_as_the_papers() {
    let one = paper(Kind::Read, Access::Random, 1);
    assert_near("MB/s at 1", one.mib_per_second, 2.0);
    assert_near("latency at 1 in ms", one.mean_ms, 7.0);
    let many = paper(Kind::Read, Access::Random, 64);
    assert_near("MB/s at 64", many.mib_per_second, 4.5);
}

#[test]
fn random_writes_are_as_fast_as_the_papers() {
    let many = paper(Kind::Write, Access::Random, 200);
    assert_near("MB/s at 200", many.mib_per_second, 4.1);
    assert_near("latency at 200 in ms", many.mean_ms, 775.0);
    let fewer = paper(Kind::Write, Access::Random, 128);
    assert!(fewer.mean_ms > 500.0, "{fewer:?} at 128");
    assert_near(
        "latency at 1 in ms",
        paper(Kind::Write, Access::Random, 1).mean_ms,
        7.0,
    );
}

#[test]
fn reads_gain_by_the_drives_queue_and_writes_only_by_the_hosts() {
    let read = |outstanding| paper(Kind::Read, Access::Random, outstanding).mib_per_second;
    let write = |outstanding| paper(Kind::Write, Access::Random, outstanding).mib_per_second;
    assert!(read(32) > 2.0 * read(1));
    assert!(write(32) < 1.05 * write(1));
    assert!(write(200) > 1.4 * write(32));
}

#[test]
fn sequential_rates_are_the_papers_however_many_are_outstanding() {
    let through = |kind, outstanding| {
        let mut disk = Rotating::new(ultrastar()).unwrap();
        let mut experiment = Loop::paper(kind, Access::Sequential, outstanding);
        experiment.requests = experiment.file_bytes / u64::from(experiment.request_bytes) - 1_000;
        run(&mut disk, &experiment).mib_per_second
    };
    for outstanding in [1, 64] {
        assert_near("read MB/s", through(Kind::Read, outstanding), 33.0);
        assert_near("write MB/s", through(Kind::Write, outstanding), 30.0);
    }
}

#[test]
fn zones_have_the_data_sheets_rates() {
    let capacity = ultrastar().capacity_bytes;
    let length = 512 << 20;
    for (offset, mb_per_second) in [(0, 36.1), (capacity - length, 21.7)] {
        let mut disk = Rotating::new(ultrastar()).unwrap();
        let rate = run(
            &mut disk,
            &Loop {
                file_offset: offset / 512 * 512,
                file_bytes: length,
                ..Loop::paper(Kind::Read, Access::Sequential, 4)
            },
        );
        let ours = rate.mib_per_second * 1.048_576;
        assert!(
            (ours / mb_per_second - 1.0).abs() < 0.03,
            "{ours:.2} MB/s at {offset}, the data sheet has {mb_per_second}"
        );
    }
}

#[test]
fn a_read_takes_the_average_seek_and_half_a_turn() {
    for (parameters, seek_ms, turn_ms) in [
        (ultrastar(), 4.9, 6.0),
        (RotatingParameters::sata_7200(), 8.5, 8.333),
    ] {
        // One zone, as the data sheet averages over cylinders, not sectors.
        let flat = RotatingParameters {
            zones: vec![Zone {
                cylinders: parameters.zones.iter().map(|zone| zone.cylinders).sum(),
                sectors_per_track: 1_000,
            }],
            ..parameters.clone()
        };
        let tracks = u64::from(flat.zones[0].cylinders) * u64::from(flat.heads);
        let mut disk = Rotating::new(RotatingParameters {
            capacity_bytes: tracks * 1_000 * 512,
            ..flat
        })
        .unwrap();
        let outcome = run(
            &mut disk,
            &Loop {
                request_bytes: 512,
                file_bytes: tracks * 1_000 * 512,
                requests: 40_000,
                ..Loop::paper(Kind::Read, Access::Random, 1)
            },
        );
        let overhead_ms = parameters.command_overhead_us / 1e3;
        let expected_ms = overhead_ms + seek_ms + turn_ms / 2.0 + turn_ms / 1_000.0;
        assert!(
            (outcome.mean_ms / expected_ms - 1.0).abs() < 0.01,
            "{:.3} ms instead of {expected_ms:.3}",
            outcome.mean_ms
        );
    }
}

#[test]
fn what_was_read_ahead_comes_from_the_buffer() {
    let mut disk = Rotating::new(ultrastar()).unwrap();
    let mut now_ns = 0;
    let first_ns = take_ns(
        &mut disk,
        &mut now_ns,
        command(Kind::Read, 1 << 30, 16 << 10),
    );
    assert!(first_ns > 1_000_000);
    now_ns += 20_000_000;
    let next = command(Kind::Read, (1 << 30) + (16 << 10), 16 << 10);
    let hit_ns = take_ns(&mut disk, &mut now_ns, next);
    // 30 us of overhead and 16 KiB at 160 MB/s.
    assert_eq!(hit_ns, 30_000 + 102_400);
}

#[test]
fn another_command_ends_reading_ahead() {
    let mut disk = Rotating::new(ultrastar()).unwrap();
    let mut now_ns = 0;
    take_ns(
        &mut disk,
        &mut now_ns,
        command(Kind::Read, 1 << 30, 16 << 10),
    );
    take_ns(
        &mut disk,
        &mut now_ns,
        command(Kind::Read, 9 << 30, 16 << 10),
    );
    now_ns += 20_000_000;
    // 128 KiB take 4 ms to pass, but the arm left after the overhead's 0.4 ms.
    let behind = command(Kind::Read, (1 << 30) + (128 << 10), 16 << 10);
    assert!(take_ns(&mut disk, &mut now_ns, behind) > 1_000_000);
}

#[test]
fn a_write_is_done_in_the_buffer_and_durable_after_a_flush() {
    let mut disk = Rotating::new(ultrastar()).unwrap();
    let mut now_ns = 1_000_000;
    let write_ns = take_ns(
        &mut disk,
        &mut now_ns,
        command(Kind::Write, 5 << 30, 16 << 10),
    );
    assert_eq!(write_ns, 30_000 + 102_400);
    let flush_ns = take_ns(&mut disk, &mut now_ns, FLUSH);
    assert!(
        flush_ns > 1_000_000,
        "the arm had to go there: {flush_ns} ns"
    );
    assert_eq!(disk.next_event_ns(), None, "nothing is left to be written");
    assert_eq!(take_ns(&mut disk, &mut now_ns, FLUSH), 30_000);

    let durable = Command {
        durable: true,
        ..command(Kind::Write, 1 << 30, 16 << 10)
    };
    assert!(take_ns(&mut disk, &mut now_ns, durable) > 1_000_000);
    assert_eq!(disk.next_event_ns(), None);
}

#[test]
fn a_write_that_waits_for_room_takes_no_less_time_for_it() {
    let parameters = RotatingParameters {
        write_segments: 1,
        ..ultrastar()
    };
    let begin = || {
        let mut disk = Rotating::new(parameters.clone()).unwrap();
        let mut now_ns = 0;
        let first = command(Kind::Write, 5 << 30, 16 << 10);
        take_ns(&mut disk, &mut now_ns, first);
        (disk, now_ns)
    };
    let (mut disk, _) = begin();
    let mut room_ns = 0;
    while let Some(event_ns) = disk.next_event_ns() {
        room_ns = event_ns;
        disk.advance(room_ns, &mut Vec::new());
    }
    for (early_ns, least_ns) in [(1_000, 132_400), (1_000_000, 1_102_400)] {
        let (mut disk, _) = begin();
        let mut now_ns = room_ns - early_ns;
        let second = command(Kind::Write, 1 << 30, 16 << 10);
        assert_eq!(take_ns(&mut disk, &mut now_ns, second), least_ns);
    }
}

#[test]
fn without_a_write_cache_sequential_writes_lose_a_turn_each() {
    let mut disk = Rotating::new(RotatingParameters {
        write_back: false,
        ..ultrastar()
    })
    .unwrap();
    let outcome = run(&mut disk, &Loop::paper(Kind::Write, Access::Sequential, 1));
    assert!(
        (6.0..7.0).contains(&outcome.mean_ms),
        "a turn takes 6 ms: {outcome:?}"
    );
}

#[test]
fn no_command_waits_for_ever() {
    let outcome = paper(Kind::Read, Access::Random, 32);
    let worst_service_ms = 10.5 + 6.0 + 1.0;
    assert!(
        outcome.max_ms < 500.0 + 2.0 * worst_service_ms,
        "aged commands go next: {outcome:?}"
    );
}

#[test]
fn a_large_write_cache_is_emptied_in_order_of_position_not_of_age() {
    let random = |kind| {
        let mut disk = Rotating::new(RotatingParameters::sata_7200()).unwrap();
        let mut experiment = Loop::paper(kind, Access::Random, 1);
        experiment.file_bytes = 1 << 40;
        run(&mut disk, &experiment).mib_per_second
    };
    let (read, write) = (random(Kind::Read), random(Kind::Write));
    assert!(write > 1.8 * read, "reads {read} MB/s, writes {write}");
}

#[test]
fn impossible_disks_are_refused_by_name() {
    let refused = |change: fn(&mut RotatingParameters)| {
        let mut parameters = ultrastar();
        change(&mut parameters);
        Rotating::new(parameters).err().map(|error| error.parameter)
    };
    for (parameter, change) in [
        (
            "capacity_bytes",
            (|it| it.capacity_bytes *= 2) as fn(&mut RotatingParameters),
        ),
        ("revolutions_per_minute", |it| it.revolutions_per_minute = 0),
        ("zones", |it| it.zones.clear()),
        ("heads", |it| it.heads = 0),
        ("seek_track_ms", |it| it.seek_track_ms = -1.0),
        ("seek_average_ms", |it| it.seek_average_ms = -1.0),
        ("seek_average_ms", |it| it.seek_average_ms = 10.4),
        ("cylinder_switch_ms", |it| it.cylinder_switch_ms = 0.1),
        ("head_switch_ms", |it| it.head_switch_ms = f64::NAN),
        ("queue_max", |it| it.queue_max = 0),
        ("write_segments", |it| it.write_segments = it.segments),
        ("interface_mb_per_second", |it| {
            it.interface_mb_per_second = 0.0
        }),
    ] {
        assert_eq!(refused(change).as_deref(), Some(parameter));
    }
}

/// A small disk, so that random commands meet.
fn small(write_back: bool, read_ahead: bool, write_segments: u32) -> Rotating {
    let zone = |sectors_per_track| Zone {
        cylinders: 20,
        sectors_per_track,
    };
    Rotating::new(RotatingParameters {
        capacity_bytes: 2 << 20,
        heads: 2,
        zones: vec![zone(70), zone(50)],
        buffer_bytes: 256 << 10,
        write_back,
        read_ahead,
        write_segments,
        queue_max: 8,
        ..ultrastar()
    })
    .unwrap()
}

proptest! {
    #![proptest_config(iolane_testing::cases(500))]

    #[test]
    fn every_command_ends_once_and_never_before_it_can(
        script in loops::scripts(2 << 20),
        write_back: bool,
        read_ahead: bool,
        write_segments in 1u32..5,
    ) {
        let mut disk = small(write_back, read_ahead, write_segments);
        let ends = play(&mut disk, &script);
        prop_assert_eq!(disk.next_event_ns(), None);
        loops::each_ends_once(&ends, script.len())?;
        for Scripted { done: Done { tag, at_ns }, submitted_ns } in &ends {
            let command = script[*tag as usize].1;
            let transfer_ns = u64::from(command.length) * 1_000 / 160;
            let least_ns = match command.kind {
                Kind::Write if command.durable || !write_back => 400_000,
                Kind::Read | Kind::Write => 30_000 + transfer_ns,
                Kind::Flush => 0,
            };
            prop_assert!(at_ns - submitted_ns + 1 >= least_ns, "{command:?} at {at_ns}");
        }
        let again = play(&mut small(write_back, read_ahead, write_segments), &script);
        prop_assert_eq!(ends, again);
    }
}
