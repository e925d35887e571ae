//! Shapes of the documents' figures, on the modelled disks. Values are the
//! figures' own business; what is claimed here must hold for any sound model.

mod common;

use common::{MS, constant};
use iolane_disk::elevator::{
    Anticipatory, BlockLayerParameters, Cfq, Core, LinuxDeadline, LinuxNoop,
};
use iolane_disk::model::{Raid10, Raid10Parameters, Rotating, RotatingParameters};
use iolane_disk::simulation::{Arrival, Commit, Host, Pattern, Report, Stream, Time, Transactions};
use iolane_disk::{Elevator, Simulation};
use iolane_sched::{Config, Deadline, Level, Policy, WindowConfig};

const PAGE: u32 = 16 << 10;
/// The paper's file of 10 GB, in whole pages.
const FILE: std::ops::Range<u64> = 0..610_351 * PAGE as u64;

fn ultrastar() -> Rotating {
    Rotating::new(RotatingParameters::ultrastar_36lzx()).unwrap()
}

fn deadline() -> LinuxDeadline {
    LinuxDeadline::deadline(Default::default(), BlockLayerParameters::default()).unwrap()
}

fn closed(outstanding: u32) -> Arrival {
    Arrival::Closed {
        outstanding,
        think: Time::Fixed(0),
    }
}

fn reads(outstanding: u32, pattern: Pattern) -> Report {
    let stream = Stream {
        arrival: closed(outstanding),
        pattern,
        region: FILE,
        sizes: Stream::sizes_of(PAGE),
        ..Stream::default()
    };
    Simulation::new(ultrastar(), deadline(), 1)
        .stream(stream)
        .run(10_000 * MS, 60_000 * MS)
        .unwrap()
}

#[test]
fn random_reads_gain_by_outstanding_ones_and_sequential_reads_do_not() {
    let rates: Vec<f64> = [1, 8, 64]
        .map(|outstanding| reads(outstanding, Pattern::Random).per_second())
        .into();
    assert!(rates[1] > 1.3 * rates[0], "{rates:?}");
    assert!(rates[2] > 1.3 * rates[1], "{rates:?}");
    let in_disk = reads(64, Pattern::Random).in_disk_mean();
    assert!(in_disk > 31.0 && in_disk <= 32.0, "{in_disk}");

    let scans: Vec<f64> = [4, 64]
        .map(|outstanding| reads(outstanding, Pattern::Sequential).per_second())
        .into();
    assert!((scans[1] / scans[0] - 1.0).abs() < 0.05, "{scans:?}");
    assert!(scans[0] > 5.0 * rates[2], "{scans:?} against {rates:?}");
}

/// 200 outstanding random writes, `high_percent` of them at high priority by a
/// thread of its own. The paper's own numbers are those of fixed shares: 20
/// high ones in 280 ms and 180 low ones in 1000 ms make 251 a second, which is
/// its 4 MB/s.
fn mix(policy: Policy, high_percent: u32, low_queued_max: u32) -> Report {
    let mut config = Config::new(policy);
    config.window = WindowConfig::Fixed(32);
    config.levels[Level::Foreground.index()].deadline = Deadline::Fixed(3_000 * MS);
    config.levels[Level::Background.index()].deadline = Deadline::Fixed(9_000 * MS);
    config.levels[Level::Background.index()].queued_max = low_queued_max;
    let writer = |name: &str, outstanding, process, level| Stream {
        name: name.into(),
        arrival: closed(outstanding),
        read_share: 0.0,
        region: FILE,
        sizes: Stream::sizes_of(PAGE),
        process,
        level,
        ..Stream::default()
    };
    let high = 2 * high_percent;
    Simulation::new(ultrastar(), Core::new(config).unwrap(), 1)
        .stream(writer("high", high, 0, Level::Foreground))
        .stream(writer("low", 200 - high, 1, Level::Background))
        .run(20_000 * MS, 100_000 * MS)
        .unwrap()
}

fn latency_ms(report: &Report, name: &str) -> f64 {
    report.stream(name).unwrap().latency_mean_ns / 1e6
}

#[test]
fn priority_lowers_highs_latency_and_keeps_the_total() {
    let without = mix(Policy::PrioDeadline, 30, 4096);
    let equal_ms = latency_ms(&without, "high");
    assert!((latency_ms(&without, "low") / equal_ms - 1.0).abs() < 0.05);
    for high_percent in [10, 20, 30] {
        let report = mix(Policy::PrioDeadline, high_percent, 16);
        let high_ms = latency_ms(&report, "high");
        assert!(high_ms < 0.5 * equal_ms, "{high_percent} %: {high_ms} ms");
        assert!(latency_ms(&report, "low") > equal_ms);
        let total = report.per_second() / without.per_second();
        assert!(total > 0.8, "{high_percent} %: {total} of the total");
    }
}

