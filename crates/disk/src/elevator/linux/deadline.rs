//! Position order in batches, with expiry times.

use super::positions::Positions;
use super::{BlockLayer, BlockLayerParameters, Direction, LinuxDeadline, LinuxScheduler, Queued};
use crate::model::ParameterError;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parameters of [`LinuxDeadline`], with the defaults of Linux 2.6
/// (Documentation/block/deadline-iosched.txt).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlineParameters {
    /// A read should go to the disk this long after its submission at the
    /// latest, in milliseconds (`read_expire`).
    pub read_expire_ms: u32,
    /// The same for a write (`write_expire`).
    pub write_expire_ms: u32,
    /// Requests of a batch: of one direction, in position order, during which
    /// expiry is not looked at (`fifo_batch`).
    pub fifo_batch: u32,
    /// Batches of reads that may go before writes that wait (`writes_starved`).
    pub writes_starved: u32,
}

impl Default for DeadlineParameters {
    fn default() -> DeadlineParameters {
        DeadlineParameters {
            read_expire_ms: 500,
            write_expire_ms: 5000,
            fifo_batch: 16,
            writes_starved: 2,
        }
    }
}

/// Requests of one direction.
#[derive(Default)]
struct Side {
    positions: Positions,
    fifo: VecDeque<u32>,
}

/// Linux's `deadline`. Between batches it picks the direction, reads first but
/// for [`writes_starved`](DeadlineParameters::writes_starved), and goes on in
/// position order, or from the oldest request if that has expired.
pub struct DeadlineScheduler {
    parameters: DeadlineParameters,
    sides: [Side; 2],
    direction: Direction,
    /// Where the sweep goes on, by direction.
    sweep: [u64; 2],
    /// Requests left in the batch.
    batch_left: u32,
    /// Batches of reads since writes began to wait.
    starved: u32,
}

impl LinuxDeadline {
    /// `deadline`, with its block layer.
    ///
    /// # Errors
    /// A parameter with which nothing could be dispatched.
    pub fn deadline(
        parameters: DeadlineParameters,
        block_layer: BlockLayerParameters,
    ) -> Result<LinuxDeadline, ParameterError> {
        if parameters.fifo_batch == 0 {
            return Err(ParameterError::new("fifo_batch", 0, "must be at least 1"));
        }
        let scheduler = DeadlineScheduler {
            parameters,
            sides: Default::default(),
            direction: Direction::Read,
            sweep: [0; 2],
            batch_left: 0,
            starved: 0,
        };
        BlockLayer::new(scheduler, block_layer)
    }
}

impl DeadlineScheduler {
    fn expire_ns(&self, direction: Direction) -> u64 {
        let ms = match direction {
            Direction::Read => self.parameters.read_expire_ms,
            Direction::Write => self.parameters.write_expire_ms,
        };
        u64::from(ms) * 1_000_000
    }

    /// The next of the batch that goes on.
    fn next_of_batch(&self) -> Option<u32> {
        if self.batch_left == 0 {
            return None;
        }
        let sweep = self.sweep[self.direction as usize];
        let positions = &self.sides[self.direction as usize].positions;
        positions.at_or_after(sweep).map(|(_, tag)| tag)
    }

    fn pick_direction(&mut self) -> Option<Direction> {
        let [reads, writes] = [Direction::Read, Direction::Write]
            .map(|direction| !self.sides[direction as usize].positions.is_empty());
        match (reads, writes) {
            (false, false) => None,
            (true, false) => Some(Direction::Read),
            (true, true) if self.starved < self.parameters.writes_starved => {
                self.starved += 1;
                Some(Direction::Read)
            }
            (_, true) => {
                self.starved = 0;
                Some(Direction::Write)
            }
        }
    }

    fn begin_batch(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32> {
        let direction = self.pick_direction()?;
        self.direction = direction;
        self.batch_left = self.parameters.fifo_batch;
        let side = &self.sides[direction as usize];
        let oldest = *side.fifo.front()?;
        let expires_ns = requests[oldest as usize].added_ns + self.expire_ns(direction);
        if expires_ns <= now_ns {
            return Some(oldest);
        }
        let next = side.positions.at_or_after(self.sweep[direction as usize]);
        // Past the last one, the sweep begins again with who waits longest.
        Some(next.map_or(oldest, |(_, tag)| tag))
    }
}

impl LinuxScheduler for DeadlineScheduler {
    fn add(&mut self, _now_ns: u64, tag: u32, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let side = &mut self.sides[request.direction as usize];
        side.positions.insert(request.start, tag);
        side.fifo.push_back(tag);
    }

    fn moved(&mut self, tag: u32, start_before: u64, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let positions = &mut self.sides[request.direction as usize].positions;
        positions.remove(start_before, tag);
        positions.insert(request.start, tag);
    }

    fn dispatch(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32> {
        let tag = match self.next_of_batch() {
            Some(tag) => tag,
            None => self.begin_batch(now_ns, requests)?,
        };
        self.batch_left -= 1;
        let request = &requests[tag as usize];
        self.sweep[request.direction as usize] = request.end;
        let side = &mut self.sides[request.direction as usize];
        side.positions.remove(request.start, tag);
        remove_from(&mut side.fifo, tag);
        Some(tag)
    }
}

/// Takes `tag` out of a queue of at most a few hundred requests.
pub fn remove_from(fifo: &mut VecDeque<u32>, tag: u32) {
    let index = fifo.iter().position(|&queued| queued == tag);
    fifo.remove(index.expect("what is in position order is in the queue"));
}
