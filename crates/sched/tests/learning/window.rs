//! The learned window, on devices that it knows nothing of.

use crate::device::Model;
use crate::run::{Load, Measured, Run};
use crate::{
    WINDOWS, alone_gets, budget, capped, config, distant_hypervisor, flash, hypervisor, one_server,
    show, slow_flash,
};
use iolane_sched::{Objective, RateScope, RateUnit, WindowConfig};

/// What the foreground's latency is worth, in the throughput of the others.
const ELASTICITY: f64 = 0.3;

/// The objective, as a logarithm; `least_ns` is the shortest latency that a window gives.
/// The foreground's own 16 KiB are counted with the others' work.
fn merit(measured: &Measured, least_ns: f64) -> f64 {
    let beyond = (measured.foreground_rms_ns / least_ns).ln().max(0.0);
    measured.bytes_per_second.ln() - ELASTICITY * (beyond + beyond * beyond / 2.0)
}

/// The best merit of a fixed window, of those that it tries, and the shortest latency.
fn best_fixed(model: fn() -> Model, load: &Load) -> (f64, f64) {
    let windows = WINDOWS
        .into_iter()
        .filter(|window| window.is_power_of_two());
    let run = |window| {
        let mut run = Run::new(config(WindowConfig::Fixed(window)), model());
        run.measure(load, 0.1);
        run.measure(load, 1.0)
    };
    let all: Vec<Measured> = windows.map(run).collect();
    let latencies = all.iter().map(|measured| measured.foreground_rms_ns);
    let least_ns = latencies.fold(f64::INFINITY, f64::min);
    let merits = all.iter().map(|measured| merit(measured, least_ns));
    (merits.fold(f64::NEG_INFINITY, f64::max), least_ns)
}

/// Its merit in the next seconds, of the best that any fixed window has.
fn share_of_best(run: &mut Run, model: fn() -> Model, load: &Load, seconds: f64) -> f64 {
    let (best, least_ns) = best_fixed(model, load);
    (merit(&run.measure(load, seconds), least_ns) - best).exp()
}

#[test]
fn is_near_the_best_fixed_window_within_two_seconds() {
    let sizes: [&[u32]; 3] = [&[16_384], &[4096, 16_384, 131_072], &[1 << 20]];
    for model in [
        flash,
        slow_flash,
        one_server,
        hypervisor,
        distant_hypervisor,
    ] {
        for sizes in sizes {
            let load = Load::mix(sizes);
            let mut run = Run::new(config(WindowConfig::Learned), model());
            run.measure(&load, 2.0);
            let share = share_of_best(&mut run, model, &load, 4.0);
            let transfers = run.scheduler.snapshot().window.transfers;
            println!("{sizes:?}: {share:.3} of the best, window {transfers}");
            // Of four units it leaves the foreground two or none: a fixed window, which
            // counts the foreground too, leaves it one.
            assert!(share > 0.6, "{sizes:?}: {share:.3}, window {transfers}");
        }
    }
}

#[test]
fn follows_a_change_of_device() {
    // A challenger may be in force when it is measured: so of several loads.
    let mut shares = [4096, 8192, 16_384, 32_768, 65_536].map(|size| {
        let load = Load::mix(&[size]);
        let mut run = Run::new(config(WindowConfig::Learned), slow_flash());
        run.measure(&load, 5.0);
        run.device.set_model(flash());
        run.measure(&load, 2.0);
        share_of_best(&mut run, flash, &load, 2.0)
    });
    shares.sort_by(f64::total_cmp);
    println!("{shares:.3?} of the best");
    assert!(shares[2] > 0.8, "{shares:.3?} of the best");
}

/// The pace must come into force, ...
#[test]
fn stays_under_a_budget() {
    let mut load = Load::mix(&[16_384]);
    load.foreground_every_ns = 2_000_000;
    let mut run = Run::new(config(WindowConfig::Learned), capped());
    run.measure(&load, 12.0);
    let paced = run.measure(&load, 10.0);
    let report = show("paced", &paced);
    let limit = run.scheduler.snapshot().window.rate_limit.expect("a pace");
    assert_eq!(limit.unit, RateUnit::Transfers);
    assert!(paced.foreground_p99_ns < 2_000_000, "{report}");
    assert!(paced.transfers_per_second > 0.9 * 3000.0, "{report}");
}

