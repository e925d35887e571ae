//! A host for the tests of models: keeps commands outstanding and takes times.

use super::seeded::Seeded;
use super::{Command, Kind, Model};

/// What a run of commands took.
pub(super) struct Run {
    pub(super) elapsed_ns: u64,
    pub(super) commands: u64,
    pub(super) bytes: u64,
    pub(super) latencies_ns: Vec<u64>,
}

impl Run {
    pub(super) fn per_second(&self) -> f64 {
        self.commands as f64 * 1e9 / self.elapsed_ns as f64
    }

    pub(super) fn mb_per_second(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.elapsed_ns as f64
    }

    pub(super) fn mean_us(&self) -> f64 {
        self.latencies_ns.iter().sum::<u64>() as f64 / self.latencies_ns.len() as f64 / 1e3
    }

    pub(super) fn quantile_us(&mut self, share: f64) -> f64 {
        self.latencies_ns.sort_unstable();
        let index = (self.latencies_ns.len() as f64 * share) as usize;
        self.latencies_ns[index] as f64 / 1e3
    }
}

/// Keeps `depth` commands outstanding until `commands` have ended.
pub(super) fn run(
    disk: &mut dyn Model,
    start_ns: u64,
    depth: u32,
    commands: u64,
    mut next: impl FnMut() -> Command,
) -> Run {
    let mut submitted_ns = vec![0; depth as usize];
    let mut result = Run {
        elapsed_ns: 0,
        commands: 0,
        bytes: 0,
        latencies_ns: Vec::new(),
    };
    let mut now_ns = start_ns;
    for tag in 0..depth {
        disk.submit(now_ns, Command { tag, ..next() });
        submitted_ns[tag as usize] = now_ns;
    }
    let mut done = Vec::new();
    while result.commands < commands {
        let event_ns = disk.next_event_ns().expect("commands are outstanding");
        assert!(event_ns >= now_ns);
        now_ns = event_ns;
        disk.advance(now_ns, &mut done);
        for ended in done.drain(..) {
            assert_eq!(ended.at_ns, now_ns, "the disk calls in time for each end");
            result.commands += 1;
            let slot = ended.tag as usize;
            result.latencies_ns.push(ended.at_ns - submitted_ns[slot]);
            let command = Command {
                tag: ended.tag,
                ..next()
            };
            result.bytes += u64::from(command.length);
            submitted_ns[slot] = now_ns;
            disk.submit(now_ns, command);
        }
    }
    result.elapsed_ns = now_ns - start_ns;
    result
}

pub(super) fn command(kind: Kind, offset: u64, length: u32) -> Command {
    Command {
        tag: 0,
        kind,
        offset,
        length,
        durable: false,
    }
}

pub(super) fn random(
    kind: Kind,
    capacity_bytes: u64,
    length: u32,
    seed: u64,
) -> impl FnMut() -> Command {
    let mut chance = Seeded::new(seed);
    let places = capacity_bytes / u64::from(length);
    move || command(kind, chance.below(places) * u64::from(length), length)
}

pub(super) fn sequential(kind: Kind, capacity_bytes: u64, length: u32) -> impl FnMut() -> Command {
    let mut at = 0;
    move || {
        if at + u64::from(length) > capacity_bytes {
            at = 0;
        }
        at += u64::from(length);
        command(kind, at - u64::from(length), length)
    }
}

/// Ends what is outstanding, then runs on.
pub(super) fn run_on(
    disk: &mut dyn Model,
    from_ns: u64,
    depth: u32,
    commands: u64,
    next: impl FnMut() -> Command,
) -> Run {
    let now_ns = drain(disk, from_ns);
    run(disk, now_ns, depth, commands, next)
}

pub(super) fn drain(disk: &mut dyn Model, from_ns: u64) -> u64 {
    let mut done = Vec::new();
    let mut now_ns = from_ns;
    while let Some(event_ns) = disk.next_event_ns() {
        now_ns = event_ns;
        disk.advance(now_ns, &mut done);
    }
    now_ns
}
