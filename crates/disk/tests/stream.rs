//! Flushes, pauses and traces of a stream.

mod common;

use common::{MIB, MS, constant};
use iolane_disk::Simulation;
use iolane_disk::elevator::{BlockLayerParameters, LinuxNoop};
use iolane_disk::simulation::{Activity, Arrival, Pattern, Stream, Tally, Time};

const DEVICE_NS: u64 = 100_000;

/// What it does in 400 ms on a disk on which everything takes 100 us.
fn tally(stream: Stream) -> Tally {
    let elevator = LinuxNoop::noop(BlockLayerParameters::default()).unwrap();
    let simulation = Simulation::new(constant(32, DEVICE_NS), elevator, 1).stream(stream);
    simulation.run(0, 400 * MS).unwrap().streams.remove(0)
}

fn writes(outstanding: u32) -> Stream {
    Stream {
        arrival: Arrival::Closed {
            outstanding,
            think: Time::Fixed(0),
        },
        read_share: 0.0,
        ..Stream::default()
    }
}

fn at(per_second: f64) -> Stream {
    Stream {
        arrival: Arrival::Open {
            per_second,
            poisson: false,
            outstanding_max: 1000,
        },
        ..writes(1)
    }
}

/// Operations less than this away from the number expected: those at the ends.
fn assert_near(found: u64, expected: u64) {
    assert!(found.abs_diff(expected) <= 8, "{found}, not {expected}");
}

#[test]
fn in_a_closed_loop_a_flush_takes_an_operations_place() {
    for outstanding in [1, 4] {
        let tally = tally(Stream {
            flush_every: 4,
            ..writes(outstanding)
        });
        let operations = 4000 * u64::from(outstanding);
        assert_near(tally.operations, operations);
        // Four of five are writes.
        assert_near(tally.bytes / 4096, operations * 4 / 5);
        assert!(tally.outstanding_mean <= f64::from(outstanding));
    }
}

#[test]
fn in_an_open_loop_flushes_come_on_top() {
    let tally = tally(Stream {
        flush_every: 2,
        ..at(1000.0)
    });
    assert_near(tally.bytes / 4096, 400);
    assert_near(tally.operations, 600);
}

#[test]
fn reads_are_not_flushed() {
    let tally = tally(Stream {
        flush_every: 1,
        read_share: 1.0,
        ..writes(1)
    });
    assert_eq!(tally.operations, tally.bytes / 4096);
}

#[test]
fn pauses_are_kept() {
    let activity = Activity {
        on_ns: 10 * MS,
        off_ns: 30 * MS,
        ..Activity::ALWAYS
    };
    for (stream, operations) in [(writes(2), 8000), (at(5000.0), 2000)] {
        let tally = tally(Stream {
            activity,
            trace: true,
            ..stream
        });
        assert!(
            tally.operations.abs_diff(operations / 4) < operations / 40,
            "{} operations",
            tally.operations
        );
        for ended in &tally.trace {
            let begun_ns = ended.at_ns - ended.latency_ns;
            assert!(begun_ns % (40 * MS) <= 10 * MS, "{ended:?}");
        }
    }
}

#[test]
fn a_stream_begins_and_ends_when_it_shall() {
    let activity = Activity {
        begins_ns: 100 * MS,
        ends_ns: 300 * MS,
        ..Activity::ALWAYS
    };
    for (stream, operations) in [(writes(1), 2000), (at(5000.0), 1000)] {
        let tally = tally(Stream {
            activity,
            trace: true,
            ..stream
        });
        assert_near(tally.operations, operations);
        let first = tally.trace.first().unwrap().at_ns;
        let last = tally.trace.last().unwrap().at_ns;
        assert!(first >= 100 * MS && last <= 301 * MS, "{first} to {last}");
    }
}

#[test]
fn a_trace_has_every_operation() {
    let stream = |trace| Stream { trace, ..writes(3) };
    let traced = tally(stream(true));
    assert_eq!(traced.trace.len() as u64, traced.operations);
    assert!(traced.trace.is_sorted_by_key(|ended| ended.at_ns));
    let sum: u64 = traced.trace.iter().map(|ended| ended.latency_ns).sum();
    assert_eq!(
        sum as f64 / traced.operations as f64,
        traced.latency_mean_ns
    );
    assert!(tally(stream(false)).trace.is_empty());
}

/// Which places are hot can only be seen by a disk that is slow elsewhere: the
/// drive's buffer holds the hot tenth of a small region, not all of it.
#[test]
fn nine_of_ten_go_to_the_first_tenth() {
    let share_fast = |pattern| {
        let disk = iolane_disk::Description::preset("database-box-8").unwrap();
        let elevator = LinuxNoop::noop(BlockLayerParameters::default()).unwrap();
        let report = Simulation::new(disk.build(1).unwrap(), elevator, 1)
            .stream(Stream {
                pattern,
                region: 0..2048 * MIB,
                sizes: Stream::sizes_of(16 << 10),
                trace: true,
                ..Stream::default()
            })
            .run(300_000 * MS, 30_000 * MS)
            .unwrap();
        let trace = &report.streams[0].trace;
        let fast = trace.iter().filter(|ended| ended.latency_ns < MS).count();
        fast as f64 / trace.len() as f64
    };
    let (random, skewed) = (share_fast(Pattern::Random), share_fast(Pattern::Skewed));
    println!("{random:.3} of random reads from the cache, {skewed:.3} of skewed ones");
    assert!(skewed > 0.85 && skewed > random + 0.3);
}

#[test]
fn a_stream_that_never_works_is_refused() {
    let elevator = LinuxNoop::noop(BlockLayerParameters::default()).unwrap();
    let error = Simulation::new(constant(32, DEVICE_NS), elevator, 1)
        .stream(Stream {
            activity: Activity {
                on_ns: 0,
                off_ns: 1,
                ..Activity::ALWAYS
            },
            ..writes(1)
        })
        .run(0, MS)
        .unwrap_err();
    assert!(error.to_string().contains("on_ns"), "{error}");
}