/// ... also where the volume delays what comes too early, and where it counts bytes, ...
#[test]
fn stays_under_a_rate() {
    for (unit, per_second) in [(RateUnit::Transfers, 3000.0), (RateUnit::Bytes, 1e8)] {
        let mut load = Load::mix(&[16_384, 65_536]);
        load.foreground_every_ns = 2_000_000;
        let volume = || Model::Even {
            unit,
            per_second,
            latency_ns: 500_000,
        };
        let mut run = Run::new(config(WindowConfig::Fixed(64)), volume());
        let full = run.measure(&load, 5.0);
        let mut run = Run::new(config(WindowConfig::Learned), volume());
        run.measure(&load, 20.0);
        let learned = run.measure(&load, 10.0);
        let report = format!(
            "{}\n{}",
            show("window 64", &full),
            show("learned", &learned)
        );
        println!("{report}");
        assert!(
            learned.foreground_p99_ns < full.foreground_p99_ns / 4,
            "{report}"
        );
        assert!(
            learned.bytes_per_second > 0.85 * full.bytes_per_second,
            "{report}"
        );
    }
}

/// Seconds in which the background writes, too, in three tenths of the time. The
/// foreground's worst 99th percentile, and transfers a second.
fn reads_and_bursts_of_writes(run: &mut Run, seconds: u32) -> (u64, f64) {
    let mut reads = Load::mix(&[16_384]);
    reads.foreground_every_ns = 2_000_000;
    let mut both = Load::mix(&[16_384]);
    both.foreground_every_ns = reads.foreground_every_ns;
    both.background.writes = 0.5;
    let (mut p99_ns, mut transfers) = (0, 0.0);
    for _ in 0..seconds {
        for (load, part) in [(&both, 0.3), (&reads, 0.7)] {
            let measured = run.measure(load, part);
            p99_ns = p99_ns.max(measured.foreground_p99_ns);
            transfers += measured.transfers_per_second * part;
        }
    }
    (p99_ns, transfers / f64::from(seconds))
}

/// ... for reads and writes apart where they have a budget each, and together again where
/// they have one, ...
#[test]
fn tells_one_budget_from_two() {
    let two = || Model::Budget {
        slice_ns: 100_000_000,
        transfers: 300,
        bytes: 0,
        each: true,
        latency_ns: 60_000,
    };
    let mut run = Run::new(config(WindowConfig::Learned), two());
    reads_and_bursts_of_writes(&mut run, 60);
    let limit = run.scheduler.snapshot().window.rate_limit;
    let (p99_ns, transfers) = reads_and_bursts_of_writes(&mut run, 10);
    println!("{limit:?}, {p99_ns} ns, {transfers:.0}/s");
    assert_eq!(limit.expect("a pace").scope, RateScope::Each);
    assert!(p99_ns < 2_000_000, "{p99_ns} ns");
    assert!(transfers > 1.1 * 3000.0, "{transfers:.0}/s");
    run.device.set_model(capped());
    reads_and_bursts_of_writes(&mut run, 120);
    let limit = run.scheduler.snapshot().window.rate_limit;
    let (p99_ns, transfers) = reads_and_bursts_of_writes(&mut run, 10);
    println!("{limit:?}, {p99_ns} ns, {transfers:.0}/s");
    assert!(p99_ns < 2_000_000, "{p99_ns} ns");
    assert!(transfers > 0.85 * 3000.0, "{transfers:.0}/s");
}

/// ... not come where a head seeks, ...
#[test]
fn a_seek_is_no_budget() {
    let load = Load::mix(&[16_384]);
    let disk = || Model::Seeks {
        seek_share: 0.1,
        seek_ns: 8_000_000,
        near_ns: 100_000,
    };
    let mut run = Run::new(config(WindowConfig::Fixed(16)), disk());
    let full = run.measure(&load, 10.0);
    let mut run = Run::new(config(WindowConfig::Learned), disk());
    run.measure(&load, 60.0);
    let learned = run.measure(&load, 30.0);
    let report = format!(
        "{}\n{}",
        show("window 16", &full),
        show("learned", &learned)
    );
    println!("{report}");
    assert!(
        learned.bytes_per_second > 0.7 * full.bytes_per_second,
        "{report}"
    );
}

