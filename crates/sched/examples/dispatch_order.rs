//! Traces for a device of depth 1, and the order in which `prio-deadline`
//! serves them: what the kernel module of the same name must do, too.
//!
//! `dispatch_order DIRECTORY` writes for each trace a file NAME.trace (a
//! request per line: direction, level, offset and length in bytes),
//! NAME.deadlines (microseconds by level) and NAME.order (numbers of the
//! requests). The first request occupies the device and the second the place
//! behind it, as the kernel takes one request more out of its scheduler than
//! the device can hold; all others come while the first is served. Deadlines
//! are none or an hour, so that the time of submission does not matter.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, process};

use iolane_sched::{
    Batch, Config, Deadline, Direction, Kind, Level, Policy, Request, RequestId, Scheduler,
    WindowConfig,
};

/// Enough for several batches of 16 in both directions.
const REQUESTS: usize = 44;
/// Requests start this far apart at least: none touches another.
const SPACING_BYTES: u64 = 1 << 20;
/// Places on the device of the tests.
const PLACES: u64 = 1000;
const HOUR_NS: u64 = 3_600_000_000_000;
/// Long after the last request came, long before an hour has passed.
const SERVICE_STARTS_NS: u64 = 10_000_000_000;

struct Trace {
    name: &'static str,
    seed: u64,
    directions: &'static [Direction],
    /// The levels whose deadline passes at once.
    expire_at_once: &'static [Level],
}

const BOTH: &[Direction] = &[Direction::Read, Direction::Write];

const TRACES: [Trace; 7] = [
    Trace {
        name: "reads",
        seed: 1,
        directions: &[Direction::Read],
        expire_at_once: &[],
    },
    Trace {
        name: "writes",
        seed: 2,
        directions: &[Direction::Write],
        expire_at_once: &[],
    },
    Trace {
        name: "mixed",
        seed: 3,
        directions: BOTH,
        expire_at_once: &[],
    },
    Trace {
        name: "mixed_again",
        seed: 4,
        directions: BOTH,
        expire_at_once: &[],
    },
    Trace {
        name: "all_expired",
        seed: 5,
        directions: BOTH,
        expire_at_once: &Level::ALL,
    },
    Trace {
        name: "urgent_expired",
        seed: 6,
        directions: BOTH,
        expire_at_once: &[Level::Critical, Level::Foreground],
    },
    Trace {
        name: "low_expired",
        seed: 7,
        directions: BOTH,
        expire_at_once: &[Level::Background],
    },
];

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn requests(trace: &Trace) -> Vec<Request> {
    let mut random = Random(trace.seed);
    let mut places: Vec<u64> = (0..PLACES).collect();
    (0..REQUESTS)
        .map(|_| {
            let place = places.swap_remove(random.below(places.len() as u64) as usize);
            let direction = trace.directions[random.below(trace.directions.len() as u64) as usize];
            Request {
                kind: match direction {
                    Direction::Read => Kind::Read,
                    Direction::Write => Kind::Write,
                },
                file: 0,
                offset: place * SPACING_BYTES,
                length: 4096 * (1 + random.below(8) as u32),
                level: Level::ALL[random.below(Level::COUNT as u64) as usize],
                durable: false,
            }
        })
        .collect()
}

fn config(trace: &Trace) -> Config {
    let mut config = Config::new(Policy::PrioDeadline);
    // The one that is served, and the one that the kernel holds ready.
    config.window = WindowConfig::Fixed(2);
    for level in Level::ALL {
        let at_once = trace.expire_at_once.contains(&level);
        config.levels[level.index()].deadline = Deadline::Fixed(if at_once { 0 } else { HOUR_NS });
    }
    config
}

/// The numbers of the requests in the order in which they are dispatched.
fn order(trace: &Trace, requests: &[Request]) -> Vec<usize> {
    let mut scheduler = Scheduler::new(config(trace)).expect("the configuration is valid");
    let mut batch = Batch::default();
    let mut in_flight: Vec<RequestId> = Vec::new();
    let mut order = Vec::new();
    let mut dispatch = |scheduler: &mut Scheduler, now_ns, in_flight: &mut Vec<RequestId>| {
        batch.clear();
        scheduler.dispatch(now_ns, &mut batch);
        for transfer in &batch.transfers {
            let number = requests
                .iter()
                .position(|request| request.offset == transfer.offset)
                .expect("no request was merged");
            order.push(number);
            in_flight.push(transfer.id);
        }
    };
    for (number, &request) in requests.iter().enumerate() {
        let now_ns = number as u64;
        scheduler
            .enqueue(now_ns, request)
            .expect("the groups have room for the whole trace");
        dispatch(&mut scheduler, now_ns, &mut in_flight);
    }
    let mut now_ns = SERVICE_STARTS_NS;
    while !in_flight.is_empty() {
        now_ns += 1;
        scheduler.complete(now_ns, in_flight.remove(0), true);
        dispatch(&mut scheduler, now_ns, &mut in_flight);
    }
    order
}

fn write_trace(directory: &Path, trace: &Trace) -> std::io::Result<()> {
    let requests = requests(trace);
    let (mut lines, mut deadlines, mut numbers) = (String::new(), String::new(), String::new());
    for request in &requests {
        let direction = if request.kind == Kind::Read { 'R' } else { 'W' };
        let (level, offset) = (request.level.index(), request.offset);
        let _ = writeln!(lines, "{direction} {level} {offset} {}", request.length);
    }
    for level in config(trace).levels {
        if let Deadline::Fixed(deadline_ns) = level.deadline {
            let _ = writeln!(deadlines, "{}", deadline_ns / 1000);
        }
    }
    let order = order(trace, &requests);
    assert_eq!(order.len(), requests.len());
    for number in order {
        let _ = writeln!(numbers, "{number}");
    }
    fs::write(directory.join(trace.name).with_extension("trace"), lines)?;
    fs::write(
        directory.join(trace.name).with_extension("deadlines"),
        deadlines,
    )?;
    fs::write(directory.join(trace.name).with_extension("order"), numbers)
}

fn main() {
    let Some(directory) = env::args_os().nth(1) else {
        eprintln!("usage: dispatch_order DIRECTORY");
        process::exit(1);
    };
    for trace in &TRACES {
        if let Err(error) = write_trace(Path::new(&directory), trace) {
            eprintln!("cannot write {}: {error}", trace.name);
            process::exit(3);
        }
    }
}
