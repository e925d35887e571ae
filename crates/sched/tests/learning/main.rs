//! What the learned window makes of devices that it knows nothing of, beside
//! the best that any fixed window makes of them (found by trying all).

mod device;
mod run;
mod window;

use device::Model;
use iolane_sched::{Config, Policy, WindowConfig};
use run::{Load, Measured, Run};

const WINDOWS: [u32; 14] = [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 90, 128];

fn config(window: WindowConfig) -> Config {
    Config {
        window,
        // The loads have no neighbours; what is measured is the window.
        transfer_members_max: 1,
        ..Config::new(Policy::Lanes)
    }
}

fn flash() -> Model {
    Model::Parallel {
        units: 16,
        base_ns: 60_000,
        ns_per_byte: 1.2,
    }
}

/// Its throughput rises up to windows that latency forbids beside a foreground.
fn distant_hypervisor() -> Model {
    Model::Batches {
        doorbell_ns: 300_000,
        announce_ns: 100_000,
        base_ns: 8_000,
        ns_per_byte: 0.1,
    }
}

fn slow_flash() -> Model {
    Model::Parallel {
        units: 4,
        base_ns: 150_000,
        ns_per_byte: 3.0,
    }
}

fn one_server() -> Model {
    Model::Parallel {
        units: 1,
        base_ns: 100_000,
        ns_per_byte: 0.5,
    }
}

fn hypervisor() -> Model {
    Model::Batches {
        doorbell_ns: 25_000,
        announce_ns: 45_000,
        base_ns: 12_000,
        ns_per_byte: 0.5,
    }
}

/// Throughput to the power of 5.7 over latency: what the window maximises.
fn merit(measured: &Measured) -> f64 {
    measured.bytes_per_second.powf(5.7) / measured.foreground_mean_ns
}

/// Best merit of all fixed windows.
fn best_fixed(model: fn() -> Model, load: &Load) -> (u32, Measured) {
    WINDOWS
        .into_iter()
        .map(|window| {
            let mut run = Run::new(config(WindowConfig::Fixed(window)), model());
            run.measure(load, 0.1);
            (window, run.measure(load, 1.0))
        })
        .max_by(|a, b| merit(&a.1).total_cmp(&merit(&b.1)))
        .unwrap()
}

fn is_near(learned: &Measured, best: &Measured, least: f64) -> bool {
    learned.bytes_per_second > least * best.bytes_per_second
        && learned.foreground_mean_ns < 1.5 * best.foreground_mean_ns
}

fn show(name: &str, measured: &Measured) -> String {
    format!(
        "{name}: {:.0}/s {:.0} MB/s, foreground mean {:.0} us p99 {:.0} us",
        measured.transfers_per_second,
        measured.bytes_per_second / 1e6,
        measured.foreground_mean_ns / 1e3,
        measured.foreground_p99_ns as f64 / 1e3
    )
}

/// After one second of learning: at least this part of the throughput, and at
/// most one and a half times the latency, of the best that a hand can find.
fn learns(name: &str, model: fn() -> Model, sizes: &[u32], least: f64) {
    learns_within(1.0, 2.0, name, model, sizes, least);
}

/// The same after so many seconds of learning, in the seconds after them.
fn learns_within(
    seconds: f64,
    then: f64,
    name: &str,
    model: fn() -> Model,
    sizes: &[u32],
    least: f64,
) {
    let load = Load::mix(sizes);
    let (window, best) = best_fixed(model, &load);
    let mut run = Run::new(config(WindowConfig::Learned), model());
    run.measure(&load, seconds);
    let learned = run.measure(&load, then);
    let report = format!(
        "{name} {sizes:?}\n  {}\n  {}\n  window {:.1}",
        show(&format!("fixed {window}"), &best),
        show("learned", &learned),
        run.scheduler.snapshot().window.transfers
    );
    println!("{report}");
    assert!(is_near(&learned, &best, least), "{report}");
}

#[test]
fn learns_flash() {
    learns("flash", flash, &[16_384], 0.9);
}

#[test]
fn learns_slow_flash() {
    learns("slow flash", slow_flash, &[16_384], 0.9);
}

#[test]
fn learns_one_server() {
    learns("one server", one_server, &[16_384], 0.9);
}

/// Where one transfer is enough already, nothing is left to probe: the
/// foreground waits for one large transfer at the most, not for two.
/// A few requests are served from a cache below: beside these every other one
/// looks slowed down, whatever the window.
#[test]
fn learns_a_disk_with_a_few_quick_answers() {
    let model = || Model::Cached {
        hit_share: 0.02,
        hit_ns: 15_000,
        units: 16,
        base_ns: 150_000,
    };
    learns("a few quick answers", model, &[16_384], 0.9);
}