/// ... follow the budget down, ...
#[test]
fn follows_a_lowered_budget() {
    let mut load = Load::mix(&[16_384]);
    load.foreground_every_ns = 5_000_000;
    let mut run = Run::new(config(WindowConfig::Learned), capped());
    run.measure(&load, 12.0);
    run.device.set_model(budget(100_000_000, 100));
    run.measure(&load, 20.0);
    let lowered = run.measure(&load, 10.0);
    let report = show("lowered", &lowered);
    assert!(lowered.foreground_p99_ns < 5_000_000, "{report}");
    assert!(lowered.transfers_per_second > 0.85 * 1000.0, "{report}");
}

/// ... and let go of what is no more.
#[test]
fn notices_that_a_budget_is_gone() {
    let mut load = Load::mix(&[16_384]);
    load.foreground_every_ns = 2_000_000;
    let mut run = Run::new(config(WindowConfig::Learned), capped());
    run.measure(&load, 12.0);
    assert!(run.scheduler.snapshot().window.rate_limit.is_some());
    run.device.set_model(slow_flash());
    run.measure(&load, 120.0);
    let after = run.measure(&load, 2.0);
    let report = show("after", &after);
    assert!(after.transfers_per_second > 10_000.0, "{report}");
}

/// A device that pauses for its own reasons is not slowed down for good.
#[test]
fn a_pause_is_no_budget() {
    let load = Load::mix(&[16_384]);
    let paused = |window| {
        let mut run = Run::new(config(window), flash());
        let mut bytes = 0.0;
        for round in 0..300 {
            let measured = run.measure(&load, 0.09).bytes_per_second;
            bytes += if round < 30 { 0.0 } else { measured };
            // Nothing completes for 30 ms.
            run.now_ns += 30_000_000;
        }
        bytes
    };
    let share = paused(WindowConfig::Learned) / paused(WindowConfig::Fixed(16));
    assert!(share > 0.7, "{share:.2} of a fixed window's");
}

/// Without a foreground, nearly all of the throughput.
#[test]
fn alone_the_background_gets_the_device() {
    alone_gets(WindowConfig::Learned, 0.9);
}

/// Throughput under an objective, and the foreground's mean latency in ns.
fn with_objective(objective: Objective) -> (f64, f64) {
    let mut config = config(WindowConfig::Learned);
    config.objective = objective;
    // More at once is more throughput there, and longer latency.
    let mut run = Run::new(config, hypervisor());
    let load = Load::mix(&[16_384]);
    run.measure(&load, 3.0);
    let measured = run.measure(&load, 4.0);
    (measured.bytes_per_second, measured.foreground_mean_ns)
}

/// A latency that may be longer buys throughput, and one that may not costs some.
#[test]
fn keeps_to_a_latency_that_is_asked_for() {
    let mut work_before = 0.0;
    for target_ns in [110_000, 150_000, 2_000_000] {
        let (work, mean_ns) = with_objective(Objective::Latency(target_ns));
        println!("{target_ns} ns: {mean_ns:.0} ns at {work:.0} bytes/s");
        // Steps of the window are factors of two, and some of the time others are tried.
        assert!(mean_ns < 1.5 * target_ns as f64, "{mean_ns} of {target_ns}");
        assert!(work > work_before, "{work} after {work_before}");
        work_before = work;
    }
}

#[test]
fn keeps_to_a_slowdown_that_is_asked_for() {
    let [(less, short_ns), (more, long_ns)] =
        [120, 1000].map(|percent| with_objective(Objective::Slowdown(percent)));
    println!("{short_ns:.0} ns at {less:.0}, {long_ns:.0} ns at {more:.0} bytes/s");
    assert!(short_ns < long_ns && less < more);
}
