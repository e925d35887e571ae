//! Tests of what models say of the ends of commands when these begin.

use std::collections::HashMap;

use super::seeded::Seeded;
use super::{Command, Done, Kind, Model};
use crate::Description;

/// Reads, or writes, of 16 KiB at random places, always so many outstanding:
/// foreseen and true ends of each, in the order of submission.
fn ends(disk: &mut dyn Model, kind: Kind, depth: u32, commands: u32) -> Vec<(u64, u64, u64)> {
    const LENGTH: u32 = 16 << 10;
    let mut random = Seeded::new(u64::from(depth));
    let places = disk.capacity_bytes() / u64::from(LENGTH);
    let mut now_ns = 0;
    let mut begun: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut ended = Vec::new();
    let mut done: Vec<Done> = Vec::new();
    for tag in 0..commands {
        while begun.len() == depth as usize {
            now_ns = disk.next_event_ns().expect("commands are outstanding");
            disk.advance(now_ns, &mut done);
            for done in done.drain(..) {
                let (begun_ns, foreseen_ns) = begun.remove(&done.tag).unwrap();
                ended.push((begun_ns, foreseen_ns, done.at_ns));
            }
        }
        let command = Command {
            tag,
            kind,
            offset: random.below(places) * u64::from(LENGTH),
            length: LENGTH,
            durable: false,
        };
        disk.submit(now_ns, command);
        let foreseen_ns = disk.foreseen_ns().expect("it foresees");
        begun.insert(tag, (now_ns, foreseen_ns));
    }
    ended
}

fn disk(preset: &str) -> Box<dyn Model> {
    Description::preset(preset).unwrap().build(1).unwrap()
}

#[test]
fn volumes_and_constant_disks_say_exactly_when_commands_end() {
    for preset in ["constant-100us", "aws-io2", "aws-gp3", "cloud-1ms"] {
        for depth in [1, 16] {
            for (_, foreseen_ns, end_ns) in ends(&mut *disk(preset), Kind::Read, depth, 2_000) {
                assert_eq!(foreseen_ns, end_ns, "{preset}, depth {depth}");
            }
        }
    }
}

/// Latencies' mean error, in percent of their mean.
fn error_percent(ends: &[(u64, u64, u64)]) -> f64 {
    let sum = |part: fn(&(u64, u64, u64)) -> u64| ends.iter().map(part).sum::<u64>() as f64;
    let foreseen = sum(|&(begun, foreseen, _)| foreseen - begun);
    let took = sum(|&(begun, _, end)| end - begun);
    (foreseen / took - 1.0) * 100.0
}

#[test]
fn flash_foresees_reads_one_at_a_time_exactly_and_with_many_nearly() {
    for preset in ["nvme-ssd", "sata-ssd"] {
        for (_, foreseen_ns, end_ns) in ends(&mut *disk(preset), Kind::Read, 1, 2_000) {
            assert!(foreseen_ns.abs_diff(end_ns) <= 1, "{foreseen_ns} {end_ns}");
        }
        // 32 keep the interface of either busy.
        for depth in [4, 32] {
            let error = error_percent(&ends(&mut *disk(preset), Kind::Read, depth, 20_000));
            assert!(error.abs() < 2.0, "{preset}, depth {depth}: {error} %");
        }
    }
}

#[test]
fn flash_foresees_writes_that_find_room() {
    for preset in ["nvme-ssd", "sata-ssd"] {
        for (_, foreseen_ns, end_ns) in ends(&mut *disk(preset), Kind::Write, 1, 100) {
            assert_eq!(foreseen_ns, end_ns);
        }
    }
}

#[test]
fn rotating_disks_foresee_nothing() {
    let mut disk = disk("sata-7200");
    let command = Command {
        tag: 0,
        kind: Kind::Read,
        offset: 1 << 30,
        length: 4096,
        durable: false,
    };
    disk.submit(0, command);
    assert_eq!(disk.foreseen_ns(), None);
}
