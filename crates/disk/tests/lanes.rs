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
    lanes_gains("ultrastar-36lzx", 0.25, 0.6);
    lanes_gains("sata-7200", 0.4, 0.65);
    lanes_gains("percona-4x7200", 0.1, 0.5);
}

#[test]
fn flash_is_kept_full_and_the_foreground_is_served_at_once() {
    lanes_gains("nvme-ssd", 0.4, 0.93);
    lanes_gains("sata-ssd", 0.08, 0.92);
}

/// The foreground waits as long as alone, and the budget is used up: but for 6 %
/// at most, beyond which a window a third larger is worth its latency.
#[test]
fn rate_limited_volumes_give_their_budget_without_their_queue() {
    lanes_gains("aws-gp3", 0.08, 0.95);
    lanes_gains("aws-gp3-16000", 0.3, 0.95);
    lanes_gains("aws-io2", 0.1, 0.94);
    lanes_gains("gcp-pd-ssd", 0.35, 0.95);
    lanes_gains("azure-premium-ssd-p30", 0.1, 0.94);
}

/// Where latency does not depend on what is outstanding, everything goes.
#[test]
fn a_distant_volume_gets_all_there_is() {
    lanes_gains("cloud-1ms", 1.05, 0.97);
}

type Work = Simulation<Box<dyn Model>, Core>;

fn run(preset: &str, policy: Policy, seed: u64, work: impl Fn(Work) -> Work) -> Report {
    let disk = Description::preset(preset).unwrap().build(seed).unwrap();
    let mut config = Config::new(policy);
    config.rotational = disk.rotating();
    work(Simulation::new(disk, Core::new(config).unwrap(), seed))
        .run(60 * SECOND_NS, 60 * SECOND_NS)
        .unwrap()
}

fn background(outstanding: u32) -> Stream {
    Stream {
        process: 100,
        level: Level::Background,
        arrival: Arrival::Closed {
            outstanding,
            think: Time::Fixed(0),
        },
        sizes: Stream::sizes_of(16 << 10),
        ..Stream::default()
    }
}

/// That a transfer of 1 MiB takes 8 ms at 134 MB/s is no pause of a budget.
#[test]
fn large_transfers_of_a_volume_limited_in_bytes_are_no_stalls() {
    let report = run("aws-gp2-100g", Policy::Lanes, 1, |work| {
        work.stream(Stream {
            level: Level::Foreground,
            process: 0,
            ..background(1)
        })
        .stream(Stream {
            pattern: Pattern::Sequential,
            sizes: Stream::sizes_of(256 << 10),
            ..background(16)
        })
    });
    let mb_per_second = report.bytes_per_second() / 1e6;
    assert!(mb_per_second > 0.97 * 134.2, "{mb_per_second}");
    let query_ms = report.streams[0].latency_ns(0.99) as f64 / 1e6;
    assert!(query_ms < 12.0, "{query_ms}");
}

/// Nor are the seeks of a disk beside commits, each with a flush, though the
/// drive's buffer answers what needs no seek in a hundredth of the time.
#[test]
fn seeks_beside_commits_are_no_stalls() {
    for (preset, seed) in [
        ("ultrastar-36lzx", 1),
        ("ultrastar-36lzx", 2),
        ("sata-7200", 1),
        ("percona-4x7200", 1),
    ] {
        let pages = |policy| {
            let report = run(preset, policy, seed, |work| {
                work.transactions(Transactions {
                    threads: 4,
                    cpu: Time::Exponential(100_000.0),
                    commit: Commit::Group,
                    log: 0..64 << 20,
                    log_block_bytes: 4096,
                    flush: true,
                    ..Transactions::default()
                })
                .stream(Stream {
                    read_share: 0.5,
                    ..background(64)
                })
            });
            report.bytes_per_second()
        };
        let share = pages(Policy::Lanes) / pages(Policy::Noop);
        println!("{preset}, seed {seed}: {share:.3} of noop's pages");
        // Half of the pages are writes, of which few go between two flushes.
        assert!(share > 0.2, "{preset}, seed {seed}: {share} of noop's");
    }
}
