//! What a request costs the scheduler, with 1000 queued, per request: `enqueue
//! to dispatch` alone, and the whole cycle of enqueue, dispatch and complete.
//! Run with `cargo bench -p iolane-sched --bench queue`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iolane_sched::{
    Batch, Config, Kind, Level, Policy, Request, RequestId, Scheduler, WindowConfig,
};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

const QUEUED: usize = 1000;
const LENGTH: u32 = 16 << 10;
/// 64 GiB in pages of 16 KiB.
const PAGES: u64 = 4 << 20;

/// xorshift64 (Marsaglia 2003): the same requests in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// What kind of requests come.
#[derive(Clone, Copy)]
enum Load {
    /// Reads of random pages, all at one level.
    RandomReads,
    /// Three reads to a write, random pages, over all levels.
    Mixed,
    /// Sixteen sequential streams of reads: neighbours are merged.
    Sequential,
}

impl Load {
    const ALL: [(Load, &str); 3] = [
        (Load::RandomReads, "random-reads"),
        (Load::Mixed, "mixed"),
        (Load::Sequential, "sequential"),
    ];
}

/// A device with a scheduler in the steady state: a transfer ends, what may go
/// goes, and as many requests come as went.
struct Device {
    scheduler: Scheduler,
    load: Load,
    random: Random,
    streams: [u64; 16],
    batch: Batch,
    in_flight: VecDeque<RequestId>,
    now_ns: u64,
    /// Requests that went to the device.
    dispatched: u64,
}

impl Device {
    fn new(policy: Policy, load: Load) -> Device {
        let config = Config {
            window: WindowConfig::Fixed(32),
            ..Config::new(policy)
        };
        let mut device = Device {
            scheduler: Scheduler::new(config).expect("the settings are in range"),
            load,
            random: Random(0x9e37_79b9_7f4a_7c15),
            streams: std::array::from_fn(|stream| stream as u64 * (PAGES / 16)),
            batch: Batch::default(),
            in_flight: VecDeque::new(),
            now_ns: 0,
            dispatched: 0,
        };
        device.enqueue(QUEUED);
        for _ in 0..10_000 {
            device.step();
        }
        device
    }

    fn request(&mut self) -> Request {
        let random = self.random.next();
        let (kind, level, page) = match self.load {
            Load::RandomReads => (Kind::Read, Level::Prefetch, random % PAGES),
            Load::Mixed => {
                let kind = if (random >> 40).is_multiple_of(4) {
                    Kind::Write
                } else {
                    Kind::Read
                };
                let level = Level::ALL[(random >> 48) as usize % Level::COUNT];
                (kind, level, random % PAGES)
            }
            Load::Sequential => {
                let stream = &mut self.streams[(random >> 48) as usize % 16];
                *stream = (*stream + 1) % PAGES;
                (Kind::Read, Level::Prefetch, *stream)
            }
        };
        Request {
            kind,
            file: 0,
            offset: page * u64::from(LENGTH),
            length: LENGTH,
            level,
            durable: false,
        }
    }

    fn enqueue(&mut self, count: usize) {
        for _ in 0..count {
            let request = self.request();
            black_box(self.scheduler.enqueue(self.now_ns, request)).expect("groups have room");
        }
    }

    fn dispatch(&mut self) {
        self.batch.clear();
        self.scheduler.dispatch(self.now_ns, &mut self.batch);
        self.in_flight
            .extend(self.batch.transfers.iter().map(|transfer| transfer.id));
        self.dispatched += self.batch.members.len() as u64;
    }

    fn step(&mut self) {
        self.now_ns += 20_000;
        if let Some(id) = self.in_flight.pop_front() {
            self.scheduler.complete(self.now_ns, id, true);
        }
        self.dispatch();
        // As many as went: the queue stays as long as it was.
        self.enqueue(self.batch.members.len());
    }
}

impl Device {
    /// Completes everything in flight, and times how long it takes to enqueue
    /// as many requests as then go, and to dispatch them.
    fn timed_step(&mut self) -> Duration {
        self.now_ns += 20_000;
        let went = self.batch.members.len();
        while let Some(id) = self.in_flight.pop_front() {
            self.scheduler.complete(self.now_ns, id, true);
        }
        let start = Instant::now();
        self.enqueue(went);
        self.dispatch();
        start.elapsed()
    }
}

fn enqueue_to_dispatch(criterion: &mut Criterion) {
    for (load, name) in Load::ALL {
        let mut group = criterion.benchmark_group(format!("enqueue to dispatch, {name}"));
        group.throughput(Throughput::Elements(1));
        for policy in Policy::ALL {
            let mut device = Device::new(policy, load);
            group.bench_function(BenchmarkId::from_parameter(policy), |bencher| {
                bencher.iter_custom(|requests| {
                    let goal = device.dispatched + requests;
                    let mut elapsed = Duration::ZERO;
                    while device.dispatched < goal {
                        elapsed += device.timed_step();
                    }
                    let done = requests + device.dispatched - goal;
                    elapsed.mul_f64(requests as f64 / done as f64)
                });
            });
        }
        group.finish();
    }
}

fn whole_cycle(criterion: &mut Criterion) {
    for (load, name) in Load::ALL {
        let mut group = criterion.benchmark_group(format!("whole cycle, {name}"));
        group.throughput(Throughput::Elements(1));
        for policy in Policy::ALL {
            let mut device = Device::new(policy, load);
            group.bench_function(BenchmarkId::from_parameter(policy), |bencher| {
                bencher.iter_custom(|requests| {
                    let goal = device.dispatched + requests;
                    let start = Instant::now();
                    while device.dispatched < goal {
                        device.step();
                    }
                    // The last transfer may have gone beyond the goal.
                    let done = requests + device.dispatched - goal;
                    start.elapsed().mul_f64(requests as f64 / done as f64)
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = enqueue_to_dispatch, whole_cycle
}
criterion_main!(benches);
