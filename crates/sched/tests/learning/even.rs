//! Volumes that let so much pass a second and delay the rest evenly.

use crate::device::Model;
use crate::run::{Load, Measured, Run};
use crate::{config, show};
use iolane_sched::{RateLimit, RateUnit, WindowConfig};

fn volume(unit: RateUnit, per_second: f64) -> Model {
    Model::Even {
        unit,
        per_second,
        latency_ns: 600_000,
    }
}

fn transfers(per_second: f64) -> Model {
    volume(RateUnit::Transfers, per_second)
}

/// One request in a millisecond that somebody waits for, and all that a
/// background of pages and of larger pieces can use.
fn load() -> Load {
    let mut sizes = vec![16_384; 12];
    sizes.extend([65_536, 131_072]);
    let mut load = Load::mix(&sizes);
    load.foreground_every_ns = 1_000_000;
    load
}

fn limit(run: &Run) -> Option<RateLimit> {
    run.scheduler.snapshot().window.rate_limit
}

/// 600 us, give or take a quarter, is what it takes alone.
fn is_as_if_alone(measured: &Measured) -> bool {
    measured.foreground_p99_ns < 770_000
}

#[test]
fn the_foreground_waits_as_if_alone() {
    for per_second in [2000.0, 3000.0, 16_000.0] {
        let mut run = Run::new(config(WindowConfig::Learned), transfers(per_second));
        run.measure(&load(), 5.0);
        let learned = run.measure(&load(), 4.0);
        let report = show(&format!("{per_second}/s"), &learned);
        println!("{report}");
        let limit = limit(&run).unwrap();
        assert_eq!(limit.unit, RateUnit::Transfers);
        assert!(
            (limit.per_second / per_second - 1.0).abs() < 0.02,
            "{limit:?}"
        );
        assert!(is_as_if_alone(&learned), "{report}");
        assert!(learned.transfers_per_second > 0.97 * per_second, "{report}");
    }
}

#[test]
fn bytes_are_a_budget_too() {
    let mut run = Run::new(config(WindowConfig::Learned), volume(RateUnit::Bytes, 1e8));
    run.measure(&load(), 8.0);
    let learned = run.measure(&load(), 8.0);
    let report = show("100 MB/s", &learned);
    println!("{report}");
    assert_eq!(limit(&run).unwrap().unit, RateUnit::Bytes);
    assert!(learned.foreground_p99_ns < 1_000_000, "{report}");
    assert!(learned.bytes_per_second > 0.95e8, "{report}");
}

/// Under the pace a queue would grow that the pace does not see.
#[test]
fn follows_a_lowered_limit() {
    let mut run = Run::new(config(WindowConfig::Learned), transfers(6000.0));
    run.measure(&load(), 5.0);
    assert!(limit(&run).is_some());
    run.device.set_model(transfers(3000.0));
    let meanwhile = run.measure(&load(), 5.0);
    let lowered = run.measure(&load(), 5.0);
    let report = format!(
        "{}\n{}",
        show("meanwhile", &meanwhile),
        show("then", &lowered)
    );
    println!("{report}");
    assert!(meanwhile.foreground_p99_ns < 5_000_000, "{report}");
    assert!((limit(&run).unwrap().per_second / 3000.0 - 1.0).abs() < 0.02);
    assert!(is_as_if_alone(&lowered), "{report}");
}

/// Tests of the limit hurt nobody, and one of them finds it raised.
#[test]
fn notices_a_raised_limit() {
    let mut run = Run::new(config(WindowConfig::Learned), transfers(3000.0));
    run.measure(&load(), 5.0);
    let tested = run.measure(&load(), 30.0);
    let report = show("tested", &tested);
    println!("{report}");
    assert!((limit(&run).unwrap().per_second / 3000.0 - 1.0).abs() < 0.02);
    assert!(is_as_if_alone(&tested), "{report}");
    run.device.set_model(transfers(9000.0));
    run.measure(&load(), 60.0);
    let raised = run.measure(&load(), 5.0);
    let report = show("raised", &raised);
    println!("{report}");
    assert!(raised.transfers_per_second > 0.95 * 9000.0, "{report}");
}

/// A test needs a background that would send more.
#[test]
fn notices_a_raised_limit_after_a_time_without_background() {
    let mut run = Run::new(config(WindowConfig::Learned), transfers(3000.0));
    run.measure(&load(), 5.0);
    assert!(limit(&run).is_some());
    let mut foreground = load();
    foreground.background.depth = 0;
    run.measure(&foreground, 60.0);
    run.device.set_model(transfers(9000.0));
    run.measure(&load(), 5.0);
    let raised = run.measure(&load(), 5.0);
    let report = show("raised", &raised);
    println!("{report}");
    assert!(raised.transfers_per_second > 0.95 * 9000.0, "{report}");
}

/// Then nobody is spared, and all of it is used.
#[test]
fn without_a_foreground_nothing_is_held_back() {
    let mut run = Run::new(config(WindowConfig::Learned), transfers(3000.0));
    run.measure(&load(), 5.0);
    assert!(limit(&run).is_some());
    let mut alone = load();
    alone.foreground_every_ns = 1_000_000_000_000;
    run.measure(&alone, 2.0);
    let measured = run.measure(&alone, 5.0);
    let report = show("alone", &measured);
    println!("{report}");
    assert!(measured.transfers_per_second > 0.995 * 3000.0, "{report}");
}
