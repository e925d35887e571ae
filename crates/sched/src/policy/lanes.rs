//! The default policy: the highest level with room goes first.

use crate::config::LevelConfig;
use crate::position::NIL;
use crate::queue::Queue;
use crate::request::Level;

/// While more urgent requests are queued, one in this many dispatches may be
/// an expired request of a lower level. Without a bound, a long low-level
/// backlog, all of it expired, would turn the order upside down.
const EXPIRED_EVERY: u32 = 8;

/// State of the policy.
#[derive(Default)]
pub(crate) struct Lanes {
    /// Dispatches since an expired request went before a more urgent one.
    since_expired: u32,
    /// Rotational: where the last transfer of each level ended.
    position: [(u32, u64); Level::COUNT],
}

/// What the policy must know of the device's load.
pub(crate) trait Room {
    /// Whether one more transfer of this level may go.
    fn has_room(&self, level: Level) -> bool;
    /// Transfers of this level in flight.
    fn active(&self, level: Level) -> u32;
    /// Whether the device can take one more at all.
    fn has_any(&self) -> bool;
}

impl Lanes {
    /// The next slot, or [`NIL`] if nothing may go now.
    pub(crate) fn pick(
        &mut self,
        queue: &Queue,
        levels: &[LevelConfig; Level::COUNT],
        rotational: bool,
        room: &impl Room,
        now_ns: u64,
    ) -> u32 {
        if !room.has_any() {
            return NIL;
        }
        let waiting = |level: &Level| queue.list_head(level.index()) != NIL;
        let Some(highest) = Level::ALL.into_iter().find(waiting) else {
            return NIL;
        };
        let expired = Level::ALL
            .into_iter()
            .filter(waiting)
            .filter(|&level| queue.deadline_ns(queue.list_head(level.index())) <= now_ns)
            .filter(|&level| room.has_room(level))
            .min_by_key(|&level| queue.deadline_ns(queue.list_head(level.index())));
        if let Some(level) = expired {
            if level == highest {
                return queue.list_head(level.index());
            }
            self.since_expired += 1;
            if self.since_expired >= EXPIRED_EVERY {
                self.since_expired = 0;
                return queue.list_head(level.index());
            }
        }
        let starving = |level: &Level| room.active(*level) < levels[level.index()].min_active;
        let level = Level::ALL
            .into_iter()
            .filter(waiting)
            .find(|level| room.has_room(*level) || starving(level));
        match level {
            None => NIL,
            Some(level) if rotational => self.next_by_position(queue, level),
            Some(level) => queue.list_head(level.index()),
        }
    }

    /// The request of `level` nearest after the head's last position, round to
    /// the first; syncs, which have no position, in their turn.
    fn next_by_position(&self, queue: &Queue, level: Level) -> u32 {
        let oldest = queue.list_head(level.index());
        let Some(direction) = crate::queue::direction(queue.slot(oldest).request.kind) else {
            return oldest;
        };
        // The oldest request decides the direction, so that neither starves.
        let tree = queue.tree(level.index() * 2 + direction as usize);
        let (file, offset) = self.position[level.index()];
        match tree.at_or_after(&queue.positions, file, offset) {
            NIL => tree.first(&queue.positions),
            slot => slot,
        }
    }

    /// Notes that a transfer that ends at (`file`, `end`) was dispatched.
    pub(crate) fn dispatched(&mut self, level: Level, file: u32, end: u64) {
        self.position[level.index()] = (file, end);
    }
}
