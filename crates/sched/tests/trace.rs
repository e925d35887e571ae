//! The same calls give the same decisions: long random runs against
//! themselves, and a short one per policy written out as a table.

mod common;

use common::workload::Random;
use common::{read, sync, write};
use iolane_sched::{
    Batch, Config, Deadline, Kind, Level, Policy, Request, RequestId, Scheduler, WindowConfig,
};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

const EVENTS: usize = 5_000;

/// A line per transfer, or what a call said.
type Trace = Vec<String>;

/// One run of `EVENTS` random calls from `seed`. With `switch`, the policy
/// changes now and then.
fn random_run(policy: Policy, window: WindowConfig, seed: u64, switch: bool) -> Trace {
    let config = Config {
        window,
        in_flight_max: 64,
        merge_gap_bytes_max: 4096,
        ..Config::new(policy)
    };
    let mut scheduler = Scheduler::new(config).unwrap();
    let mut random = Random(seed);
    let mut ids: Vec<RequestId> = Vec::new();
    let mut in_flight = VecDeque::new();
    let mut batch = Batch::default();
    let mut trace = Trace::new();
    let mut now_ns = 0;
    for _ in 0..EVENTS {
        let number = random.next();
        now_ns += number % 50_000;
        let request = Request {
            kind: [Kind::Read, Kind::Read, Kind::Write][(number >> 16) as usize % 3],
            file: (number >> 18) as u32 % 2,
            offset: (number >> 20) % 512 * 4096,
            length: 4096 << ((number >> 30) % 3),
            level: Level::ALL[(number >> 40) as usize % Level::COUNT],
            durable: false,
        };
        match (number >> 48) % 16 {
            0..6 => ids.extend(scheduler.enqueue(now_ns, request)),
            6 => in_flight.extend(scheduler.start(now_ns, request)),
            7..12 => {
                if let Some(id) = in_flight.pop_front() {
                    scheduler.complete(now_ns, id, !number.is_multiple_of(64));
                }
            }
            12 if !ids.is_empty() => {
                let id = ids[number as usize % ids.len()];
                trace.push(format!("promote {}", scheduler.promote(id, request.level)));
            }
            13 if !ids.is_empty() => {
                let id = ids.swap_remove(number as usize % ids.len());
                trace.push(format!("cancel {}", scheduler.cancel(id)));
            }
            14 if switch && number.is_multiple_of(8) => {
                let policy = Policy::ALL[(number >> 8) as usize % 4];
                let window = match policy {
                    Policy::Lanes => WindowConfig::Learned,
                    _ => WindowConfig::Fixed(8),
                };
                scheduler.set_policy(policy, window).unwrap();
            }
            _ => {}
        }
        batch.clear();
        scheduler.dispatch(now_ns, &mut batch);
        for transfer in &batch.transfers {
            in_flight.push_back(transfer.id);
            trace.push(format!(
                "{now_ns} {transfer:?} {:?}",
                batch.members_of(transfer)
            ));
        }
        trace.push(format!("timer {:?}", scheduler.next_timer()));
    }
    trace
}

