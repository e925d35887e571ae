//! A small foreground beside scans that have one read outstanding each, on a volume
//! under the kernel's throttle (`blk-throttle`): what exceeds the budget of a tenth of a
//! second waits for the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use iolane_disk::elevator::Core;
use iolane_disk::model::{Command, Done, Kind, Model};
use iolane_disk::simulation::{Arrival, Random, Report, Simulation, Stream, Time};
use iolane_sched::{Config, Level, Policy};

const SECOND_NS: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// The kernel's slice.
const SLICE_NS: u64 = 100 * MS;
/// Reads and as many writes, of any size: 3000 a second.
const COMMANDS: Limits = Limits {
    commands: 300,
    bytes: u64::MAX,
};
/// The same, and 20 MB/s of each.
const BYTES: Limits = Limits {
    commands: 300,
    bytes: 2_000_000,
};
/// What the disk below takes: exponentially distributed beyond the least.
const LEAST_NS: f64 = 70e3;
const MEAN_BEYOND_NS: f64 = 50e3;
/// Of everything.
const REGION: Range<u64> = 0..(1 << 30);

/// What passes in a slice in one direction.
#[derive(Clone, Copy)]
struct Limits {
    commands: u64,
    bytes: u64,
}

/// Which slice is being filled, and how far.
#[derive(Clone, Copy, Default)]
struct Slice {
    number: u64,
    commands: u64,
    bytes: u64,
}

impl Slice {
    /// When a command that comes now passes: first come, first served. What is larger than the
    /// bytes of a slice takes those of the next ones.
    fn pass_ns(&mut self, now_ns: u64, bytes: u64, limits: Limits) -> u64 {
        let present = now_ns / SLICE_NS;
        if present > self.number {
            *self = Slice {
                number: present,
                ..Slice::default()
            };
        }
        self.commands += 1;
        self.bytes += bytes;
        while self.commands > limits.commands || self.bytes > limits.bytes {
            self.number += 1;
            self.commands = self.commands.saturating_sub(limits.commands).max(1);
            self.bytes = self.bytes.saturating_sub(limits.bytes).max(bytes);
        }
        now_ns.max(self.number * SLICE_NS)
    }
}

/// A quick disk under the throttle. Flushes pass it.
struct Throttled {
    limits: Limits,
    reads: Slice,
    writes: Slice,
    endings: BinaryHeap<Reverse<(u64, u64, u32)>>,
    submitted: u64,
    random: Random,
}

impl Throttled {
    fn new(limits: Limits, seed: u64) -> Throttled {
        Throttled {
            limits,
            reads: Slice::default(),
            writes: Slice::default(),
            endings: BinaryHeap::new(),
            submitted: 0,
            random: Random::new(seed, 0),
        }
    }
}

impl Model for Throttled {
    fn capacity_bytes(&self) -> u64 {
        64 << 30
    }

    fn queue_max(&self) -> usize {
        1024
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        let bytes = u64::from(command.length);
        let passed_ns = match command.kind {
            Kind::Read => self.reads.pass_ns(now_ns, bytes, self.limits),
            Kind::Write => self.writes.pass_ns(now_ns, bytes, self.limits),
            Kind::Flush => now_ns,
        };
        let beyond_ns = -MEAN_BEYOND_NS * (1.0 - self.random.unit()).ln();
        let at_ns = passed_ns + (LEAST_NS + beyond_ns) as u64;
        self.submitted += 1;
        self.endings
            .push(Reverse((at_ns, self.submitted, command.tag)));
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.endings.peek().map(|ending| ending.0.0)
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some(&Reverse((at_ns, _, tag))) = self.endings.peek()
            && at_ns <= now_ns
        {
            self.endings.pop();
            done.push(Done { tag, at_ns });
        }
    }
}

fn open(name: &str, level: Level, read_share: f64, per_second: f64) -> Stream {
    Stream {
        name: name.to_owned(),
        level,
        read_share,
        region: REGION,
        arrival: Arrival::Open {
            per_second,
            poisson: true,
            outstanding_max: 10_000,
        },
        sizes: Stream::sizes_of(16 << 10),
        ..Stream::default()
    }
}

fn foreground() -> Vec<Stream> {
    vec![
        open("queries", Level::Foreground, 1.0, 150.0),
        Stream {
            flush_every: 1,
            sizes: Stream::sizes_of(4096),
            ..open("log", Level::Critical, 0.0, 180.0)
        },
    ]
}

/// Each reads, looks at what it has read, and reads on.
fn scan(number: u32) -> Stream {
    Stream {
        name: format!("scan {number}"),
        process: number,
        level: Level::Background,
        region: REGION,
        arrival: Arrival::Closed {
            outstanding: 1,
            think: Time::Exponential(60e3),
        },
        sizes: Stream::sizes_of(16 << 10),
        ..Stream::default()
    }
}

