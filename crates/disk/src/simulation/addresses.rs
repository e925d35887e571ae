//! Which operation a stream does next.

use super::random::Random;
use super::workload::{Pattern, Stream, Time};
use crate::model::Kind;
use std::ops::Range;

impl Time {
    /// A draw, in nanoseconds.
    pub(super) fn draw(self, random: &mut Random) -> u64 {
        match self {
            Time::Fixed(ns) => ns,
            Time::Exponential(mean_ns) => random.exponential(mean_ns) as u64,
        }
    }
}

/// Kind, offset and length of a stream's operations, one after the other: what a
/// simulation does, for whoever does the same in real time.
pub struct Addresses {
    pattern: Pattern,
    region: Range<u64>,
    cursor: u64,
    /// Lengths, each with the share of all draws that it and those before it
    /// have, in 2^-32.
    sizes: Vec<(u32, u64)>,
    /// Reads are the draws below this, in 2^-32.
    reads_below: u64,
}

const ONE: f64 = (1u64 << 32) as f64;

impl Addresses {
    /// Of a stream that lies in this region.
    pub fn new(stream: &Stream, region: Range<u64>) -> Addresses {
        let total: f64 = stream.sizes.iter().map(|size| size.weight).sum();
        let mut weight = 0.0;
        let sizes = stream.sizes.iter().map(|size| {
            weight += size.weight;
            (size.bytes, (weight / total * ONE) as u64)
        });
        Addresses {
            pattern: stream.pattern,
            cursor: region.start,
            sizes: sizes.collect(),
            reads_below: (stream.read_share * ONE) as u64,
            region,
        }
    }

    /// The next operation.
    pub fn next(&mut self, random: &mut Random) -> (Kind, u64, u32) {
        let kind = match self.reads_below {
            0 => Kind::Write,
            all if all == 1 << 32 => Kind::Read,
            limit if random.next() >> 32 < limit => Kind::Read,
            _ => Kind::Write,
        };
        let length = self.length(random);
        (kind, self.offset(length, random), length)
    }

    fn length(&self, random: &mut Random) -> u32 {
        if let [(only, _)] = self.sizes[..] {
            return only;
        }
        let draw = random.next() >> 32;
        let found = self.sizes.iter().find(|&&(_, below)| draw < below);
        found.or(self.sizes.last()).map_or(0, |&(bytes, _)| bytes)
    }

    fn offset(&mut self, length: u32, random: &mut Random) -> u64 {
        let length = u64::from(length);
        let bytes = self.region.end - self.region.start;
        let step = match self.pattern {
            Pattern::Random => {
                return self.region.start + random.below(bytes / length) * length;
            }
            Pattern::Skewed => {
                let places = bytes / length;
                let hot = places.div_ceil(10);
                let places = if random.below(10) > 0 { hot } else { places };
                return self.region.start + random.below(places) * length;
            }
            Pattern::Sequential => length,
            Pattern::Strided(stride) => stride,
            Pattern::Ascending(per_pass) => {
                // If every place is taken with the same probability, the
                // distance to the next one is geometrically distributed.
                let share = (f64::from(per_pass) * length as f64 / bytes as f64).min(0.999_999);
                let places = random.exponential(-1.0 / (-share).ln_1p()).ceil();
                (places as u64).max(1) * length
            }
        };
        if self.cursor + length > self.region.end {
            self.cursor = self.region.start;
        }
        let offset = self.cursor;
        self.cursor += step;
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_up_through_as_many_places_as_asked_for() {
        let stream = Stream {
            pattern: Pattern::Ascending(500),
            ..Stream::default()
        };
        let region = 1 << 20..(1 << 20) + 10_000 * 4096;
        let mut addresses = Addresses::new(&stream, region.clone());
        let mut random = Random::new(1, 0);
        let (mut passes, mut last) = (1, 0);
        for _ in 0..50_000 {
            let (_, offset, _) = addresses.next(&mut random);
            assert!(region.contains(&offset) && offset.is_multiple_of(4096));
            passes += u32::from(offset <= last);
            last = offset;
        }
        assert!((98..=102).contains(&passes), "{passes} passes of 500");
    }
}
