//! Reading on behind a read, and serving what was read.

use super::parameters::SECTOR_BYTES;
use super::queue::Arm;
use super::{Motion, Rotating, Work};

impl Rotating {
    /// Whether a segment holds the whole range. The segment then counts as
    /// used, and reading ahead into it may go on.
    pub(super) fn is_buffered(&mut self, now_ns: u64, first: u64, end: u64) -> bool {
        self.read_on(now_ns);
        let Some(segment) = self.buffer.find(first) else {
            return false;
        };
        if self.buffer.end(segment) < end {
            return false;
        }
        self.buffer.touch(segment);
        self.move_limit(now_ns, segment, end);
        true
    }

    /// Lets reading ahead go as far as it got by `now_ns`.
    pub(super) fn read_on(&mut self, now_ns: u64) {
        let Motion::ReadAhead {
            run,
            segment,
            limit,
        } = &mut self.motion
        else {
            return;
        };
        let mut passed = run.passed_by(now_ns);
        while passed == run.end && passed < *limit {
            match self.mechanics.geometry.next_run(run) {
                Some(next) => *run = next,
                None => break,
            }
            passed = run.passed_by(now_ns);
        }
        self.buffer.extend(*segment, passed.min(*limit));
        self.arm = Arm {
            cylinder: run.cylinder,
            head: run.head,
        };
    }

    /// The host has consumed a segment up to `consumed`: reading ahead may go
    /// as far beyond as the segment is large. If it had come to its limit, the
    /// head must first come back to where it was.
    fn move_limit(&mut self, now_ns: u64, consumed_segment: usize, consumed: u64) {
        let Motion::ReadAhead {
            run,
            segment,
            limit,
        } = &mut self.motion
        else {
            return;
        };
        if *segment != consumed_segment {
            return;
        }
        let farther = (consumed + self.buffer.segment_sectors).min(self.mechanics.geometry.sectors);
        let stands = self.buffer.end(*segment) == *limit;
        if stands && farther > *limit {
            let place = self.mechanics.geometry.locate(*limit);
            let start_ns = self.mechanics.start_ns(self.arm, now_ns, &place, false);
            *run = self.mechanics.geometry.run(*limit, &place, start_ns);
        }
        *limit = farther.max(*limit);
    }

    /// Where a read finds what the stream under the head has brought or will
    /// bring next, it needs no motion of its own: the stream becomes its
    /// access.
    pub(super) fn continue_stream(&mut self, now_ns: u64) {
        self.read_on(now_ns);
        let Motion::ReadAhead {
            run,
            segment,
            limit,
        } = self.motion
        else {
            return;
        };
        let read = self.buffer.end(segment);
        if read == limit || !self.flushes.is_empty() {
            return;
        }
        let next = self.waiting.iter().position(|waiting| {
            !waiting.write
                && waiting.first <= read
                && read < waiting.end
                && self.buffer.find(waiting.first) == Some(segment)
        });
        if let Some(next) = next {
            let waiting = self.take_waiting(next);
            self.buffer.touch(segment);
            let work = Work::Read {
                tag: waiting.tag,
                bytes: (waiting.end - waiting.first) * SECTOR_BYTES,
                segment,
                begun_ns: waiting.since_ns + self.hit_overhead_ns,
            };
            self.pass(work, run, waiting.end);
        }
    }
}
