//! What every elevator owes its host, on every modelled disk.

mod common;

use common::{MS, elevators, read, write};
use iolane_disk::elevator::Dispatched;
use iolane_disk::simulation::{Arrival, Stream, Time};
use iolane_disk::{Description, Elevator, Simulation};
use iolane_sched::Level;
use std::collections::BTreeSet;

/// A small generator: xorshift64 (Marsaglia 2003).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Random requests at random times through one elevator; what was added and
/// not yet ended is known by tag.
fn each_ends_once(name: &str, mut elevator: Box<dyn Elevator>, seed: u64) {
    let state = &mut (seed | 1);
    let (mut now_ns, mut next_tag, mut ended) = (0, 0, 0);
    let mut waiting = BTreeSet::new();
    let mut in_disk: Vec<Vec<u32>> = Vec::new();
    elevator.attach(16);
    while ended < 5000 {
        now_ns += next(state) % (2 * MS);
        let sync = !next(state).is_multiple_of(3);
        let request = if sync {
            read((next(state) % 5) as u32, next(state) % 4096 * (16 << 10))
        } else {
            write((next(state) % 5) as u32, next(state) % 4096 * (16 << 10))
        };
        // Phases of filling and of draining: everything must come out.
        let filling = next_tag < 5000 && (ended / 500) % 2 == 0 || waiting.is_empty();
        if filling && next_tag < 5000 && elevator.admits(&request) {
            elevator.add(now_ns, next_tag, &request);
            assert!(waiting.insert(next_tag));
            next_tag += 1;
        }
        let mut dispatched = Dispatched::default();
        let room = 16 - in_disk.len();
        elevator.dispatch(now_ns, room, &mut dispatched);
        assert!(dispatched.transfers.len() <= room, "{name}, seed {seed}");
        let mut begin = 0;
        for transfer in &dispatched.transfers {
            let members = dispatched.members[begin..transfer.members_end].to_vec();
            begin = transfer.members_end;
            for tag in &members {
                assert!(waiting.remove(tag), "{name}, seed {seed}: {tag} sent twice");
            }
            assert_eq!(members[0], transfer.tag, "{name}, seed {seed}");
            in_disk.push(members);
        }
        if !in_disk.is_empty() && next(state).is_multiple_of(2) {
            let members = in_disk.swap_remove((next(state) % in_disk.len() as u64) as usize);
            elevator.complete(now_ns, members[0]);
            ended += members.len();
        }
        assert!(
            now_ns < 60_000 * MS,
            "{name}, seed {seed}: {} never go",
            waiting.len()
        );
    }
    assert_eq!((ended, waiting.len()), (5000, 0), "{name}, seed {seed}");
}

#[test]
fn every_request_goes_once_and_in_the_end_through_every_elevator() {
    for seed in 1..=10 {
        for (name, elevator) in elevators() {
            each_ends_once(name, elevator, seed);
        }
    }
}

#[test]
fn every_elevator_serves_a_foreground_beside_a_background_on_every_disk() {
    for preset in Description::presets() {
        for (name, elevator) in elevators() {
            let disk = Description::preset(preset.name).unwrap().build(1).unwrap();
            // Some thousand requests, and seconds for what takes milliseconds.
            let duration_ns = if disk.rotating() {
                60_000 * MS
            } else {
                300 * MS
            };
            let stream = |name: &str, outstanding, process, level| Stream {
                name: name.into(),
                arrival: Arrival::Closed {
                    outstanding,
                    think: Time::Fixed(0),
                },
                read_share: 0.8,
                process,
                level,
                ..Stream::default()
            };
            let report = Simulation::new(disk, elevator, 1)
                .stream(stream("foreground", 1, 0, Level::Foreground))
                .stream(stream("background", 32, 1, Level::Background))
                .run(duration_ns / 10, duration_ns)
                .unwrap();
            let who = format!("{name} on {}", preset.name);
            for tally in &report.streams {
                assert!(tally.operations >= 5, "{who}: {}", tally.operations);
                let outstanding = tally.outstanding_mean;
                assert_eq!(outstanding.fract(), 0.0, "{who}: {outstanding}");
                let by_law = tally.per_second() * tally.latency_mean_ns / 1e9;
                let slack = tally.latency.max() as f64 / duration_ns as f64;
                assert!(
                    (by_law / outstanding - 1.0).abs() <= 0.02 + 2.0 * slack,
                    "{who}, {}: {by_law} by Little's law instead of {outstanding}",
                    tally.name
                );
            }
            assert!(report.blocked_mean == 0.0, "{who}: {}", report.blocked_mean);
        }
    }
}
