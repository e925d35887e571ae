//! The rules that pick the next request. Each file holds one policy: its state
//! and a function from the queue to the slot that goes next.

pub(crate) mod deadline;
pub(crate) mod lanes;
pub(crate) mod noop;
pub(crate) mod prio_deadline;

use crate::position::NIL;
use crate::queue::Queue;
use crate::request::Direction;

/// Reads that may go while writes wait before one batch of writes goes
/// (`writes_starved` of the kernel's deadline scheduler).
const WRITES_STARVED_MAX: u32 = 2;
/// Requests dispatched in one direction before the other is considered
/// (`fifo_batch` there).
const BATCH_MAX: u32 = 16;

/// Position order over one tree per direction, reads before writes but not
/// for ever: what `deadline` and `prio-deadline` do when nothing has expired.
#[derive(Default)]
pub(crate) struct Sweep {
    batch: u32,
    starved: u32,
    writing: bool,
    /// Where the last dispatched request of each direction ended.
    position: [(u32, u64); 2],
}

impl Sweep {
    /// The direction of the next batch, if the current one is over.
    fn choose_direction(&mut self, queue: &Queue) -> Option<Direction> {
        let reads = !queue.tree(Direction::Read as usize).is_empty();
        let writes = !queue.tree(Direction::Write as usize).is_empty();
        match (reads, writes) {
            (false, false) => None,
            (true, false) => Some(Direction::Read),
            (false, true) => {
                self.starved = 0;
                Some(Direction::Write)
            }
            (true, true) if self.starved < WRITES_STARVED_MAX => {
                self.starved += 1;
                Some(Direction::Read)
            }
            (true, true) => {
                self.starved = 0;
                Some(Direction::Write)
            }
        }
    }

    fn direction(&self) -> Direction {
        if self.writing {
            Direction::Write
        } else {
            Direction::Read
        }
    }

    /// The request at or after the last position; round to the first one.
    fn next_in(&self, queue: &Queue, direction: Direction) -> u32 {
        let tree = queue.tree(direction as usize);
        let (file, offset) = self.position[direction as usize];
        match tree.at_or_after(&queue.positions, file, offset) {
            NIL => tree.first(&queue.positions),
            slot => slot,
        }
    }

    /// The next slot of the running batch, if it goes on.
    fn continue_batch(&self, queue: &Queue) -> u32 {
        let tree = queue.tree(self.direction() as usize);
        let (file, offset) = self.position[self.direction() as usize];
        match self.batch {
            1..BATCH_MAX => tree.at_or_after(&queue.positions, file, offset),
            _ => NIL,
        }
    }

    fn start_batch(&mut self, direction: Direction) {
        self.writing = direction == Direction::Write;
        self.batch = 0;
    }

    /// Notes that a transfer that ends at (`file`, `end`) was dispatched.
    pub(crate) fn dispatched(&mut self, direction: Direction, file: u32, end: u64) {
        if self.direction() == direction {
            self.batch += 1;
        } else {
            self.start_batch(direction);
            self.batch = 1;
        }
        self.position[direction as usize] = (file, end);
    }
}