#[test]
fn rests_at_a_window_of_one() {
    let load = Load::mix(&[1 << 20]);
    let mut fixed = Run::new(config(WindowConfig::Fixed(2)), one_server());
    let fixed = fixed.measure(&load, 20.0);
    let mut run = Run::new(config(WindowConfig::Learned), one_server());
    run.measure(&load, 20.0);
    let learned = run.measure(&load, 20.0);
    let report = format!("{}\n{}", show("fixed 2", &fixed), show("learned", &learned));
    println!("{report}");
    assert!(
        learned.foreground_p99_ns as f64 <= 1.1 * fixed.foreground_p99_ns as f64,
        "{report}"
    );
    assert!(
        learned.bytes_per_second > 0.95 * fixed.bytes_per_second,
        "{report}"
    );
}

/// Two large transfers are all that the background has: a probe of more is
/// never filled, and must not stay in force.
#[test]
fn ends_a_probe_that_is_never_filled() {
    let mut load = Load::mix(&[1 << 20]);
    load.background.depth = 2;
    let mut fixed = Run::new(config(WindowConfig::Fixed(2)), one_server());
    let fixed = fixed.measure(&load, 5.0);
    let mut run = Run::new(config(WindowConfig::Learned), one_server());
    run.measure(&load, 5.0);
    let learned = run.measure(&load, 5.0);
    let report = format!("{}\n{}", show("fixed 2", &fixed), show("learned", &learned));
    println!("{report}");
    assert!(
        learned.foreground_mean_ns < 1.2 * fixed.foreground_mean_ns,
        "{report}"
    );
}

/// A scan of a second must not be over before the window is learned.
#[test]
fn most_of_it_is_learned_in_a_tenth_of_a_second() {
    learns_within(0.1, 0.1, "flash", flash, &[16_384], 0.85);
}

/// Those who wait for something have gone: soon nothing is left free for them.
#[test]
fn a_foreground_that_has_gone_is_soon_forgotten() {
    let mut load = Load::mix(&[16_384]);
    let mut run = Run::new(config(WindowConfig::Learned), distant_hypervisor());
    let shared = run.measure(&load, 2.0);
    load.foreground_depth = 0;
    run.measure(&load, 0.15);
    let after = run.measure(&load, 0.15);
    let long_after = run.measure(&load, 2.0);
    let report = format!(
        "{}\n{}\n{}",
        show("with a foreground", &shared),
        show("soon after", &after),
        show("long after", &long_after)
    );
    println!("{report}");
    assert!(
        shared.bytes_per_second < 0.9 * long_after.bytes_per_second,
        "the device does not tell the two apart: {report}"
    );
    assert!(
        after.bytes_per_second > 0.95 * long_after.bytes_per_second,
        "{report}"
    );
}

/// A device of which nothing is known yet is spared for those who come next, and no longer
/// than until it is known how soon it has done what fills it.
#[test]
fn the_first_foreground_is_soon_forgotten() {
    let mut load = Load::mix(&[16_384]);
    let mut run = Run::new(config(WindowConfig::Learned), flash());
    run.measure(&load, 0.001);
    load.foreground_depth = 0;
    run.measure(&load, 0.1);
    let soon = run.measure(&load, 0.2);
    let later = run.measure(&load, 2.0);
    let report = format!("{}\n{}", show("soon", &soon), show("later", &later));
    println!("{report}");
    assert!(
        soon.bytes_per_second > 0.9 * later.bytes_per_second,
        "{report}"
    );
}

/// Without a foreground, nearly all of the throughput.
#[test]
fn alone_the_background_gets_the_device() {
    alone_gets(WindowConfig::Learned, 0.93);
}

/// At least so much of what is done with 128 in flight.
fn alone_gets(window: WindowConfig, least: f64) {
    for model in [flash, slow_flash, one_server, hypervisor] {
        let mut load = Load::mix(&[16_384]);
        load.foreground_depth = 0;
        let mut all = Run::new(config(WindowConfig::Fixed(128)), model());
        all.measure(&load, 0.1);
        let all = all.measure(&load, 1.0).transfers_per_second;
        let mut run = Run::new(config(window), model());
        run.measure(&load, 2.0);
        let learned = run.measure(&load, 2.0).transfers_per_second;
        println!("all {all:.0}/s, learned {learned:.0}/s");
        assert!(learned > least * all, "{learned:.0}/s of {all:.0}/s");
    }
}

