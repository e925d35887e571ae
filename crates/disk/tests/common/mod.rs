//! A disk with one head, as simple as can be, and short-hands.

#![allow(dead_code, missing_docs, reason = "each test binary uses some of it")]

use iolane_disk::elevator::{
    Anticipatory, BlockLayerParameters, Cfq, Core, Dispatched, Elevator, LinuxDeadline, LinuxNoop,
    Request,
};
use iolane_disk::model::{Command, Constant, ConstantParameters, Done, Kind, Model};
use iolane_sched::{Config, Level, Policy};
use std::collections::VecDeque;

/// The middle of what `of` says of each run.
pub fn median<T>(runs: &[T], of: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub const MS: u64 = 1_000_000;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// One head that serves one command after the other, first come first served:
/// 8 ms to get anywhere, nothing to go on where it is, 32 MiB/s.
pub struct Head {
    queue_max: usize,
    queue: VecDeque<Command>,
    position: u64,
    ends_ns: Option<u64>,
}

impl Head {
    pub const SEEK_NS: u64 = 8 * MS;

    pub fn new(queue_max: usize) -> Head {
        Head {
            queue_max,
            queue: VecDeque::new(),
            position: 0,
            ends_ns: None,
        }
    }

    fn begin_next(&mut self, now_ns: u64) {
        self.ends_ns = self.queue.front().map(|command| {
            let seek_ns = if command.kind == Kind::Flush || command.offset == self.position {
                0
            } else {
                Head::SEEK_NS
            };
            now_ns + seek_ns + u64::from(command.length) * 1_000_000_000 / (32 * MIB)
        });
    }
}

impl Model for Head {
    fn capacity_bytes(&self) -> u64 {
        64 * GIB
    }

    fn queue_max(&self) -> usize {
        self.queue_max
    }

    fn rotating(&self) -> bool {
        true
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        assert!(self.queue.len() < self.queue_max);
        self.queue.push_back(command);
        if self.ends_ns.is_none() {
            self.begin_next(now_ns);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.ends_ns
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some(at_ns) = self.ends_ns.filter(|&at_ns| at_ns <= now_ns) {
            let command = self.queue.pop_front().expect("one is being served");
            if command.kind != Kind::Flush {
                self.position = command.offset + u64::from(command.length);
            }
            done.push(Done {
                tag: command.tag,
                at_ns,
            });
            self.begin_next(at_ns);
        }
    }
}

pub fn constant(queue_max: usize, latency_ns: u64) -> Constant {
    Constant::new(ConstantParameters {
        capacity_bytes: 64 * GIB,
        queue_max,
        latency_ns,
    })
    .expect("the parameters are in range")
}

/// A read of 16 KiB that somebody waits for.
pub fn read(process: u32, offset: u64) -> Request {
    Request {
        kind: Kind::Read,
        offset,
        length: 16 << 10,
        durable: false,
        process,
        sync: true,
        level: Level::Normal,
    }
}

/// A write of 16 KiB that nobody waits for.
pub fn write(process: u32, offset: u64) -> Request {
    Request {
        kind: Kind::Write,
        sync: false,
        ..read(process, offset)
    }
}

/// The tags that an elevator would send now.
pub fn dispatch(elevator: &mut impl Elevator, now_ns: u64, room: usize) -> Vec<u32> {
    let mut dispatched = Dispatched::default();
    elevator.dispatch(now_ns, room, &mut dispatched);
    let tags = dispatched.transfers.iter();
    tags.map(|transfer| transfer.tag).collect()
}

/// Serves whatever the elevator sends, one at a time, `service_ns` each, from
/// `now_ns` on; the tags in the order in which they went.
pub fn serve(
    elevator: &mut impl Elevator,
    mut now_ns: u64,
    service_ns: u64,
    count: usize,
) -> Vec<u32> {
    let mut served = Vec::new();
    while served.len() < count {
        match dispatch(elevator, now_ns, 1)[..] {
            [tag] => {
                now_ns += service_ns;
                elevator.complete(now_ns, tag);
                served.push(tag);
            }
            _ => now_ns = elevator.next_timer_ns().expect("it waits for something"),
        }
    }
    served
}

/// Every elevator there is.
pub fn elevators() -> Vec<(&'static str, Box<dyn Elevator>)> {
    let block = BlockLayerParameters::default;
    let mut all: Vec<(&'static str, Box<dyn Elevator>)> = vec![
        ("linux noop", Box::new(LinuxNoop::noop(block()).unwrap())),
        (
            "linux deadline",
            Box::new(LinuxDeadline::deadline(Default::default(), block()).unwrap()),
        ),
        (
            "anticipatory",
            Box::new(Anticipatory::anticipatory(Default::default(), block()).unwrap()),
        ),
        (
            "cfq",
            Box::new(Cfq::cfq(Default::default(), block()).unwrap()),
        ),
    ];
    for policy in Policy::ALL {
        all.push((
            policy.name(),
            Box::new(Core::new(Config::new(policy)).unwrap()),
        ));
    }
    all
}
