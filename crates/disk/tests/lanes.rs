//! `lanes` on every kind of modelled disk, with what it has learned by itself:
//! one reader beside 128 outstanding background reads.

use iolane_disk::elevator::Core;
use iolane_disk::simulation::{Arrival, Simulation, Stream, Time};
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
