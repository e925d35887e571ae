//! Loads from a seed.

use crate::simulation::{Activity, Arrival, Pattern, Random, Size, Stream, Time};
use iolane_sched::Level;
use std::ops::Range;

/// Smallest and largest operation, as exponents of two.
const SIZE_EXPONENTS: (u64, u64) = (9, 22);
/// Deepest closed loop, as exponent of two.
const DEPTH_EXPONENT_MAX: u64 = 8;
/// Most bytes that one stream has outstanding: more does not fit the memory of
/// a small machine, on which the same loads run on real disks.
const OUTSTANDING_BYTES_MAX: u64 = 64 << 20;
/// Smallest region of a stream, ...
const REGION_BYTES_MIN: u64 = 64 << 20;
/// ... and in its largest operations, unless the disk is smaller: writes that
/// overlap go one after the other, whatever decides.
const REGION_OPERATIONS_MIN: u64 = 256;
/// Share of the device that open loops of the upper levels have together: with
/// more, latency is a matter of how long the run is.
const FOREGROUND_SHARE_MAX: f64 = 0.9;
/// What the simulation allows: nothing is ever refused.
const OPEN_OUTSTANDING_MAX: u32 = 1 << 20;

/// What a load depends on besides its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the disk that may be used.
    pub capacity_bytes: u64,
    /// Its sector.
    pub block_bytes: u32,
}

/// What changes in the middle of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The streams that [`Part::changes`] begin when the measurement does.
    Begins,
    /// They end in the middle of the measurement.
    Ends,
}

/// One stream of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it does; of an open loop, without the rate.
    pub stream: Stream,
    /// Of an open loop: its rate as a share of what the device does if the stream
    /// has it alone, 0.1 to 0.9.
    pub share: Option<f64>,
    /// Whether it is one that the load's change begins or ends.
    pub changes: bool,
    /// Whether it is one that stops when those begin, and begins when they end.
    pub gives_way: bool,
}

impl Part {
    /// Whether somebody waits for it.
    pub fn is_foreground(&self) -> bool {
        self.stream.level <= Level::Foreground
    }
}

/// What is done, by whom, and when: the same for every scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// From which it was drawn.
    pub seed: u64,
    /// At least one of the two upper levels, and one of the others.
    pub parts: Vec<Part>,
    /// What changes in the middle.
    pub change: Change,
}

impl Load {
    /// The load of this seed on such a disk.
    pub fn random(seed: u64, facts: &Facts) -> Load {
        let mut draw = Draw {
            random: Random::new(seed, u64::from(u32::MAX)),
            facts: *facts,
        };
        let change = match draw.below(10) {
            0 => Change::Begins,
            1 => Change::Ends,
            _ => Change::None,
        };
        let mut parts = vec![draw.foreground()];
        if draw.one_in(4) {
            parts.push(draw.log());
        }
        bound_shares(&mut parts);
        if change == Change::None {
            let count = [1, 1, 1, 2, 2, 3][draw.below(6) as usize];
            for _ in 0..count {
                let level = draw.lower_level();
                parts.push(draw.lower(level));
            }
        } else {
            let mut full = draw.flood();
            full.changes = true;
            parts.push(full);
            if draw.one_in(2) {
                let mut reads = draw.lower(Level::Prefetch);
                reads.stream.read_share = 1.0;
                reads.stream.flush_every = 0;
                reads.gives_way = true;
                parts.push(reads);
            }
        }
        for (index, part) in parts.iter_mut().enumerate() {
            part.stream.process = index as u32;
            part.stream.trace = part.is_foreground();
        }
        Load {
            seed,
            parts,
            change,
        }
    }
}