#[test]
fn the_allocation_group_decides_how_much_low_priority_stands_in_highs_way() {
    let high_ms = |low_queued_max| {
        let report = mix(Policy::PrioDeadline, 20, low_queued_max);
        latency_ms(&report, "high")
    };
    let by_group = [8, 32, 128].map(high_ms);
    assert!(by_group[1] > 1.15 * by_group[0], "{by_group:?}");
    assert!(by_group[2] > 1.15 * by_group[1], "{by_group:?}");
}

/// Where a second log lies: a journal or a binary log somewhere else.
const FAR: u64 = 8 << 30;

/// One-row transactions on a controller whose cache takes a write in 70 us.
fn one_row() -> Transactions {
    Transactions {
        cpu: Time::Exponential(15_000.0),
        serial_ns: 52_000,
        commit: Commit::Group,
        log_bytes: 300,
        flush: false,
        ..Transactions::default()
    }
}

fn commits(threads: u32, elevator: impl Elevator) -> f64 {
    commits_of(
        Transactions {
            threads,
            ..one_row()
        },
        elevator,
    )
}

fn commits_of(transactions: Transactions, elevator: impl Elevator) -> f64 {
    let report = Simulation::new(constant(64, 70_000), elevator, 1)
        .transactions(transactions)
        .run(2_000 * MS, 10_000 * MS)
        .unwrap();
    report.transactions[0].transactions.per_second()
}

#[test]
fn waiting_for_a_process_collapses_when_threads_share_a_log() {
    let block = BlockLayerParameters::default;
    let cfq = || Cfq::cfq(Default::default(), block()).unwrap();
    let anticipatory = || Anticipatory::anticipatory(Default::default(), block()).unwrap();
    let noop = || LinuxNoop::noop(block()).unwrap();

    let alone = commits(1, deadline());
    for (name, rate) in [
        ("noop", commits(1, noop())),
        ("anticipatory", commits(1, anticipatory())),
        ("cfq", commits(1, cfq())),
    ] {
        assert!(
            (rate / alone - 1.0).abs() < 0.01,
            "{name}: {rate}, deadline {alone}"
        );
    }
    let together = commits(8, deadline());
    assert!(together > 2.0 * alone, "{together} against {alone}");
    assert!((commits(8, noop()) / together - 1.0).abs() < 0.05);
    let lanes = Core::new(Config::new(Policy::Lanes)).unwrap();
    assert!((commits(8, lanes) / together - 1.0).abs() < 0.05);
    // One log write lies beside the last, and anticipatory sees that there is
    // nothing to gain by waiting.
    assert!((commits(8, anticipatory()) / together - 1.0).abs() < 0.05);
    // The drive may be idle for a thread that itself waits for another one's
    // log write, unless that is near.
    let two_places = |threads| Transactions {
        threads,
        second_log: FAR..FAR + (64 << 20),
        ..one_row()
    };
    let alone_in_two = commits_of(two_places(1), anticipatory());
    assert!((alone_in_two / alone - 1.0).abs() < 0.01);
    let deadline_in_two = commits_of(two_places(8), deadline());
    assert!((deadline_in_two / together - 1.0).abs() < 0.05);
    for (name, rate) in [
        (
            "anticipatory, log in two places",
            commits_of(two_places(8), anticipatory()),
        ),
        ("cfq", commits(8, cfq())),
    ] {
        assert!(
            rate < 0.5 * alone,
            "{name}: {rate} with 8 threads, {alone} with one"
        );
    }
}

#[test]
fn submitting_many_at_once_is_as_good_as_large_requests_because_they_are_merged() {
    let scan = |bytes, batch| {
        let block = BlockLayerParameters {
            // What the report's 1 MB reads were split into.
            request_bytes_max: 256 << 10,
            ..BlockLayerParameters::default()
        };
        let disk = Raid10::new(Raid10Parameters::bug_68659()).unwrap();
        let report = Simulation::new(disk, LinuxNoop::noop(block).unwrap(), 1)
            .host(Host {
                call_ns: 3_000,
                operation_ns: 5_000,
            })
            .stream(Stream {
                arrival: closed(batch),
                batch,
                pattern: Pattern::Sequential,
                sizes: Stream::sizes_of(bytes),
                ..Stream::default()
            })
            .run(500 * MS, 1_000 * MS)
            .unwrap();
        report.bytes_per_second()
    };
    let [one, many, large] = [(PAGE, 1), (PAGE, 64), (1 << 20, 1)].map(|(b, n)| scan(b, n));
    assert!(many > 4.0 * one, "{many} against {one} bytes/s");
    assert!(
        (many / large - 1.0).abs() < 0.15,
        "{many} against {large} bytes/s"
    );
}