fn run(limits: Limits, streams: Vec<Stream>, policy: Policy, seed: u64) -> Report {
    let core = Core::new(Config::new(policy)).unwrap();
    let simulation = Simulation::new(Throttled::new(limits, seed), core, seed);
    let simulation = streams.into_iter().fold(simulation, Simulation::stream);
    simulation.run(10 * SECOND_NS, 30 * SECOND_NS).unwrap()
}

/// The 99th percentile of a stream, and what the scans did.
fn p99_ms(report: &Report, stream: usize) -> f64 {
    report.streams[stream].latency_ns(0.99) as f64 / 1e6
}

fn scanned(report: &Report) -> f64 {
    let scans = &report.streams[2..];
    scans.iter().map(|scan| scan.operations).sum::<u64>() as f64
}

#[test]
fn scans_that_never_queue_leave_the_budget_to_queries() {
    for seed in 1..=5 {
        let mut streams = foreground();
        let alone = run(COMMANDS, streams.clone(), Policy::Lanes, seed);
        streams.extend((1..=3).map(scan));
        let noop = run(COMMANDS, streams.clone(), Policy::Noop, seed);
        let lanes = run(COMMANDS, streams, Policy::Lanes, seed);
        for (stream, name) in ["queries", "log"].into_iter().enumerate() {
            let [alone, beside, without] =
                [&alone, &lanes, &noop].map(|report| p99_ms(report, stream));
            println!(
                "seed {seed}, {name}: p99 {alone:.2} ms alone, {beside:.2} ms beside, \
                 {without:.1} ms without priorities"
            );
            assert!(beside < 10.0 * alone, "{name}: {beside} ms");
        }
        let share = scanned(&lanes) / scanned(&noop);
        println!("seed {seed}: {share:.3} of the scans");
        assert!(share > 0.9, "{share} of the scans");
    }
}

/// A foreground at random pauses now and then. The lower levels keep to their pace
/// meanwhile: what they would send in a moment is the budget that it finds used up when
/// it comes again.
#[test]
fn a_foreground_that_pauses_finds_the_budget_as_it_left_it() {
    for seed in 1..=3 {
        let queries = open("queries", Level::Foreground, 1.0, 500.0);
        let scans = Stream {
            arrival: Arrival::Closed {
                outstanding: 128,
                think: Time::Exponential(0.0),
            },
            ..scan(1)
        };
        let lanes = run(COMMANDS, vec![queries, scans], Policy::Lanes, seed);
        let p99_ms = p99_ms(&lanes, 0);
        println!("seed {seed}: p99 {p99_ms:.2} ms");
        assert!(p99_ms < 10.0, "{p99_ms} ms");
    }
}

/// A base backup: one reader, of which a slice has room for eight or sixteen blocks. It may look at
/// each before it reads on, and queue by itself or not.
#[test]
fn one_reader_that_uses_up_the_bytes_leaves_them_to_queries() {
    let thinks = [0.0, 60e3, 2e6];
    let rates = [(30.0, 16 << 10), (100.0, 8 << 10), (150.0, 16 << 10)];
    let loads: Vec<_> = [1, 2, 4, 16]
        .into_iter()
        .flat_map(|outstanding| [128 << 10, 256 << 10].map(|size| (outstanding, size)))
        .flat_map(|reader| thinks.map(|think| (reader, think)))
        .flat_map(|(reader, think)| rates.map(|queries| (reader, think, queries)))
        .collect();
    let (mut latency, mut work) = (Vec::new(), Vec::new());
    for (seed, ((outstanding, size), think, (per_second, bytes))) in (1..).zip(loads) {
        let mut streams = foreground();
        streams[0] = Stream {
            sizes: Stream::sizes_of(bytes),
            ..open("queries", Level::Foreground, 1.0, per_second)
        };
        streams.push(Stream {
            sizes: Stream::sizes_of(size),
            arrival: Arrival::Closed {
                outstanding,
                think: Time::Exponential(think),
            },
            ..scan(1)
        });
        let noop = run(BYTES, streams.clone(), Policy::Noop, seed);
        let lanes = run(BYTES, streams, Policy::Lanes, seed);
        let share = scanned(&lanes) / scanned(&noop);
        println!(
            "seed {seed}: {outstanding} x {size}, {think} ns between them, beside {per_second}/s: p99 {:.2} ms, {:.1} ms without priorities, {share:.3} of the reader",
            p99_ms(&lanes, 0),
            p99_ms(&noop, 0)
        );
        latency.push(p99_ms(&lanes, 0));
        work.push(share);
    }
    for values in [&mut latency, &mut work] {
        values.sort_by(f64::total_cmp);
    }
    // A trial of 0.3 s that sends too much is a hundredth of the 30 s, and so its latency may be the p99.
    let (median, many) = (latency[latency.len() / 2], latency[latency.len() * 9 / 10]);
    println!(
        "p99 {median:.2} ms in the median, nine tenths below {many:.1} ms, work at least {:.3}",
        work[0]
    );
    assert!(median < 1.0 && many < 20.0, "p99 {median} and {many} ms");
    assert!(work[0] > 0.8, "{} of the reader", work[0]);
}
