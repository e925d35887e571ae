//! The RAID-10 arrays, by closed loops on the model.

mod loops;

use iolane_disk::model::{Raid10, Raid10Parameters, RotatingParameters, Zone};
use iolane_disk::{Command, Done, Kind, Model};
use proptest::prelude::*;

use loops::{Access, Loop, Outcome, Scripted, play, run};

const MIB: u64 = 1 << 20;

fn outcome(parameters: Raid10Parameters, experiment: &Loop) -> Outcome {
    run(&mut Raid10::new(parameters).unwrap(), experiment)
}

/// A loop over so much of the array that its cache does not hold it.
fn experiment(kind: Kind, access: Access, outstanding: usize, request_bytes: u32) -> Loop {
    Loop {
        request_bytes,
        ..Loop::paper(kind, access, outstanding)
    }
}

/// How long one command takes on an array that has nothing else to do.
fn take_ns(array: &mut Raid10, now_ns: &mut u64, kind: Kind, offset: u64, length: u32) -> u64 {
    let mut done = Vec::new();
    array.advance(*now_ns, &mut done);
    let command = Command {
        tag: 0,
        kind,
        offset,
        length,
        durable: false,
    };
    array.submit(*now_ns, command);
    while done.is_empty() {
        array.advance(array.next_event_ns().unwrap(), &mut done);
    }
    let took_ns = done[0].at_ns - *now_ns;
    *now_ns = done[0].at_ns;
    took_ns
}

#[test]
fn a_commits_write_takes_what_the_document_measured() {
    let mut array = Raid10::new(Raid10Parameters::database_box_8()).unwrap();
    let mut now_ns = 0;
    let mut offset = 1 << 30;
    for _ in 0..100 {
        let write_ns = take_ns(&mut array, &mut now_ns, Kind::Write, offset, 512);
        // 32 % of the time busy at 6850 a second: 47 us.
        assert!((40_000..54_000).contains(&write_ns), "{write_ns} ns");
        offset += 512;
    }
    assert!(take_ns(&mut array, &mut now_ns, Kind::Flush, 0, 0) < 54_000);
}

#[test]
fn the_processor_bounds_the_commands_a_second() {
    let writes = experiment(Kind::Write, Access::Random, 64, 512);
    let rate = outcome(Raid10Parameters::database_box_8(), &writes);
    let per_second = rate.mib_per_second * MIB as f64 / 512.0;
    assert!((per_second / 40_000.0 - 1.0).abs() < 0.01, "{per_second}");
}

#[test]
fn a_full_cache_holds_writes_back_to_the_disks_rate() {
    let parameters = Raid10Parameters {
        cache_bytes: 16 * MIB,
        read_ahead_bytes: 0,
        ..Raid10Parameters::database_box_8()
    };
    let mut burst = experiment(Kind::Write, Access::Random, 16, 16 << 10);
    (burst.warm_up, burst.requests) = (0, 700);
    let into_cache = outcome(parameters.clone(), &burst);
    assert!(into_cache.mean_ms < 1.0, "{into_cache:?}");

    let mut steady = experiment(Kind::Write, Access::Random, 16, 16 << 10);
    steady.warm_up = 3_000;
    let through_cache = outcome(parameters.clone(), &steady);
    let without_cache = outcome(
        Raid10Parameters {
            write_back: false,
            ..parameters
        },
        &steady,
    );
    assert!(
        through_cache.mib_per_second < 0.1 * into_cache.mib_per_second,
        "{through_cache:?}"
    );
    assert!(
        through_cache.mib_per_second > 1.2 * without_cache.mib_per_second,
        "sorted {through_cache:?}, unsorted {without_cache:?}"
    );
}

#[test]
fn a_large_write_makes_room_for_itself() {
    let mut array = Raid10::new(Raid10Parameters {
        cache_bytes: 4 * MIB,
        read_ahead_bytes: 0,
        ..Raid10Parameters::database_box_8()
    })
    .unwrap();
    let mut now_ns = 0;
    // 3 of 4 MiB are dirty, below the 80 % that press.
    for offset in [0, 100 * MIB, 200 * MIB] {
        let in_cache_ns = take_ns(&mut array, &mut now_ns, Kind::Write, offset, 1 << 20);
        assert!(in_cache_ns < 2_000_000, "{in_cache_ns}");
    }
    let held_ns = take_ns(&mut array, &mut now_ns, Kind::Write, 300 * MIB, 2 << 20);
    assert!((3_000_000..500_000_000).contains(&held_ns), "{held_ns}");
}