/// So many transfers in each slice.
fn budget(slice_ns: u64, transfers: u64) -> Model {
    Model::Budget {
        slice_ns,
        transfers,
        bytes: 0,
        each: false,
        latency_ns: 60_000,
    }
}

fn capped() -> Model {
    budget(100_000_000, 300)
}

/// A lifted limit is noticed, and the device's full speed used again.
#[test]
fn notices_that_a_budget_is_gone() {
    let mut load = Load::mix(&[16_384]);
    load.foreground_every_ns = 2_000_000;
    let mut run = Run::new(config(WindowConfig::Learned), capped());
    run.measure(&load, 2.0);
    assert!(run.scheduler.snapshot().window.rate_limit.is_some());
    run.device.set_model(slow_flash());
    run.measure(&load, 30.0);
    let after = run.measure(&load, 1.0);
    assert_eq!(run.scheduler.snapshot().window.rate_limit, None);
    assert!(
        after.transfers_per_second > 10_000.0,
        "{}",
        show("after", &after)
    );
}

/// A device that pauses, for its own reasons, has no budget: if it is taken for
/// one once, it must not be slowed down for good.
#[test]
fn takes_no_pause_for_a_budget() {
    let load = Load::mix(&[16_384]);
    let paused = |config: Config| {
        let mut run = Run::new(config, flash());
        let (mut bytes, mut seconds) = (0.0, 0.0);
        for _ in 0..300 {
            bytes += run.measure(&load, 0.09).bytes_per_second * 0.09;
            seconds += 0.09;
            // Nothing completes for 30 ms.
            run.now_ns += 30_000_000;
        }
        bytes / seconds
    };
    let fixed = paused(config(WindowConfig::Fixed(16)));
    let learned = paused(config(WindowConfig::Learned));
    println!("fixed {fixed:.0}, learned {learned:.0} bytes/s");
    assert!(learned > 0.85 * fixed, "{learned:.0} of {fixed:.0} bytes/s");
}

/// The same where the page cache answers part of the reads: beside its few
/// microseconds every read of the device looks slow.
#[test]
fn notices_that_a_budget_is_gone_behind_a_cache() {
    let mut load = Load::mix(&[16_384]);
    load.foreground_every_ns = 2_000_000;
    let mut run = Run::new(config(WindowConfig::Learned), capped());
    run.measure(&load, 2.0);
    assert!(run.scheduler.snapshot().window.rate_limit.is_some());
    run.device.set_model(Model::Cached {
        hit_share: 0.1,
        hit_ns: 2_000,
        units: 4,
        base_ns: 200_000,
    });
    run.measure(&load, 30.0);
    let after = run.measure(&load, 1.0);
    let report = show("after", &after);
    println!("{report}");
    assert_eq!(run.scheduler.snapshot().window.rate_limit, None, "{report}");
    assert!(after.transfers_per_second > 10_000.0, "{report}");
}

/// A shared device has moments in which it serves its queue in rounds, at a small
/// part of its speed. It is used again when they are over.
#[test]
fn takes_no_slow_moment_for_a_budget() {
    let mut load = Load::mix(&[16_384]);
    load.foreground_depth = 0;
    let mut run = Run::new(config(WindowConfig::Learned), flash());
    let usual = run.measure(&load, 2.0);
    for _ in 0..3 {
        run.device.set_model(budget(17_000_000, 20));
        run.measure(&load, 0.2);
        run.device.set_model(flash());
        let after = run.measure(&load, 2.0);
        assert_eq!(run.scheduler.snapshot().window.rate_limit, None);
        let report = format!("{}\n{}", show("usual", &usual), show("after", &after));
        assert!(
            after.bytes_per_second > 0.9 * usual.bytes_per_second,
            "{report}"
        );
    }
}

/// As above, with pauses so far apart that few of them fall into any one time:
/// each time that they are taken for a budget, the pace must not go lower.
#[test]
fn takes_no_rare_pause_for_a_budget() {
    let model = || Model::Parallel {
        units: 8,
        base_ns: 1_000_000,
        ns_per_byte: 0.0,
    };
    let mut load = Load::mix(&[16_384]);
    load.foreground_depth = 0;
    let mut run = Run::new(config(WindowConfig::Learned), model());
    let mut last = 0.0;
    for _ in 0..80 {
        last = run.measure(&load, 1.2).transfers_per_second;
        // Nothing completes for 600 ms.
        run.now_ns += 600_000_000;
    }
    let limit = run.scheduler.snapshot().window.rate_limit;
    println!("{last:.0}/s, {limit:?}");
    assert!(last > 0.5 * 8_000.0, "{last:.0}/s, {limit:?}");
}