struct Draw {
    random: Random,
    facts: Facts,
}

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn lower_level(&mut self) -> Level {
        match self.below(5) {
            0 => Level::Normal,
            1 | 2 => Level::Prefetch,
            _ => Level::Background,
        }
    }

    /// What a query waits for: of all sizes, small ones more often.
    fn foreground(&mut self) -> Part {
        let sizes = self.sizes(true);
        let arrival = self.arrival(&sizes, true);
        let read_share = match self.below(10) {
            0..=5 => 1.0,
            6 | 7 => 0.0,
            _ => self.mixed(),
        };
        self.part("foreground", Level::Foreground, sizes, arrival, read_share)
    }

    /// The commit log: small writes one behind the other, each synced.
    fn log(&mut self) -> Part {
        let exponent = 9 + self.below(6);
        let bytes = self.block(1 << exponent);
        let sizes = Stream::sizes_of(bytes);
        let arrival = if self.one_in(2) {
            (closed(1 << self.random.below(4)), None)
        } else {
            (open(), Some(self.share()))
        };
        let mut part = self.part("log", Level::Critical, sizes, arrival, 0.0);
        part.stream.pattern = Pattern::Sequential;
        part.stream.flush_every = 1;
        part
    }

    fn lower(&mut self, level: Level) -> Part {
        let sizes = self.sizes(false);
        let arrival = self.arrival(&sizes, false);
        let read_share = match self.below(10) {
            0..=3 => 1.0,
            4..=7 => 0.0,
            _ => self.mixed(),
        };
        let mut part = self.part(level.name(), level, sizes, arrival, read_share);
        if self.one_in(5) {
            // 20 ms to 2 s at a time.
            let mut time_ns = || (20e6 * 100f64.powf(self.random.unit())) as u64;
            part.stream.activity = Activity {
                on_ns: time_ns(),
                off_ns: time_ns(),
                ..Activity::ALWAYS
            };
        }
        part
    }

    /// All the writes that there can be.
    fn flood(&mut self) -> Part {
        let sizes = self.sizes(false);
        let depth = 1 << (4 + self.below(DEPTH_EXPONENT_MAX - 3));
        let arrival = (closed(bounded(depth, &sizes)), None);
        let level = self.lower_level();
        self.part(level.name(), level, sizes, arrival, 0.0)
    }

    fn part(
        &mut self,
        name: &str,
        level: Level,
        sizes: Vec<Size>,
        (arrival, share): (Arrival, Option<f64>),
        read_share: f64,
    ) -> Part {
        let pattern = match self.below(10) {
            0..=5 => Pattern::Random,
            6 | 7 => Pattern::Sequential,
            _ => Pattern::Skewed,
        };
        let syncs = read_share < 1.0 && self.one_in(2);
        let flush_every = match syncs {
            true => 1 << self.below(9),
            false => 0,
        };
        let batch = match arrival {
            Arrival::Open { .. } if self.one_in(3) => 1 << (1 + self.below(6)),
            // A program that waits for a whole batch.
            Arrival::Closed { outstanding, .. } if self.one_in(5) => outstanding,
            _ => 1,
        };
        Part {
            stream: Stream {
                name: name.to_owned(),
                level,
                arrival,
                batch,
                read_share,
                pattern,
                region: self.region(&sizes),
                sizes,
                flush_every,
                ..Stream::default()
            },
            share,
            changes: false,
            gives_way: false,
        }
    }

    /// A closed loop, more often than an open one.
    fn arrival(&mut self, sizes: &[Size], foreground: bool) -> (Arrival, Option<f64>) {
        let open_of_ten = if foreground { 5 } else { 2 };
        if self.below(10) < open_of_ten {
            return (open(), Some(self.share()));
        }
        let mut exponent = self.below(DEPTH_EXPONENT_MAX + 1);
        if foreground {
            exponent = exponent.min(self.below(DEPTH_EXPONENT_MAX + 1));
        }
        (closed(bounded(1 << exponent, sizes)), None)
    }

    /// 0.1 to 0.9.
    fn share(&mut self) -> f64 {
        0.1 + 0.8 * self.random.unit()
    }

    fn mixed(&mut self) -> f64 {
        0.1 * (1 + self.below(9)) as f64
    }

    fn block(&self, bytes: u64) -> u32 {
        let block = u64::from(self.facts.block_bytes);
        bytes.next_multiple_of(block) as u32
    }

    fn size(&mut self, small: bool) -> u32 {
        let (least, most) = SIZE_EXPONENTS;
        let mut exponent = least + self.below(most - least + 1);
        if small {
            exponent = exponent.min(least + self.below(most - least + 1));
        }
        self.block(1 << exponent)
    }

    /// One size, a mixture of two or three.
    fn sizes(&mut self, small: bool) -> Vec<Size> {
        let count = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3][self.below(10) as usize];
        (0..count)
            .map(|_| Size {
                bytes: self.size(small),
                weight: (1 + self.below(9)) as f64,
            })
            .collect()
    }

    /// Some of the disk.
    fn region(&mut self, sizes: &[Size]) -> Range<u64> {
        let unit = 4 << 20;
        let units = self.facts.capacity_bytes / unit;
        let bytes_min = REGION_BYTES_MIN.max(REGION_OPERATIONS_MIN * bytes_max(sizes));
        let least = (bytes_min / unit).min(units);
        let ratio = units as f64 / least as f64;
        let length = (least as f64 * ratio.powf(self.random.unit())) as u64;
        let length = length.clamp(least, units);
        let start = self.below(units - length + 1);
        start * unit..(start + length) * unit
    }
}

/// So many, or as many as the memory allows.
fn bounded(depth: u64, sizes: &[Size]) -> u32 {
    let fit = OUTSTANDING_BYTES_MAX / bytes_max(sizes);
    depth.min(fit).max(1) as u32
}

