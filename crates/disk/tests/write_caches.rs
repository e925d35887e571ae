//! `lanes` before drives with a volatile cache: commits, each with a flush,
//! beside a lower level that writes all it can.

mod common;

use common::median;
use iolane_disk::Description;
use iolane_disk::elevator::Core;
use iolane_disk::simulation::{Arrival, Commit, Simulation, Stream, Time, Transactions};
use iolane_sched::{Config, Level, Policy, WindowConfig};

const SECOND_NS: u64 = 1_000_000_000;

struct Outcome {
    /// Of the log's writes and flushes.
    p99_ms: f64,
    commits_per_second: f64,
    /// Of the lower level.
    others_per_second: f64,
}

/// `rate`: transactions a second; `write_share` of what the lower level does are
/// writes, the rest reads.
fn commits(preset: &str, window: WindowConfig, rate: f64, write_share: f64) -> Outcome {
    commits_after(60, 1, preset, window, rate, write_share)
}

/// After so many seconds that are not measured.
fn commits_after(
    seconds: u64,
    seed: u64,
    preset: &str,
    window: WindowConfig,
    rate: f64,
    write_share: f64,
) -> Outcome {
    let disk = Description::preset(preset).unwrap().build(seed).unwrap();
    let mut config = Config::new(Policy::Lanes);
    config.rotational = disk.rotating();
    config.window = window;
    let mut work =
        Simulation::new(disk, Core::new(config).unwrap(), seed).transactions(Transactions {
            threads: 4,
            cpu: Time::Exponential(4.0 / rate * 1e9),
            commit: Commit::Group,
            log_block_bytes: 4096,
            ..Transactions::default()
        });
    if write_share > 0.0 {
        work = work.stream(Stream {
            process: 100,
            level: Level::Background,
            read_share: 1.0 - write_share,
            arrival: Arrival::Closed {
                outstanding: 64,
                think: Time::Fixed(0),
            },
            sizes: Stream::sizes_of(16 << 10),
            region: (64 << 20)..(4 << 30),
            ..Stream::default()
        });
    }
    let report = work.run(seconds * SECOND_NS, 60 * SECOND_NS).unwrap();
    let latency_ms = |part| report.transactions[0].operations.latency_ns(part) as f64 / 1e6;
    Outcome {
        p99_ms: latency_ms(0.99),
        commits_per_second: report.transactions[0].transactions.per_second(),
        others_per_second: report
            .streams
            .first()
            .map_or(0.0, |stream| stream.per_second()),
    }
}

/// What it comes to depends on chance, so the medians of the seeds are bounded.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=7;

fn medians(preset: &str, window: WindowConfig, rate: f64, write_share: f64) -> Outcome {
    let runs: Vec<Outcome> = SEEDS
        .map(|seed| commits_after(60, seed, preset, window, rate, write_share))
        .collect();
    Outcome {
        p99_ms: median(&runs, |run| run.p99_ms),
        commits_per_second: median(&runs, |run| run.commits_per_second),
        others_per_second: median(&runs, |run| run.others_per_second),
    }
}

/// Even with the smallest window, a flush beside writes waits for a whole cache.
#[test]
fn a_flush_does_not_wait_for_what_nobody_waits_for() {
    for (preset, rate) in [
        ("sata-7200", 30.0),
        ("ultrastar-36lzx", 50.0),
        ("percona-4x7200", 50.0),
    ] {
        let alone = medians(preset, WindowConfig::Learned, rate, 0.0);
        for write_share in [1.0, 0.5] {
            let smallest = medians(preset, WindowConfig::Fixed(1), rate, write_share);
            let learned = medians(preset, WindowConfig::Learned, rate, write_share);
            let report = [&alone, &smallest, &learned].map(|run| {
                format!(
                    "p99 {:.1} ms, {:.0} commits/s, {:.0} others/s",
                    run.p99_ms, run.commits_per_second, run.others_per_second
                )
            });
            let report = format!(
                "{preset}, {write_share} of them writes\n  alone: {}\n  window of 1: {}\n  learned: {}",
                report[0], report[1], report[2]
            );
            println!("{report}");
            // Half as many writes leave less to limit, and what a window of 1 costs the
            // others is worth some latency.
            let most = if write_share == 1.0 { 0.25 } else { 3.0 };
            assert!(learned.p99_ms < most * smallest.p99_ms, "{report}");
            if write_share == 1.0 {
                assert!(
                    learned.commits_per_second > smallest.commits_per_second,
                    "{report}"
                );
            }
            assert!(learned.others_per_second > 0.5 * rate, "{report}");
        }
    }
}

/// The learned window holds back what a flush would wait for, if that pays. A flush takes
/// a second here, and an epoch two: it takes some minutes to find that, and sometimes more.
#[test]
fn writes_between_two_flushes_are_limited_where_that_pays() {
    let mut found = 0;
    for seed in 1..=4 {
        let after = |window| commits_after(300, seed, "sata-7200", window, 30.0, 1.0);
        let smallest = after(WindowConfig::Fixed(1));
        let learned = after(WindowConfig::Learned);
        let p99_share = learned.p99_ms / smallest.p99_ms;
        let work_share = learned.others_per_second / smallest.others_per_second;
        println!(
            "seed {seed}: {p99_share:.3} of the p99 of a window of 1, {work_share:.3} of its writes"
        );
        found += u32::from(p99_share < 0.1 && work_share > 0.3);
        assert!(p99_share < 1.0, "worse than without");
    }
    assert!(found >= 3, "{found} of 4");
}

/// Where a flush takes no longer for what others wrote, nothing is held back.
#[test]
fn a_cache_that_survives_a_power_cut_is_used() {
    let smallest = commits("bug-68659", WindowConfig::Fixed(1), 5000.0, 1.0);
    let learned = commits("bug-68659", WindowConfig::Learned, 5000.0, 1.0);
    let share = learned.others_per_second / smallest.others_per_second;
    println!("{share:.3} of the writes with a window of 1");
    assert!(share > 0.95, "{share}");
}
