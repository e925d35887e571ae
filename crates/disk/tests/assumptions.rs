//! What the window assumes before it knows, and what that costs the lower levels: the speed
//! of a scan in its first completions on a volume that was just opened, and after a
//! foreground has begun, of the speed at which it settles.

mod common;

use common::median;
use iolane_disk::Description;
use iolane_disk::elevator::Core;
use iolane_disk::simulation::{Activity, Arrival, Ended, Simulation, Stream, Time};
use iolane_sched::{Config, Level, Policy};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
/// Completions of the lower level that are looked at: the first ones, ...
const FIRST: [usize; 3] = [100, 300, 1000];
/// ... and those in which it has settled, after as many more.
const SETTLED: f64 = 10_000.0;

/// A scan: what a cache holds makes no beginning faster.
fn scan() -> Stream {
    Stream {
        process: 1,
        level: Level::Background,
        arrival: Arrival::Closed {
            outstanding: 32,
            think: Time::Fixed(0),
        },
        sizes: Stream::sizes_of(16 << 10),
        trace: true,
        ..Stream::default()
    }
}

/// Reads that take a fifth of the device, from then on.
fn foreground(per_second: f64, begins_ns: u64) -> Stream {
    Stream {
        level: Level::Foreground,
        arrival: Arrival::Open {
            per_second: per_second / 5.0,
            poisson: true,
            outstanding_max: 10_000,
        },
        sizes: Stream::sizes_of(16 << 10),
        activity: Activity {
            begins_ns,
            ..Activity::ALWAYS
        },
        ..Stream::default()
    }
}

/// Ends of the scan's reads.
fn scanned(
    preset: &str,
    policy: Policy,
    beside: Option<Stream>,
    seed: u64,
    duration_ns: u64,
) -> Vec<Ended> {
    let disk = Description::preset(preset).unwrap().build(seed).unwrap();
    let core = Core::new(Config::new(policy)).unwrap();
    let simulation = Simulation::new(disk, core, seed).stream(scan());
    let simulation = beside.into_iter().fold(simulation, Simulation::stream);
    let report = simulation.run(0, duration_ns).unwrap();
    report.streams.into_iter().next().unwrap().trace
}

/// Its speed in the first so many completions after `begin_ns`, of that in the last half.
fn shares(ended: &[Ended], begin_ns: u64) -> [f64; 3] {
    let after = ended.partition_point(|one| one.at_ns < begin_ns);
    let ended = &ended[after..];
    let half = &ended[ended.len() / 2..];
    let elapsed_ns = half.last().unwrap().at_ns - half[0].at_ns;
    let settled = (half.len() - 1) as f64 / elapsed_ns as f64;
    FIRST.map(|first| first as f64 / (ended[first - 1].at_ns - begin_ns) as f64 / settled)
}

/// Medians of the seeds: on a new volume beside a foreground, on one without, and after a
/// foreground has begun.
fn all_shares(preset: &str) -> [[f64; 3]; 3] {
    let look = scanned(preset, Policy::Noop, None, 1, 20_000_000_000);
    let elapsed_ns = look[look.len().min(2000) - 1].at_ns;
    let per_second = look.len().min(2000) as f64 / elapsed_ns as f64 * 1e9;
    let duration_ns = (SETTLED / per_second * 1e9) as u64 * 2;
    let run = |beside, seed, ns| scanned(preset, Policy::Lanes, beside, seed, ns);
    let runs: Vec<[[f64; 3]; 3]> = SEEDS
        .map(|seed| {
            let opened = run(Some(foreground(per_second, 0)), seed, duration_ns);
            let alone = run(None, seed, duration_ns);
            let change_ns = duration_ns / 2;
            let begun = Some(foreground(per_second, change_ns));
            let begun = run(begun, seed, change_ns + duration_ns);
            [
                shares(&opened, 0),
                shares(&alone, 0),
                shares(&begun, change_ns),
            ]
        })
        .collect();
    [0, 1, 2].map(|case| [0, 1, 2].map(|first| median(&runs, |run| run[case][first])))
}

#[test]
fn what_is_assumed_costs_a_scan_its_speed_for_some_hundred_reads_at_most() {
    println!("speed in the first {FIRST:?} completions, of what it settles at");
    for preset in Description::presets() {
        let name = preset.name;
        let [opened, alone, begun] = all_shares(name);
        println!(
            "{name}: opened {opened:.2?}, opened without a foreground {alone:.2?}, \
             a foreground begins {begun:.2?}"
        );
        assert!(alone[0] > 0.7 && alone[1] > 0.9, "{name} {alone:?}");
        for beside in [opened, begun] {
            assert!(beside[0] > 0.1 && beside[2] > 0.3, "{name} {beside:?}");
        }
    }
}