fn bytes_max(sizes: &[Size]) -> u64 {
    let sizes = sizes.iter().map(|size| u64::from(size.bytes));
    sizes.max().unwrap_or(1)
}

/// Lowers them in proportion.
fn bound_shares(parts: &mut [Part]) {
    let shares = || parts.iter().filter_map(|part| part.share);
    let sum: f64 = shares().sum();
    if sum > FOREGROUND_SHARE_MAX {
        for part in parts {
            part.share = part.share.map(|share| share / sum * FOREGROUND_SHARE_MAX);
        }
    }
}

fn closed(outstanding: u32) -> Arrival {
    Arrival::Closed {
        outstanding,
        think: Time::Fixed(0),
    }
}

/// The rate comes later.
fn open() -> Arrival {
    Arrival::Open {
        per_second: 1.0,
        poisson: true,
        outstanding_max: OPEN_OUTSTANDING_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        capacity_bytes: 1 << 40,
        block_bytes: 512,
    };

    fn loads() -> impl Iterator<Item = Load> {
        (0..4000).map(|seed| Load::random(seed, &FACTS))
    }

    #[test]
    fn the_same_seed_gives_the_same_load() {
        assert_eq!(Load::random(7, &FACTS), Load::random(7, &FACTS));
        assert_ne!(Load::random(7, &FACTS), Load::random(8, &FACTS));
    }

    #[test]
    fn somebody_waits_and_somebody_does_not() {
        for load in loads() {
            let waiting = load
                .parts
                .iter()
                .filter(|part| part.is_foreground())
                .count();
            assert!(waiting >= 1 && waiting < load.parts.len(), "{load:?}");
        }
    }

    #[test]
    fn whatever_there_is_occurs() {
        let parts: Vec<Part> = loads().flat_map(|load| load.parts).collect();
        let some = |what: &str, is: &dyn Fn(&Part) -> bool| {
            for foreground in [true, false] {
                let found = parts
                    .iter()
                    .any(|part| part.is_foreground() == foreground && is(part));
                assert!(found, "{what}, foreground {foreground}");
            }
        };
        for exponent in SIZE_EXPONENTS.0..=SIZE_EXPONENTS.1 {
            some("size", &|part| part.stream.sizes[0].bytes == 1 << exponent);
        }
        some("mixture", &|part| part.stream.sizes.len() == 3);
        for exponent in 0..=DEPTH_EXPONENT_MAX {
            some(
                "depth",
                &|part| matches!(part.stream.arrival, Arrival::Closed { outstanding, .. } if outstanding == 1 << exponent),
            );
            some("syncs", &|part| part.stream.flush_every == 1 << exponent);
        }
        for pattern in [Pattern::Random, Pattern::Sequential, Pattern::Skewed] {
            some("pattern", &|part| part.stream.pattern == pattern);
        }
        some("reads", &|part| part.stream.read_share == 1.0);
        some("writes", &|part| part.stream.read_share == 0.0);
        some("both", &|part| part.stream.read_share == 0.5);
        some("slow", &|part| part.share.is_some_and(|share| share < 0.15));
        some("fast", &|part| part.share.is_some_and(|share| share > 0.85));
        some("burst", &|part| {
            part.share.is_some() && part.stream.batch == 64
        });
        for level in Level::ALL {
            assert!(parts.iter().any(|part| part.stream.level == level));
        }
        assert!(parts.iter().any(|part| part.stream.activity.off_ns > 0));
        for change in [Change::None, Change::Begins, Change::Ends] {
            assert!(loads().any(|load| load.change == change));
        }
        assert!(loads().any(|load| load.parts.len() >= 4));
    }

    #[test]
    fn what_a_stream_has_outstanding_is_bounded() {
        for part in loads().flat_map(|load| load.parts) {
            let stream = &part.stream;
            let bytes = bytes_max(&stream.sizes);
            if let Arrival::Closed { outstanding, .. } = stream.arrival {
                assert!(u64::from(outstanding) * bytes <= OUTSTANDING_BYTES_MAX);
                assert!(outstanding.is_multiple_of(stream.batch));
            }
            let region = &stream.region;
            assert!(region.end <= FACTS.capacity_bytes);
            assert!(region.end - region.start >= REGION_OPERATIONS_MIN * bytes);
        }
    }

    #[test]
    fn the_foreground_alone_is_no_overload() {
        for load in loads() {
            let waiting = load.parts.iter().filter(|part| part.is_foreground());
            let share: f64 = waiting.filter_map(|part| part.share).sum();
            assert!(share <= FOREGROUND_SHARE_MAX + 1e-9, "{load:?}");
        }
    }
}
