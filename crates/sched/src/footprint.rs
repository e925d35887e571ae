//! Which parts of the files outstanding requests touch, roughly.
//!
//! Nearly no request overlaps another one, but each must be checked against
//! all: those in flight, and up to twelve trees. This table answers most of
//! the checks with one look: it counts requests by region of their file, in a
//! table of fixed size into which regions are hashed. Different regions may
//! share a count, so "may overlap" can be wrong; "does not" never is.

use crate::request::{Direction, Request};

/// As large as a few requests, so that most touch one region or two.
const REGION_SHIFT: u32 = 18;
/// A longer request would touch too many; it is counted in `wide`.
const REGIONS_PER_REQUEST_MAX: u64 = 16;
/// With 1000 requests outstanding, about two of five counts are not 0.
const COUNTS_SHIFT: u32 = 11;

pub(crate) struct Footprint {
    /// By hashed region: requests per direction.
    counts: Box<[[u32; 2]]>,
    /// Requests that touch too many regions to be counted in each.
    wide: [u32; 2],
}

/// The first and the last region of a range.
fn regions(request: &Request) -> (u64, u64) {
    let last = request.offset + u64::from(request.length) - 1;
    (request.offset >> REGION_SHIFT, last >> REGION_SHIFT)
}

/// Multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4), by
/// 2^64 divided by the golden ratio. Regions need 45 bits, which leaves files
/// their own in the upper half.
fn place(file: u32, region: u64) -> usize {
    let key = region ^ (u64::from(file) << 40);
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNTS_SHIFT)) as usize
}

impl Footprint {
    pub(crate) fn new() -> Footprint {
        Footprint {
            counts: vec![[0; 2]; 1 << COUNTS_SHIFT].into_boxed_slice(),
            wide: [0; 2],
        }
    }

    /// Counts a read or write.
    pub(crate) fn add(&mut self, request: &Request, direction: Direction) {
        self.each(request, direction, |count| *count += 1);
    }

    /// Takes back what [`add`](Footprint::add) counted for the same range.
    pub(crate) fn remove(&mut self, request: &Request, direction: Direction) {
        self.each(request, direction, |count| *count -= 1);
    }

    fn each(&mut self, request: &Request, direction: Direction, change: impl Fn(&mut u32)) {
        let (first, last) = regions(request);
        let direction = direction as usize;
        if last - first >= REGIONS_PER_REQUEST_MAX {
            return change(&mut self.wide[direction]);
        }
        for region in first..=last {
            change(&mut self.counts[place(request.file, region)][direction]);
        }
    }

    /// Whether a counted request may overlap `request`, where either writes.
    pub(crate) fn may_conflict(&self, request: &Request, direction: Direction) -> bool {
        let (first, last) = regions(request);
        let clash = |counts: &[u32; 2]| match direction {
            Direction::Read => counts[Direction::Write as usize] > 0,
            Direction::Write => *counts != [0, 0],
        };
        clash(&self.wide)
            || last - first >= REGIONS_PER_REQUEST_MAX
            || (first..=last).any(|region| clash(&self.counts[place(request.file, region)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Kind, Level};

    fn request(file: u32, offset: u64, length: u32) -> Request {
        Request {
            kind: Kind::Write,
            file,
            offset,
            length,
            level: Level::Normal,
            durable: false,
        }
    }

    #[test]
    fn sees_every_overlap_and_forgets_what_was_removed() {
        let top = i64::MAX as u64;
        let ranges = [
            request(0, 0, 1),
            request(0, (1 << 18) - 1, 2),
            request(7, 5 << 18, 15 << 18),
            request(7, 5 << 18, 1 << 30),
            request(u32::MAX, top - (1 << 30), 1 << 30),
        ];
        let mut footprint = Footprint::new();
        for range in &ranges {
            footprint.add(range, Direction::Write);
            for at in [0, u64::from(range.length) - 1] {
                let byte = request(range.file, range.offset + at, 1);
                assert!(footprint.may_conflict(&byte, Direction::Read));
                assert!(footprint.may_conflict(&byte, Direction::Write));
            }
            footprint.remove(range, Direction::Write);
            assert!(footprint.counts.iter().all(|counts| *counts == [0, 0]));
            assert_eq!(footprint.wide, [0, 0]);
        }
    }

    #[test]
    fn reads_pass_reads() {
        let mut footprint = Footprint::new();
        let range = request(0, 0, 4096);
        footprint.add(&range, Direction::Read);
        assert!(!footprint.may_conflict(&range, Direction::Read));
        assert!(footprint.may_conflict(&range, Direction::Write));
        let far = request(0, 1 << 40, 4096);
        assert!(!footprint.may_conflict(&far, Direction::Write));
    }
}
