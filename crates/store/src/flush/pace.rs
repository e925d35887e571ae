//! What to write next, and how urgently: the three policies, without a clock
//! and without a disk.

use super::BATCH_PAGES;
use crate::policy::{IoPolicy, Preflush, Role};
use iolane::Level;
use std::time::Duration;

/// Share of the log that changed pages may hold on to before they are written.
const PRESSURE_EASY: f64 = 0.5;
/// From here on, ahead of backups and scrubs.
const PRESSURE_RAISED: f64 = 0.7;
/// From here on, as urgent as those who will have to wait.
const PRESSURE_URGENT: f64 = 0.85;
/// Share of the frames that may be dirty before the oldest are written, and
/// from which on with all that the disk gives. Below it the log's age decides:
/// a page that changes often is then written once for many changes.
const DIRTY_EASY: f64 = 0.25;
/// While more than this share of the frames is free, nobody needs one that holds
/// changes, however many do.
const FREE_EASY: f64 = 0.125;
pub(crate) const DIRTY_RAISED: f64 = 0.5;
/// From here on, as urgent as those who will have to wait.
const DIRTY_URGENT: f64 = 0.7;
/// After this long without a change, the rest is written too.
const QUIET: Duration = Duration::from_millis(500);
/// A batch of a few pages costs as many syncs as a full one: not more often
/// than this, unless somebody needs them.
const TRICKLE: Duration = Duration::from_millis(250);

/// How often the stepwise policy looks at the pool, and the conservative one at
/// whether there is nothing else to do (paper, sections 1 and 4.4).
const STEP: Duration = Duration::from_secs(1);
/// The paper's steps (section 4.4): replaceable pages in per cent, and pages to
/// write with low and with high priority.
const STEPS: [(usize, usize, usize); 4] = [
    (10, 100, 100),
    (39, 10 * 64, 0),
    (40, 5 * 64, 0),
    (49, 64, 0),
];
/// What InnoDB of 2005 writes each second while there is nothing else to do:
/// its `buf_flush_batch(BUF_FLUSH_LIST, 100, ..)`.
const IDLE_PAGES: usize = 100;
/// A batch "of limited size" (paper, section 3.2) for threads that wait for
/// frames: an extent.
const PRESSED_PAGES: usize = 64;
/// Share of the log that the conservative policies make free when it is full:
/// InnoDB's distance between a full log and its synchronous flush is 1/16.
const PRESSED_LOG: f64 = 1.0 / 16.0;

/// What the flusher sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Frames of the pool.
    pub(super) frames: usize,
    /// Those that hold no page.
    pub(super) free: usize,
    /// Changed ones that nobody has begun to write.
    pub(super) dirty: usize,
    /// Of these, those that a change of many pages has passed.
    pub(super) passed: usize,
    /// Those that are being written.
    pub(super) writing: usize,
    /// Batches that are being copied to the doublewrite area.
    pub(super) copying: usize,
    /// Are there fewer free frames than should be?
    pub(super) is_low: bool,
    /// Does a thread wait for a frame?
    pub(super) frame_wanted: bool,
    /// Does a thread wait for room in the log?
    pub(super) room_wanted: bool,
    /// Does a thread wait for a checkpoint?
    pub(super) checkpoint_wanted: bool,
    /// How full the log is, 0 to 1.
    pub(super) pressure: f64,
    /// The log's end.
    pub(super) changes: u64,
    /// Pages read until now.
    pub(super) reads: u64,
    /// Is everything to be written?
    pub(super) stopped: bool,
}

impl Situation {
    /// How urgent what is under way has become for those who wait. Who waits for
    /// a checkpoint is no query: it goes ahead of backups and behind queries.
    pub(super) fn waited_for(&self) -> Option<Haste> {
        if self.frame_wanted || self.room_wanted {
            Some(Haste::Urgent)
        } else {
            self.checkpoint_wanted.then_some(Haste::Raised)
        }
    }
}

/// How urgent a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Haste {
    /// Nobody needs it.
    Low,
    /// Somebody will.
    Raised,
    /// Somebody waits.
    Urgent,
}

impl Haste {
    pub(super) fn level(self, policy: &IoPolicy) -> Level {
        policy.level(match self {
            Haste::Low => Role::Checkpoint,
            Haste::Raised => Role::Preflush,
            Haste::Urgent => Role::Read,
        })
    }
}

/// A batch to be put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Order {
    /// Most pages, and the fewest that are worth a batch.
    pub(super) pages: usize,
    pub(super) pages_min: usize,
    /// Pages that wait to leave memory come first.
    pub(super) cleaning: bool,
    /// Share of the log, from its old end on, whose changes are to be written;
    /// and whatever a checkpoint needs that somebody waits for.
    pub(super) line: f64,
    /// Those that a change of many pages has passed, however young.
    pub(super) passed: bool,
    /// What those that are written for their age are written for.
    pub(super) role: Role,
    pub(super) haste: Haste,
    /// Only while fewer batches than this are under way.
    pub(super) flights: usize,
    /// Is it a part of what was to be written in this second?
    scheduled: bool,
}

/// The policy, and what it remembers.
pub(super) struct Pace {
    policy: Preflush,
    batch_pages: usize,
    flights: usize,
    /// When something last changed, and what it was then.
    moved: (u64, u64, Duration),
    /// When a batch was last begun.
    begun: Duration,
    /// When it last looked, of those that look once a second, and what it has
    /// left to write since.
    looked: Duration,
    low: usize,
    high: usize,
}