#[test]
fn dirty_data_reach_the_disks_when_they_are_old_enough() {
    let mut array = Raid10::new(Raid10Parameters::database_box_8()).unwrap();
    let mut now_ns = 0;
    for slot in 0..100 {
        take_ns(
            &mut array,
            &mut now_ns,
            Kind::Write,
            slot * 7 * MIB,
            16 << 10,
        );
    }
    let mut done = Vec::new();
    assert!(
        array.next_event_ns().unwrap() >= 4_000_000_000,
        "nothing is pressing"
    );
    let mut last_ns = 0;
    while let Some(event_ns) = array.next_event_ns() {
        array.advance(event_ns, &mut done);
        last_ns = event_ns;
    }
    assert!(
        (4_000_000_000..9_000_000_000).contains(&last_ns),
        "{last_ns}"
    );
}

#[test]
fn what_was_read_or_written_is_read_from_the_cache() {
    let mut array = Raid10::new(Raid10Parameters::bug_68659()).unwrap();
    let mut now_ns = 0;
    let miss_ns = take_ns(&mut array, &mut now_ns, Kind::Read, 5 << 30, 16 << 10);
    assert!(miss_ns > 1_000_000);
    for kind in [Kind::Read, Kind::Write, Kind::Read] {
        let hit_ns = take_ns(&mut array, &mut now_ns, kind, 5 << 30, 16 << 10);
        assert!(hit_ns < 100_000, "{kind:?} took {hit_ns} ns");
    }
    take_ns(&mut array, &mut now_ns, Kind::Write, 6 << 30, 8 << 10);
    let half_ns = take_ns(&mut array, &mut now_ns, Kind::Read, 6 << 30, 16 << 10);
    assert!(half_ns > 1_000_000, "only half of it is there");
}

#[test]
fn without_a_battery_a_flush_waits_for_the_disks() {
    let mut array = Raid10::new(Raid10Parameters::percona_4x7200()).unwrap();
    let mut now_ns = 0;
    take_ns(&mut array, &mut now_ns, Kind::Write, 5 << 30, 16 << 10);
    assert!(take_ns(&mut array, &mut now_ns, Kind::Flush, 0, 0) > 1_000_000);
    assert_eq!(array.next_event_ns(), None);
}

#[test]
fn mirrors_share_reads_and_both_take_every_write() {
    let rate = |disks, kind, outstanding| {
        let parameters = Raid10Parameters {
            disks,
            ..Raid10Parameters::percona_4x7200()
        };
        let mut random = experiment(kind, Access::Random, outstanding, 16 << 10);
        // Beyond the disks' write caches.
        random.warm_up = 2_000;
        outcome(parameters, &random).mib_per_second
    };
    let mut disk = iolane_disk::model::Rotating::new(RotatingParameters::sata_7200()).unwrap();
    let single = experiment(Kind::Read, Access::Random, 16, 16 << 10);
    let single = run(&mut disk, &single).mib_per_second;
    let mirrored = rate(2, Kind::Read, 32);
    assert!(
        (1.8..2.3).contains(&(mirrored / single)),
        "{mirrored} of {single}"
    );
    let (two, four) = (rate(2, Kind::Write, 32), rate(4, Kind::Write, 64));
    assert!((1.6..2.4).contains(&(four / two)), "{two}, then {four}");
}

