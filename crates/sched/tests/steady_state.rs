//! In the steady state no call allocates.

mod common;
mod sys;

use common::workload::Random;
use iolane_sched::{
    Batch, Config, Kind, Level, Policy, Request, RequestId, Scheduler, WindowConfig,
};
use std::collections::VecDeque;

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

const QUEUED: u32 = 1000;

struct Device {
    scheduler: Scheduler,
    random: Random,
    batch: Batch,
    in_flight: VecDeque<RequestId>,
    now_ns: u64,
}

impl Device {
    /// Random reads and writes that overlap now and then, so that some are
    /// held; promotions, cancellations, fast-path reads.
    fn step(&mut self) {
        self.now_ns += 20_000;
        if let Some(id) = self.in_flight.pop_front() {
            self.scheduler.complete(self.now_ns, id, true);
        }
        self.batch.clear();
        self.scheduler.dispatch(self.now_ns, &mut self.batch);
        self.in_flight
            .extend(self.batch.transfers.iter().map(|t| t.id));
        while self.scheduler.outstanding() < QUEUED as usize {
            let number = self.random.next();
            let request = Request {
                kind: [Kind::Read, Kind::Read, Kind::Write][number as usize % 3],
                file: 0,
                offset: (number >> 8) % 4096 * 4096,
                length: 4096 << ((number >> 4) % 3),
                level: Level::ALL[(number >> 40) as usize % Level::COUNT],
                durable: false,
            };
            let id = self.scheduler.enqueue(self.now_ns, request).unwrap();
            match (number >> 48) % 16 {
                0 => assert!(self.scheduler.promote(id, Level::Foreground)),
                1 => assert!(self.scheduler.cancel(id)),
                _ => {}
            }
        }
        let started = self.scheduler.start(
            self.now_ns,
            Request {
                kind: Kind::Read,
                file: 1,
                offset: self.now_ns,
                length: 4096,
                level: Level::Critical,
                durable: false,
            },
        );
        self.in_flight.extend(started);
    }
}

#[test]
fn nothing_is_allocated() {
    let fixed = Policy::ALL.map(|policy| (policy, WindowConfig::Fixed(32)));
    for (policy, window) in fixed.into_iter().chain([
        (Policy::Lanes, WindowConfig::Learned),
        (Policy::Lanes, WindowConfig::Learned),
    ]) {
        let config = Config {
            window,
            in_flight_max: 64,
            ..Config::new(policy)
        };
        let mut device = Device {
            scheduler: Scheduler::new(config).unwrap(),
            random: Random(1),
            batch: Batch::default(),
            in_flight: VecDeque::new(),
            now_ns: 0,
        };
        // Fills the tables once.
        for _ in 0..20_000 {
            device.step();
        }
        let before = sys::allocations();
        for _ in 0..20_000 {
            device.step();
        }
        assert_eq!(sys::allocations(), before, "{policy} {window:?}");
    }
}

#[test]
fn the_count_counts() {
    let before = sys::allocations();
    drop(std::hint::black_box(vec![1]));
    assert_eq!(sys::allocations(), before + 1);
}