impl Pace {
    /// For batches of at most `batch_pages`, of which `flights` may be under
    /// way.
    pub(super) fn new(policy: Preflush, batch_pages: usize, flights: usize) -> Pace {
        debug_assert!((1..=BATCH_PAGES).contains(&batch_pages));
        Pace {
            policy,
            batch_pages,
            flights,
            moved: (0, 0, Duration::ZERO),
            begun: Duration::ZERO,
            looked: Duration::ZERO,
            low: 0,
            high: 0,
        }
    }

    /// What to write at `now`, counted from any moment.
    pub(super) fn next(&mut self, now: Duration, seen: &Situation) -> Option<Order> {
        let changed = match self.policy {
            // Reading does not keep a page from being written.
            Preflush::Steady => seen.changes != self.moved.0,
            _ => (seen.changes, seen.reads) != (self.moved.0, self.moved.1),
        };
        if changed {
            self.moved = (seen.changes, seen.reads, now);
        }
        if seen.stopped {
            return Some(Order {
                flights: self.flights,
                ..self.order(usize::MAX, Haste::Urgent)
            });
        }
        match self.policy {
            Preflush::Steady => self.steady(now, seen),
            Preflush::Steps | Preflush::Idle => self.pressed(seen).or_else(|| {
                if seen.checkpoint_wanted {
                    return Some(self.asked());
                }
                if now.saturating_sub(self.looked) >= STEP {
                    self.looked = now;
                    self.look(now, seen);
                }
                self.by_the_second()
            }),
        }
    }

    /// A batch of so many pages was begun.
    pub(super) fn begun(&mut self, now: Duration, order: &Order, pages: usize) {
        self.begun = now;
        if order.scheduled {
            let left = match order.haste {
                Haste::Urgent => &mut self.high,
                _ => &mut self.low,
            };
            *left = left.saturating_sub(pages);
        }
    }

    /// The oldest pages of all, one batch at a time.
    fn order(&self, pages: usize, haste: Haste) -> Order {
        Order {
            pages: pages.min(self.batch_pages),
            pages_min: 1,
            cleaning: true,
            line: f64::INFINITY,
            passed: false,
            role: Role::Preflush,
            haste,
            flights: 1,
            scheduled: false,
        }
    }

    /// All the time, as slowly as may be.
    fn steady(&self, now: Duration, seen: &Situation) -> Option<Order> {
        let waited_for = seen.waited_for();
        let share = match seen.free as f64 > FREE_EASY * seen.frames as f64 {
            true => 0.0,
            false => seen.dirty as f64 / seen.frames as f64,
        };
        let crowded = share > DIRTY_RAISED;
        let pressed = if seen.pressure > PRESSURE_URGENT || share > DIRTY_URGENT {
            Haste::Urgent
        } else if seen.pressure > PRESSURE_RAISED || seen.is_low || crowded {
            Haste::Raised
        } else {
            Haste::Low
        };
        let haste = waited_for.map_or(pressed, |waiting| waiting.max(pressed));
        let quiet = now.saturating_sub(self.moved.2) >= QUIET;
        let line = if quiet || share > DIRTY_EASY {
            f64::INFINITY
        } else {
            (1.0 - PRESSURE_EASY / seen.pressure).max(0.0)
        };
        // A batch of those that it has passed: a change of many pages goes on,
        // and there is always one more to write.
        let streaming = seen.passed >= self.batch_pages.div_ceil(4);
        // Batches that are copied together are synced together, and so in step
        // from then on: there would be nothing for the places while all of them
        // go to the area. Unless somebody waits, for whom more at once is better.
        let in_a_hurry = waited_for.is_some() || haste == Haste::Urgent;
        if !in_a_hurry && seen.copying >= self.flights.div_ceil(2) {
            return None;
        }
        let needed = waited_for.is_some() || seen.is_low || quiet;
        let rare = now.saturating_sub(self.begun) >= TRICKLE;
        Some(Order {
            pages_min: if needed || rare {
                1
            } else {
                self.batch_pages.div_ceil(4)
            },
            line,
            passed: true,
            role: Role::Checkpoint,
            flights: match haste {
                Haste::Low if share <= DIRTY_EASY && !streaming => self.flights.div_ceil(2),
                _ => self.flights,
            },
            ..self.order(usize::MAX, haste)
        })
    }

    /// Somebody waits: one batch for them, and then one more.
    fn pressed(&self, seen: &Situation) -> Option<Order> {
        if seen.frame_wanted {
            return Some(self.order(PRESSED_PAGES, Haste::Urgent));
        }
        seen.room_wanted.then(|| Order {
            cleaning: false,
            line: PRESSED_LOG,
            role: Role::Checkpoint,
            ..self.order(usize::MAX, Haste::Urgent)
        })
    }

    /// Somebody waits for a checkpoint: what it needs, a batch at a time.
    fn asked(&self) -> Order {
        Order {
            cleaning: false,
            line: 0.0,
            role: Role::Checkpoint,
            ..self.order(usize::MAX, Haste::Raised)
        }
    }

    /// What there is to write in this second.
    fn look(&mut self, now: Duration, seen: &Situation) {
        if self.policy == Preflush::Idle {
            let quiet = now.saturating_sub(self.moved.2) >= STEP;
            self.low = if quiet { IDLE_PAGES } else { 0 };
            return;
        }
        let free = seen.frames.saturating_sub(seen.dirty + seen.writing);
        let percent = free * 100 / seen.frames;
        let step = STEPS.iter().find(|(most, ..)| percent <= *most);
        (self.low, self.high) = step.map_or((0, 0), |&(_, low, high)| (low, high));
    }

    fn by_the_second(&self) -> Option<Order> {
        let (pages, haste) = match self.high {
            0 => (self.low, Haste::Raised),
            high => (high, Haste::Urgent),
        };
        (pages > 0).then(|| Order {
            scheduled: true,
            ..self.order(pages, haste)
        })
    }
}

#[cfg(test)]
mod tests;