/// The rows of bug 68659, as the kernel's merging made requests of them: 64 of
/// 16 KiB became five of 200 KiB, 1 MiB became four of 256 KiB. The reporter's
/// program waited for all that it had submitted before it submitted more.
#[test]
fn the_bugs_rows_come_out() {
    let scan = |outstanding, request_bytes| {
        let mut scan = experiment(Kind::Read, Access::Sequential, outstanding, request_bytes);
        scan.batches = true;
        scan.warm_up = 2_000;
        outcome(Raid10Parameters::bug_68659(), &scan).mib_per_second
    };
    for (row, ours, mib_per_second) in [
        ("16 KB, 1 at a time", scan(1, 16 << 10), 161.86),
        ("16 KB, 64 at once", scan(5, 200 << 10), 1106.81),
        ("1 MB, 1 at a time", scan(4, 256 << 10), 1211.27),
    ] {
        let off = ours / mib_per_second - 1.0;
        assert!(
            off.abs() < 0.15,
            "{row}: {ours:.1} MiB/s, the report has {mib_per_second} ({:+.1} %)",
            off * 100.0
        );
    }
    // The report has 15 % less, 1032.91: something there suffered from 64 MiB
    // on the way, which the model does not know. Nor does it gain much.
    let (one, many) = (scan(4, 256 << 10), scan(256, 256 << 10));
    assert!(
        (0.85..1.2).contains(&(many / one)),
        "{one:.1}, then {many:.1}"
    );
}

#[test]
fn impossible_arrays_are_refused_by_name() {
    let refused = |change: fn(&mut Raid10Parameters)| {
        let mut parameters = Raid10Parameters::database_box_8();
        change(&mut parameters);
        Raid10::new(parameters).err().map(|error| error.parameter)
    };
    for (parameter, change) in [
        ("disks", (|it| it.disks = 7) as fn(&mut Raid10Parameters)),
        ("chunk_bytes", |it| it.chunk_bytes = 5_000),
        ("queue_max", |it| it.queue_max = 0),
        ("link_mb_per_second", |it| it.link_mb_per_second = -1.0),
        ("write_back", |it| {
            it.cache_bytes = 0;
            it.read_ahead_bytes = 0;
        }),
        ("read_ahead_bytes", |it| {
            it.read_ahead_bytes = it.cache_bytes
        }),
        ("dirty_high_percent", |it| it.dirty_low_percent = 90.0),
        ("heads", |it| it.disk.heads = 0),
    ] {
        assert_eq!(refused(change).as_deref(), Some(parameter));
    }
}

/// A small array, so that random commands meet, with a cache that fills.
fn small(cache_bytes: u64, write_back: bool, read_ahead_bytes: u64) -> Raid10 {
    let disk = RotatingParameters {
        capacity_bytes: 2 * MIB,
        heads: 2,
        zones: vec![Zone {
            cylinders: 60,
            sectors_per_track: 70,
        }],
        write_back: !write_back,
        ..RotatingParameters::ultrastar_36lzx()
    };
    Raid10::new(Raid10Parameters {
        disk,
        disks: 4,
        chunk_bytes: 32 << 10,
        queue_max: 16,
        cache_bytes,
        write_back,
        read_ahead_bytes,
        ..Raid10Parameters::database_box_8()
    })
    .unwrap()
}

proptest! {
    #![proptest_config(iolane_testing::cases(500))]

    #[test]
    fn every_command_ends_once_and_never_before_it_can(
        script in loops::scripts(4 * MIB),
        cached: bool,
        battery: bool,
        read_ahead in 0..3u64,
    ) {
        let cache_bytes = if cached { MIB } else { 0 };
        let write_back = cached && battery;
        let read_ahead_bytes = if cached { read_ahead * (64 << 10) } else { 0 };
        let mut array = small(cache_bytes, write_back, read_ahead_bytes);
        let ends = play(&mut array, &script);
        prop_assert_eq!(array.next_event_ns(), None);
        loops::each_ends_once(&ends, script.len())?;
        for Scripted { done: Done { tag, at_ns }, submitted_ns } in &ends {
            let command = script[*tag as usize].1;
            // 45 us of controller, and the link's 1 GB/s.
            let least_ns = 45_000 + u64::from(command.length);
            prop_assert!(at_ns - submitted_ns >= least_ns, "{command:?} at {at_ns}");
        }
        let again = play(&mut small(cache_bytes, write_back, read_ahead_bytes), &script);
        prop_assert_eq!(ends, again);
    }
}
