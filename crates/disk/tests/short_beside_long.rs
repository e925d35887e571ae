//! `lanes` on rotating disks: short transactions, reads of a row and durable
//! changes of one, beside a scan and a checkpoint that do all they can.

mod common;

use common::median;
use iolane_disk::Description;
use iolane_disk::elevator::Core;
use iolane_disk::simulation::{Arrival, Commit, Simulation, Stream, Time, Transactions};
use iolane_sched::{Config, Level, Objective, Policy};

const SECOND_NS: u64 = 1_000_000_000;

struct Outcome {
    read_p50_ms: f64,
    read_p99_ms: f64,
    commit_p99_ms: f64,
    /// Of the scan and of the checkpoint.
    others_per_second: Vec<f64>,
}

/// `others`: the levels of the lower requests, and which share of them is reads.
fn short(preset: &str, others: &[(Level, f64)], seed: u64, objective: Objective) -> Outcome {
    let disk = Description::preset(preset).unwrap().build(seed).unwrap();
    let mut config = Config::new(Policy::Lanes);
    config.objective = objective;
    let pages = |process, level, read_share, arrival| Stream {
        process,
        level,
        read_share,
        arrival,
        sizes: Stream::sizes_of(16 << 10),
        region: (64 << 20)..(4 << 30),
        ..Stream::default()
    };
    let reads = Arrival::Open {
        per_second: 50.0,
        poisson: true,
        outstanding_max: 1000,
    };
    let mut work = Simulation::new(disk, Core::new(config).unwrap(), seed)
        .stream(pages(0, Level::Foreground, 1.0, reads))
        .transactions(Transactions {
            threads: 8,
            cpu: Time::Exponential(8.0 / 25.0 * 1e9),
            commit: Commit::Group,
            log_block_bytes: 4096,
            ..Transactions::default()
        });
    for (index, &(level, read_share)) in others.iter().enumerate() {
        let all = Arrival::Closed {
            outstanding: 64,
            think: Time::Fixed(0),
        };
        work = work.stream(pages(100 + index as u32, level, read_share, all));
    }
    let report = work.run(120 * SECOND_NS, 120 * SECOND_NS).unwrap();
    let ms = |ns: u64| ns as f64 / 1e6;
    Outcome {
        read_p50_ms: ms(report.streams[0].latency_ns(0.5)),
        read_p99_ms: ms(report.streams[0].latency_ns(0.99)),
        commit_p99_ms: ms(report.transactions[0].operations.latency_ns(0.99)),
        others_per_second: report.streams[1..]
            .iter()
            .map(|it| it.per_second())
            .collect(),
    }
}

/// What it comes to depends on chance: on what a few dozen reads show of a setting. So it is the
/// median that is bounded.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=25;

/// Medians of all seeds.
fn medians(preset: &str, others: &[(Level, f64)], objective: Objective) -> Outcome {
    let runs: Vec<Outcome> = SEEDS
        .map(|seed| short(preset, others, seed, objective))
        .collect();
    Outcome {
        read_p50_ms: median(&runs, |run| run.read_p50_ms),
        read_p99_ms: median(&runs, |run| run.read_p99_ms),
        commit_p99_ms: median(&runs, |run| run.commit_p99_ms),
        others_per_second: (0..others.len())
            .map(|index| median(&runs, |run| run.others_per_second[index]))
            .collect(),
    }
}

/// Times the p99 alone, beside a scan and a checkpoint. What it is to be is a matter of the
/// objective.
#[test]
fn short_transactions_wait_for_little_of_what_nobody_waits_for() {
    let scan = (Level::Background, 1.0);
    let checkpoint = (Level::Prefetch, 0.0);
    let beside_scan = |times| ("a scan", scan, times);
    let beside_checkpoint = ("a checkpoint", checkpoint, 7.5);
    for (preset, others_min, runs) in [
        // The model's volatile cache takes a checkpoint's pages so quickly, and gives them
        // up so slowly, that minutes do not suffice to find what spares a commit.
        ("sata-7200", 150.0, vec![beside_scan(5.0)]),
        (
            "ultrastar-36lzx",
            90.0,
            vec![beside_scan(5.0), beside_checkpoint],
        ),
        (
            "percona-4x7200",
            400.0,
            vec![beside_scan(10.0), beside_checkpoint],
        ),
    ] {
        let alone = medians(preset, &[], Objective::default());
        for (name, other, times) in runs {
            let beside = medians(preset, &[other], Objective::default());
            let report = [&alone, &beside].map(|run| {
                format!(
                    "half of the reads {:.1} ms, p99 {:.1} ms; p99 of commits {:.1} ms, others {:.0?}/s",
                    run.read_p50_ms, run.read_p99_ms, run.commit_p99_ms, run.others_per_second
                )
            });
            let report = format!(
                "{preset}, beside {name}\n  alone: {}\n  beside: {}",
                report[0], report[1]
            );
            println!("{report}");
            assert!(beside.read_p99_ms < times * alone.read_p99_ms, "{report}");
            assert!(beside.commit_p99_ms < 8.0 * alone.commit_p99_ms, "{report}");
            if other == scan {
                let others: f64 = beside.others_per_second.iter().sum();
                assert!(others > others_min, "{report}");
            }
        }
    }
}

/// Who wants less of that says so.
#[test]
fn a_slowdown_that_is_asked_for_costs_the_scan() {
    let scan = [(Level::Background, 1.0)];
    for (preset, times) in [
        ("sata-7200", 3.0),
        ("ultrastar-36lzx", 3.0),
        ("percona-4x7200", 4.0),
    ] {
        let alone = medians(preset, &[], Objective::default());
        let usual = medians(preset, &scan, Objective::default());
        let asked = medians(preset, &scan, Objective::Slowdown(150));
        let report = format!(
            "{preset}: reads' p99 {:.1} ms alone, beside a scan {:.1} ms at {:.0?}/s, with slowdown=1.5 {:.1} ms at {:.0?}/s",
            alone.read_p99_ms,
            usual.read_p99_ms,
            usual.others_per_second,
            asked.read_p99_ms,
            asked.others_per_second
        );
        println!("{report}");
        assert!(asked.read_p99_ms < usual.read_p99_ms, "{report}");
        assert!(asked.read_p99_ms < times * alone.read_p99_ms, "{report}");
        assert!(asked.others_per_second[0] > 50.0, "{report}");
    }
}