fn hash(trace: &Trace) -> u64 {
    let mut hasher = DefaultHasher::new();
    trace.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn the_same_calls_give_the_same_decisions() {
    let fixed = Policy::ALL.map(|policy| (policy, WindowConfig::Fixed(8)));
    let learned = (Policy::Lanes, WindowConfig::Learned);
    for (policy, window) in fixed.into_iter().chain([learned]) {
        for switch in [false, true] {
            let run = |seed| random_run(policy, window, seed, switch);
            let trace = run(1);
            let transfers = trace
                .iter()
                .filter(|line| line.contains("Transfer"))
                .count();
            assert!(transfers > EVENTS / 10, "{policy}: {transfers} transfers");
            assert_eq!(hash(&trace), hash(&run(1)), "{policy} {window:?} {switch}");
            assert_ne!(hash(&trace), hash(&run(2)), "another seed, another trace");
        }
    }
}

const KIB: u64 = 1024;
const US: u64 = 1_000;

/// A small load, two transfers at a time, each of which takes 100 us: what
/// goes when, at which level, where (in pages of 4 KiB), in how many requests.
fn told(policy: Policy) -> String {
    let page = |number: u64| number * 4 * KIB;
    let one = 4 * KIB;
    let arrivals = [
        (0, write(page(900), one, Level::Background)),
        (0, write(page(901), one, Level::Background)),
        (0, read(page(500), one, Level::Normal)),
        (0, read(page(100), one, Level::Foreground)),
        (0, read(page(300), one, Level::Prefetch)),
        (0, read(page(301), one, Level::Prefetch)),
        (0, read(page(302), one, Level::Prefetch)),
        (0, sync(Level::Critical)),
        // Held behind the read of the same page.
        (0, write(page(500), one, Level::Foreground)),
        (50, read(page(50), one, Level::Normal)),
        (50, read(page(101), one, Level::Foreground)),
        (150, write(page(10), one, Level::Critical)),
        (150, read(page(200), one, Level::Prefetch)),
        (250, read(page(303), one, Level::Foreground)),
        (250, read(page(20), one, Level::Normal)),
        (350, write(page(11), one, Level::Critical)),
        (350, write(page(902), one, Level::Background)),
    ];
    let mut config = Config {
        window: WindowConfig::Fixed(2),
        deadline_read_ns: 300 * US,
        deadline_write_ns: 600 * US,
        ..Config::new(policy)
    };
    for (index, level) in config.levels.iter_mut().enumerate() {
        level.deadline = Deadline::Fixed((100 * US) << index);
        level.min_active = u32::from(index == Level::Background.index());
    }
    let mut scheduler = Scheduler::new(config).unwrap();
    let mut arrivals = arrivals.into_iter().peekable();
    let mut in_flight: VecDeque<(u64, RequestId)> = VecDeque::new();
    let mut table = String::from("\n");
    for now_us in (0..2_000).step_by(50) {
        while in_flight
            .front()
            .is_some_and(|(end_us, _)| *end_us <= now_us)
        {
            let (_, id) = in_flight.pop_front().unwrap();
            scheduler.complete(now_us * US, id, true);
        }
        while let Some((_, request)) = arrivals.next_if(|(at_us, _)| *at_us <= now_us) {
            scheduler.enqueue(now_us * US, request).unwrap();
        }
        let mut batch = Batch::default();
        scheduler.dispatch(now_us * US, &mut batch);
        for transfer in &batch.transfers {
            in_flight.push_back((now_us + 100, transfer.id));
            let kind = format!("{:?}", transfer.kind).to_lowercase();
            let (at, count) = (transfer.offset / page(1), transfer.members.len());
            let level = transfer.level.name();
            table += &format!("{now_us:>4} us  {kind:<5}  page {at:>3}  x{count}  {level}\n");
        }
    }
    assert_eq!(scheduler.outstanding(), 0);
    table
}

/// In the order of arrival, with neighbours (900 and 901, 300 to 302) merged;
/// the write of page 500 waits for the read of it.
#[test]
fn noop_goes_by_arrival() {
    let expected = "
   0 us  write  page 900  x2  background
   0 us  read   page 500  x1  foreground
 100 us  read   page 100  x2  foreground
 100 us  read   page 300  x3  prefetch
 200 us  sync   page   0  x1  critical
 200 us  write  page 500  x1  foreground
 300 us  read   page  50  x1  normal
 300 us  write  page  10  x1  critical
 400 us  read   page 200  x1  prefetch
 400 us  read   page 303  x1  foreground
 500 us  read   page  20  x1  normal
 500 us  write  page  11  x1  critical
 600 us  write  page 902  x1  background
";
    assert_eq!(told(Policy::Noop), expected);
}

/// Reads by position, round to the first at the end; writes after two batches
/// of reads. Levels do not count.
#[test]
fn deadline_goes_by_position_in_batches() {
    let expected = "
   0 us  sync   page   0  x1  critical
   0 us  read   page 100  x1  foreground
 100 us  read   page 101  x1  foreground
 100 us  read   page 300  x3  prefetch
 200 us  read   page 500  x1  foreground
 200 us  read   page  50  x1  normal
 300 us  read   page 200  x1  prefetch
 300 us  read   page 303  x1  foreground
 400 us  write  page  10  x2  critical
 400 us  write  page 500  x1  foreground
 500 us  write  page 900  x3  background
 500 us  read   page  20  x1  normal
";
    assert_eq!(told(Policy::Deadline), expected);
}

/// By position, whatever the level, until 300 us: then the held write and the
/// critical one have passed their deadlines, as page 303 at 500 us.
#[test]
fn prio_deadline_serves_what_expired_and_sweeps_else() {
    let expected = "
   0 us  sync   page   0  x1  critical
   0 us  read   page 100  x1  foreground
 100 us  read   page 101  x1  foreground
 100 us  read   page 300  x3  prefetch
 200 us  read   page 500  x1  foreground
 200 us  read   page  50  x1  normal
 300 us  write  page 500  x1  foreground
 300 us  write  page  10  x1  critical
 400 us  write  page  11  x1  critical
 400 us  write  page 900  x3  background
 500 us  read   page 303  x1  foreground
 500 us  read   page  20  x1  normal
 600 us  read   page 200  x1  prefetch
";
    assert_eq!(told(Policy::PrioDeadline), expected);
}

/// The sync and the foreground go at once, beyond the window of two, and the
/// read of page 500 with them, as a foreground write waits for it; background
/// has its one transfer. The rest waits for room.
#[test]
fn lanes_serves_the_highest_level() {
    let expected = "
   0 us  sync   page   0  x1  critical
   0 us  read   page 500  x1  foreground
   0 us  read   page 100  x1  foreground
   0 us  write  page 900  x2  background
  50 us  read   page 101  x1  foreground
 100 us  write  page 500  x1  foreground
 150 us  write  page  10  x1  critical
 200 us  read   page  50  x1  normal
 250 us  read   page 303  x1  foreground
 300 us  read   page  20  x1  normal
 350 us  write  page  11  x1  critical
 350 us  write  page 902  x1  background
 450 us  read   page 300  x3  prefetch
 450 us  read   page 200  x1  prefetch
";
    assert_eq!(told(Policy::Lanes), expected);
}
