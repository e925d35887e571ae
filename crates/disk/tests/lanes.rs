//! `lanes` on every kind of modelled disk, with what it has learned by itself:
//! one reader beside 128 outstanding background reads.

use iolane_disk::elevator::Core;
use iolane_disk::simulation::{
    Arrival, Commit, Pattern, Report, Simulation, Stream, Time, Transactions,
};
use iolane_disk::{Description, Model};
use iolane_sched::{Config, Level, Policy};

const SECOND_NS: u64 = 1_000_000_000;

struct Outcome {
    p99_ms: f64,
    per_second: f64,
}

fn mix(preset: &str, policy: Policy) -> Outcome {
    let disk = Description::preset(preset).unwrap().build(1).unwrap();
    let mut config = Config::new(policy);
    config.rotational = disk.rotating();
    let read = |name: &str, process, level, outstanding| Stream {
        name: name.to_owned(),
        process,
        level,
        sizes: Stream::sizes_of(16 << 10),
        arrival: Arrival::Closed {
            outstanding,
            think: Time::Fixed(0),
        },
        ..Stream::default()
    };
    let report = Simulation::new(disk, Core::new(config).unwrap(), 1)
        .stream(read("foreground", 0, Level::Foreground, 1))
        .stream(read("background", 1, Level::Background, 128))
        .run(20 * SECOND_NS, 10 * SECOND_NS)
        .unwrap();
    Outcome {
        p99_ms: report.streams[0].latency_ns(0.99) as f64 / 1e6,
        per_second: report.per_second(),
    }
}

/// Against `noop`: at most this part of the foreground's p99, at least this
/// part of the throughput.
fn lanes_gains(preset: &str, p99_share: f64, throughput_share: f64) {
    let (noop, lanes) = (mix(preset, Policy::Noop), mix(preset, Policy::Lanes));
    let p99 = lanes.p99_ms / noop.p99_ms;
    let throughput = lanes.per_second / noop.per_second;
    println!(
        "{preset}: p99 {:.2} ms of {:.2} ms ({p99:.3}), {:.0}/s of {:.0}/s ({throughput:.3})",
        lanes.p99_ms, noop.p99_ms, lanes.per_second, noop.per_second
    );
    assert!(p99 <= p99_share, "{preset}: p99 is {p99} of noop's");
    assert!(
        throughput >= throughput_share,
        "{preset}: throughput is {throughput} of noop's"
    );
}

/// Such a disk goes where its head is nearest, so that a sorted background
/// would keep it from the foreground for half a sweep. Serving the foreground
/// at once costs two long seeks each time: that is the throughput that lacks.
#[test]
fn a_disk_that_orders_its_queue_by_itself_does_not_starve_the_foreground() {
    lanes_gains("ultrastar-36lzx", 0.1, 0.65);
    lanes_gains("sata-7200", 0.1, 0.7);
    lanes_gains("percona-4x7200", 0.1, 0.5);
}

#[test]
fn flash_is_kept_full_and_the_foreground_is_served_at_once() {
    lanes_gains("nvme-ssd", 0.4, 0.93);
    lanes_gains("sata-ssd", 0.08, 0.92);
}

/// The foreground waits as long as alone, and the budget is used up.
#[test]
fn rate_limited_volumes_give_their_budget_without_their_queue() {
    lanes_gains("aws-gp3", 0.08, 0.95);
    lanes_gains("aws-gp3-16000", 0.3, 0.95);
    lanes_gains("aws-io2", 0.1, 0.94);
    lanes_gains("gcp-pd-ssd", 0.35, 0.95);
    lanes_gains("azure-premium-ssd-p30", 0.1, 0.95);
}

/// Where latency does not depend on what is outstanding, everything goes.
#[test]
fn a_distant_volume_gets_all_there_is() {
    lanes_gains("cloud-1ms", 1.05, 0.97);
}

fn background(name: &str, outstanding: u32) -> Stream {
    Stream {
        name: name.to_owned(),
        process: 100,
        level: Level::Background,
        arrival: Arrival::Closed {
            outstanding,
            think: Time::Fixed(0),
        },
        ..Stream::default()
    }
}

fn run(
    preset: &str,
    policy: Policy,
    work: impl FnOnce(Work) -> Work,
    (warm_up_ns, runtime_ns): (u64, u64),
) -> Report {
    let disk = Description::preset(preset).unwrap().build(1).unwrap();
    let mut config = Config::new(policy);
    config.rotational = disk.rotating();
    work(Simulation::new(disk, Core::new(config).unwrap(), 1))
        .run(warm_up_ns, runtime_ns)
        .unwrap()
}

type Work = Simulation<Box<dyn Model>, Core>;

/// A log write into a cache that a battery protects takes as long whatever the
/// disks behind it do: the background gets all of them.
#[test]
fn who_suffers_from_nothing_costs_the_background_nothing() {
    let commits = |policy| {
        let work = |work: Work| {
            work.transactions(Transactions {
                threads: 4,
                cpu: Time::Exponential(100_000.0),
                commit: Commit::Group,
                log_block_bytes: 4096,
                ..Transactions::default()
            })
            .stream(Stream {
                read_share: 0.5,
                sizes: Stream::sizes_of(16 << 10),
                ..background("pages", 64)
            })
        };
        let report = run(
            "database-box-8",
            policy,
            work,
            (30 * SECOND_NS, 20 * SECOND_NS),
        );
        let p99_ns = report.transactions[0].transactions.latency_ns(0.99);
        (p99_ns as f64, report.bytes_per_second())
    };
    let (noop, lanes) = (commits(Policy::Noop), commits(Policy::Lanes));
    println!("p99 and bytes/s: noop {noop:?}, lanes {lanes:?}");
    assert!(lanes.0 <= 1.1 * noop.0, "{lanes:?}, noop {noop:?}");
    assert!(lanes.1 >= 0.92 * noop.1, "{lanes:?}, noop {noop:?}");
}

/// That a transfer of 1 MiB takes 8 ms at 134 MB/s is no stall of a budget of
/// operations.
#[test]
fn large_transfers_of_a_volume_limited_in_bytes_are_no_stalls() {
    let work = |work: Work| {
        work.stream(Stream {
            process: 0,
            level: Level::Foreground,
            sizes: Stream::sizes_of(16 << 10),
            ..background("query", 1)
        })
        .stream(Stream {
            pattern: Pattern::Sequential,
            sizes: Stream::sizes_of(256 << 10),
            ..background("scan", 16)
        })
    };
    let report = run(
        "aws-gp2-100g",
        Policy::Lanes,
        work,
        (30 * SECOND_NS, 20 * SECOND_NS),
    );
    let mb_per_second = report.bytes_per_second() / 1e6;
    assert!(mb_per_second > 0.97 * 134.2, "{mb_per_second}");
    let query_ms = report.stream("query").unwrap().latency_ns(0.99) as f64 / 1e6;
    assert!(query_ms < 12.0, "{query_ms}");
}
