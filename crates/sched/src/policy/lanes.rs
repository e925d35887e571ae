//! The default policy: the highest level with room goes first.

use crate::config::LevelConfig;
use crate::position::NIL;
use crate::queue::Queue;
use crate::request::{Held, Level, Request};

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
    /// Whether the window lets one more transfer of this level go.
    fn has_room(&self, level: Level) -> bool;
    /// Transfers of this level in flight.
    fn active(&self, level: Level) -> u32;
    /// How many more transfers the device can take at all.
    fn places(&self) -> u32;
    /// Whether not even this level's minimum goes: a rate limit holds the lower ones
    /// back, as it would be the budget's end for everyone, or the device's head is
    /// kept for what somebody waits for.
    fn is_shut_out(&self, level: Level) -> bool;
    /// Which transfers of the lower levels have to wait: all of a direction whose budget
    /// is used up, or writes, as the next flush has enough to do.
    fn held(&self) -> Held;
}

/// A look at the levels with something queued.
struct Waiting<'a, R> {
    queue: &'a Queue,
    levels: &'a [LevelConfig; Level::COUNT],
    room: &'a R,
    /// Of the lower levels.
    held: Held,
}

impl<R: Room> Waiting<'_, R> {
    /// The oldest request of `level` that is not held back, or [`NIL`].
    fn oldest(&self, level: Level) -> u32 {
        self.queue.oldest(level, self.held.at(level))
    }

    fn has(&self, level: Level) -> bool {
        self.oldest(level) != NIL
    }

    /// How many transfers `level` may have in flight beyond the window, up to
    /// its `min_active`. Not one overtakes an older request that somebody waits for:
    /// where the foreground alone is more than the device can do, large transfers of a
    /// lower level, one after the other, would take most of it.
    fn missing(&self, level: Level) -> u32 {
        if self.room.is_shut_out(level) || self.is_behind_foreground(level) {
            return 0;
        }
        let min_active = self.levels[level.index()].min_active;
        min_active.saturating_sub(self.room.active(level))
    }

    /// Whether a queued request that somebody waits for is older than the oldest of `level`.
    fn is_behind_foreground(&self, level: Level) -> bool {
        if level <= Level::Foreground {
            return false;
        }
        let since_ns = |level| match self.oldest(level) {
            NIL => u64::MAX,
            slot => self.queue.slot(slot).enqueued_ns,
        };
        since_ns(Level::Critical).min(since_ns(Level::Foreground)) < since_ns(level)
    }

    /// Whether the device's last places are taken: each is kept for a waiting
    /// level that has fewer than its `min_active` in flight. Otherwise a level
    /// that the window does not bind would take them all, again and again.
    fn all_reserved(&self) -> bool {
        let waiting = Level::ALL.into_iter().filter(|&level| self.has(level));
        let reserved: u32 = waiting.map(|level| self.missing(level)).sum();
        self.room.places() <= reserved
    }
}

/// Whether a request of `level` may go before everything queued: there is room
/// for it, and nothing as urgent is queued.
pub(crate) fn may_overtake(
    queue: &Queue,
    levels: &[LevelConfig; Level::COUNT],
    room: &impl Room,
    request: &Request,
) -> bool {
    let level = request.level;
    let waiting = Waiting {
        queue,
        levels,
        room,
        held: room.held(),
    };
    room.has_room(level)
        && !waiting.held.at(level).holds(request.kind)
        && !waiting.all_reserved()
        && Level::ALL[..=level.index()]
            .iter()
            .all(|&level| !waiting.has(level))
}

impl Lanes {
    /// The next slot, or [`NIL`] if nothing may go now.
    ///
    /// A waiting level may go while the window has room for it and not all
    /// places are reserved, or while it has fewer than `min_active` in flight and no
    /// older request is queued that somebody waits for.
    /// The most urgent level that may go is served, by arrival or by position.
    /// Among the levels whose oldest request has passed its deadline and that
    /// may go, or have nothing in flight at all, the one of the earliest
    /// deadline is served instead, by arrival: always if it is as urgent, and
    /// otherwise after [`EXPIRED_EVERY`] - 1 dispatches. Under a rate limit
    /// nothing goes that the window has no room for.
    pub(crate) fn pick(
        &mut self,
        queue: &Queue,
        levels: &[LevelConfig; Level::COUNT],
        rotational: bool,
        room: &impl Room,
        now_ns: u64,
    ) -> u32 {
        if room.places() == 0 {
            return NIL;
        }
        let waiting = Waiting {
            queue,
            levels,
            room,
            held: room.held(),
        };
        let reserved = waiting.all_reserved();
        let (mut normal, mut expired, mut earliest_ns) = (None, None, u64::MAX);
        for level in Level::ALL {
            let oldest = waiting.oldest(level);
            if oldest == NIL {
                continue;
            }
            let may_go = (!reserved && room.has_room(level)) || waiting.missing(level) > 0;
            if may_go && normal.is_none() {
                normal = Some((level, oldest));
            }
            let deadline_ns = queue.deadline_ns(oldest);
            let alone = room.active(level) == 0 && !room.is_shut_out(level);
            let first = expired.is_none() || deadline_ns < earliest_ns;
            if deadline_ns <= now_ns && first && (may_go || alone) {
                (expired, earliest_ns) = (Some((level, oldest)), deadline_ns);
            }
        }
        match (normal, expired) {
            (None, None) => NIL,
            (Some((_, oldest)), None) => self.serve(queue, oldest, rotational),
            (Some((normal, oldest)), Some((expired, late))) if normal < expired => {
                self.since_expired += 1;
                if self.since_expired < EXPIRED_EVERY {
                    return self.serve(queue, oldest, rotational);
                }
                self.since_expired = 0;
                late
            }
            (_, Some((_, late))) => late,
        }
    }

    fn serve(&self, queue: &Queue, oldest: u32, rotational: bool) -> u32 {
        if rotational {
            self.next_by_position(queue, oldest)
        } else {
            oldest
        }
    }

    /// The request of the oldest one's level nearest after the head's last
    /// position, round to the first; syncs, which have no position, in their turn.
    fn next_by_position(&self, queue: &Queue, oldest: u32) -> u32 {
        let level = queue.slot(oldest).request.level;
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
