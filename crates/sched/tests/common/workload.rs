//! Random calls on a scheduler.

use iolane_sched::{Config, Deadline, Kind, Level, Policy, Request, Terms, WindowConfig};
use proptest::prelude::*;

/// The calls. Indices choose among what is outstanding or in flight then.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Enqueue(Request, Terms),
    Start(Request),
    Dispatch,
    Complete(usize),
    Promote(usize, Level),
    Cancel(usize),
    SetPolicy(Policy, WindowConfig),
    Wait(u64),
}

pub fn level() -> impl Strategy<Value = Level> {
    (0..Level::COUNT).prop_map(|index| Level::ALL[index])
}

pub fn policy() -> impl Strategy<Value = Policy> {
    (0..Policy::ALL.len()).prop_map(|index| Policy::ALL[index])
}

/// Where the requests are: around a boundary of the regions by which the
/// scheduler looks for overlaps.
const MIDDLE: u64 = 1 << 18;

/// In small parts of two files, so that requests touch and overlap; some
/// overlap by a byte, some reach over everything.
pub fn request() -> impl Strategy<Value = Request> {
    let range = prop_oneof![
        16 => (0u64..64, 1u32..9).prop_map(|(at, count)| (at * 512, count * 512)),
        4 => (0u64..64, 1u32..9).prop_map(|(at, count)| (at * 512, count * 512 + 1)),
        2 => (0u64..32_768, 1u32..5_000),
        1 => (0u64..32_768, Just(5 << 20)),
    ];
    let kind = prop_oneof![
        6 => Just(Kind::Read),
        4 => Just(Kind::Write),
        1 => Just(Kind::Sync),
    ];
    (kind, 0u32..2, range, level()).prop_map(|(kind, file, (offset, length), level)| {
        let (offset, length) = match kind {
            Kind::Sync => (0, 0),
            _ => (MIDDLE - (16 << 10) + offset, length),
        };
        Request {
            kind,
            file,
            offset,
            length,
            level,
            durable: false,
        }
    })
}

/// One request in three has a deadline of its own: sooner than that of its level, later,
/// or passed when it comes.
fn terms() -> impl Strategy<Value = Terms> {
    let within_ns = prop_oneof![
        4 => Just(None),
        2 => (0u64..6_000).prop_map(Some),
        1 => Just(Some(u64::MAX)),
    ];
    within_ns.prop_map(|within_ns| Terms {
        alone: false,
        within_ns,
    })
}

pub fn fixed_window() -> impl Strategy<Value = WindowConfig> {
    (1u32..12).prop_map(WindowConfig::Fixed)
}

/// A policy with a fixed window or, if it can, one that learns.
pub fn any_window() -> impl Strategy<Value = (Policy, WindowConfig)> {
    let fixed = (policy(), fixed_window());
    let lanes = |window| Just((Policy::Lanes, window));
    prop_oneof![
        2 => fixed,
        1 => lanes(WindowConfig::Learned),
        1 => lanes(WindowConfig::Learned),
    ]
}

/// Small limits, so that all of them are met. Deadlines do not depend on the
/// measured service time.
pub fn config() -> impl Strategy<Value = Config> {
    let levels = prop::collection::vec((0u64..6_000, 1u32..24, 0u32..3), Level::COUNT);
    let limits = (1u32..16, 1u32..9, 0u32..7, any::<bool>());
    let gaps = prop_oneof![Just(0u32), Just(512), Just(4096)];
    (policy(), fixed_window(), levels, limits, gaps).prop_map(
        |(policy, window, levels, limits, merge_gap_bytes_max)| {
            let mut config = Config::new(policy);
            config.window = window;
            for (level, (deadline_ns, queued_max, min_active)) in
                config.levels.iter_mut().zip(levels)
            {
                level.deadline = Deadline::Fixed(deadline_ns);
                level.queued_max = queued_max;
                level.min_active = min_active;
            }
            let (in_flight_max, members_max, shift, rotational) = limits;
            config.in_flight_max = in_flight_max;
            config.transfer_members_max = members_max;
            config.transfer_bytes_max = 512 << shift;
            config.merge_gap_bytes_max = merge_gap_bytes_max;
            config.rotational = rotational;
            config.deadline_read_ns = 2_000;
            config.deadline_write_ns = 5_000;
            config
        },
    )
}

/// Deep queues, one transfer at a time, one request each: long batches.
pub fn deep_config() -> impl Strategy<Value = Config> {
    (config(), any::<bool>()).prop_map(|(mut config, hurried)| {
        config.window = WindowConfig::Fixed(1);
        config.transfer_members_max = 1;
        for level in &mut config.levels {
            level.queued_max = 256;
            if !hurried {
                level.deadline = Deadline::Fixed(u64::MAX);
            }
        }
        config
    })
}

/// Reads and writes far and wide that come in, to go one after the other.
pub fn deep_calls() -> impl Strategy<Value = Vec<Call>> {
    let spread = (request(), 0u64..1024).prop_map(|(mut request, far)| {
        if request.kind != Kind::Sync {
            request.length = request.length.min(1 << 16);
            request.offset += far << 17;
        }
        Call::Enqueue(request, Terms::default())
    });
    let call = prop_oneof![
        8 => spread,
        1 => (any::<usize>(), level()).prop_map(|(at, level)| Call::Promote(at, level)),
        2 => (0u64..500).prop_map(Call::Wait),
    ];
    prop::collection::vec(call, 100..300)
}

/// Up to `count` calls; `window` gives what to change to at run time.
pub fn calls(
    count: usize,
    window: impl Strategy<Value = (Policy, WindowConfig)> + 'static,
) -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        12 => (request(), terms()).prop_map(|(request, terms)| Call::Enqueue(request, terms)),
        2 => request().prop_map(Call::Start),
        5 => Just(Call::Dispatch),
        6 => any::<usize>().prop_map(Call::Complete),
        2 => (any::<usize>(), level()).prop_map(|(at, level)| Call::Promote(at, level)),
        2 => any::<usize>().prop_map(Call::Cancel),
        1 => window.prop_map(|(policy, window)| Call::SetPolicy(policy, window)),
        4 => (0u64..1_500).prop_map(Call::Wait),
    ];
    prop::collection::vec(call, 1..count)
}

/// xorshift64 (Marsaglia 2003), for long runs from a fixed seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
