//! Writing changed pages: the flusher, the doublewrite area, checkpoints.
//!
//! One thread decides what to write, and takes batches of pages through their
//! phases; it never waits for one of them. What it writes, and how urgently,
//! is the policy's ([`Preflush`](crate::Preflush)): by default all the time, as
//! slowly as may be, what must leave memory first, then pages whose changes are
//! oldest. The level rises as room runs out: `Background`, `Prefetch`, and
//! `Foreground` while a thread waits for a frame or for room in the log; what
//! is already submitted is then promoted.
//!
//! A batch is copied under short shared latches and sealed; the log is made durable up to
//! the last change in it. Then it goes through four phases: written to the doublewrite area, synced,
//! written to its places, synced. Where every file takes atomic writes only the last two are needed. Up to
//! four batches are under way, out of step, so that some are written while others wait for a
//! sync. A sync covers all batches whose writes were complete when it began, and a
//! file has one at a time. The checkpoint follows the oldest change that is not in its place; nobody
//! waits for it unless the log is full, which is back-pressure in
//! [`Log::reserve`](crate::log::Log::reserve), before any latch is taken.
//!
//! | file | subject |
//! |---|---|
//! | `pace` | the policies: what to write next |
//! | `checkpoint` | those who wait for a checkpoint |
//! | `pipeline` | batches on their way |
//! | `syncs` | syncs that batches share |
//! | `doublewrite` | the area with copies, against writes cut short |
//! | `in_place` | pages under way, and who repairs them |
//! | `counters` | what was done |
//! | `bell` | waking the flusher |

mod bell;
mod checkpoint;
mod counters;
mod doublewrite;
mod in_place;
mod pace;
mod pipeline;
mod syncs;

pub(crate) use bell::Bell;
pub(crate) use checkpoint::Asked;
pub use checkpoint::CheckpointReport;
pub(crate) use counters::FlushCounters;
pub use counters::FlushStatistics;
pub(crate) use doublewrite::{BATCH_PAGES, Doublewrite, SLOTS};
pub(crate) use in_place::InPlace;
#[cfg(test)]
pub(crate) use pace::DIRTY_RAISED;

use crate::core::Core;
use crate::ids::Lsn;
use crate::policy::Preflush;
use checkpoint::Wanted;
use iolane::{Buffer, Level, RateScope, RateUnit, Snapshot};
use pace::{Haste, Order, Pace, Situation};
use pipeline::{Load, Pipeline};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it looks without being called.
const TICK: Duration = Duration::from_millis(50);
/// A checkpoint costs two writes to the log, ahead of all others: not for less
/// than this share of it, unless somebody waits for room ...
const CHECKPOINT_GAIN: f64 = 1.0 / 16.0;
/// ... and not while the log is as empty as this.
const CHECKPOINT_PRESSURE: f64 = 0.125;
/// Files that the pages of a batch may be of: they stay open until it is durable.
const FILES_MAX: usize = 32;
/// Frames evicted ahead of need in one go, and how often: the search may go
/// through all frames, and whoever needs one looks for himself.
const REFILL: usize = 256;
const REFILL_APART: Duration = Duration::from_millis(2);
/// How often it asks what the scheduler has learned of the volume.
const LEARNED_APART: Duration = Duration::from_millis(100);
/// Memory for copies of pages: this share of the pool, but for more than
/// `STAGING_SMALL` pages half of it, as memory that is no pool should be little;
/// at least 64 pages, at most what the batches under way can use.
const STAGING_SHARE: usize = 16;
const STAGING_SMALL: usize = 128;

/// The thread's own.
pub(crate) struct Flusher {
    core: Arc<Core>,
    pace: Pace,
    pipeline: Pipeline,
    begin: Instant,
    /// When frames were last evicted ahead of need.
    refilled: Duration,
    /// When it last asked what is known of the volume.
    learned: Duration,
}

impl Flusher {
    /// Memory for copies of a pool of `frames` frames, in pages.
    fn staging_pages(frames: usize) -> usize {
        let most = STAGING_SMALL.max(frames / STAGING_SHARE / 2);
        (frames / STAGING_SHARE).clamp(64, most.min(SLOTS * BATCH_PAGES))
    }

    /// Memory that it takes from the pool's arena, in pages.
    pub(crate) fn pages(frames: usize) -> usize {
        Flusher::staging_pages(frames) + SLOTS
    }

    /// With as much memory as [`pages`](Self::pages) says.
    pub(crate) fn new(core: Arc<Core>, memory: Vec<Buffer>) -> Flusher {
        let frames = core.pool.frames().len();
        assert_eq!(memory.len(), Flusher::pages(frames));
        let policy = core.pool.files.policy.preflush;
        let flights = match policy {
            // An area of an older format has fewer slots.
            Preflush::Steady => core.pool.files.doublewrite.slots().min(SLOTS),
            Preflush::Steps | Preflush::Idle => 1,
        };
        let batch_pages = (Flusher::staging_pages(frames) / flights).min(BATCH_PAGES);
        Flusher {
            pace: Pace::new(policy, batch_pages, flights),
            pipeline: Pipeline::new(Arc::clone(&core), memory),
            begin: Instant::now(),
            refilled: Duration::ZERO,
            learned: Duration::ZERO,
            core,
        }
    }

    /// Writes until it is stopped and everything is written, or writing fails.
    pub(crate) fn run(mut self) {
        let core = Arc::clone(&self.core);
        // However it ends: those who wait for a batch must learn of it.
        let _over = Over(&core);
        loop {
            let stopped = core.bell.is_stopped();
            if let Err(reason) = self.round(stopped) {
                core.fail(reason);
                return;
            }
            if core.pool.failure.is_set() {
                return;
            }
            if stopped && core.pool.dirty.count() == 0 && self.pipeline.is_empty() {
                return;
            }
        }
    }

    fn round(&mut self, stopped: bool) -> Result<(), String> {
        let advanced = self.pipeline.advance().map_err(|error| error.to_string())?;
        self.ask_of_volume();
        let wanted = self.core.asked.wanted(self.core.log.checkpoint_lsn());
        let seen = self.look(stopped, wanted.is_some());
        if let Some(haste) = seen.waited_for() {
            self.pipeline.promote(haste);
        }
        let begun = self.begin_batch(&seen, wanted)?;
        self.checkpoint(&seen, wanted)?;
        let done = stopped && self.pipeline.is_empty();
        if !advanced && !begun && !done {
            let due = self.pipeline.due();
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            self.core.bell.wait(left.unwrap_or(TICK).min(TICK));
        }
        Ok(())
    }

    /// Tells the pool whether its volume has a budget, and the log how large it is:
    /// they cannot ask the scheduler, under its lock, for each page and each commit.
    fn ask_of_volume(&mut self) {
        let now = self.begin.elapsed();
        let passed = now.saturating_sub(self.learned);
        if passed >= LEARNED_APART {
            self.learned = now;
            let pool = &self.core.pool;
            pool.set_budgeted(pool.files.are_budgeted());
            let log = &self.core.log;
            log.set_budget(transfers_wanted(&log.device().snapshot()), passed);
        }
    }

    fn look(&self, stopped: bool, checkpoint_wanted: bool) -> Situation {
        let pool = &self.core.pool;
        let log = &self.core.log;
        Situation {
            frames: pool.frames().len(),
            free: pool.free(),
            dirty: pool.dirty.count(),
            passed: pool.dirty.count_passed(),
            writing: self.pipeline.pages(),
            copying: self.pipeline.copying(),
            is_low: pool.is_low(),
            frame_wanted: pool.waiting() > 0,
            room_wanted: log.waiting() > 0,
            checkpoint_wanted,
            pressure: log.pressure(),
            changes: log.end().0,
            reads: pool.reads(),
            stopped,
        }
    }

    /// Begins to write what the policy wants written. Returns whether it did.
    fn begin_batch(&mut self, seen: &Situation, wanted: Option<Wanted>) -> Result<bool, String> {
        if !self.pipeline.has_room() {
            return Ok(false);
        }
        let now = self.begin.elapsed();
        if now.saturating_sub(self.refilled) >= REFILL_APART {
            self.refilled = now;
            self.core.pool.refill(REFILL);
        }
        let Some(order) = self.pace.next(now, seen) else {
            return Ok(false);
        };
        if self.pipeline.len() >= order.flights {
            return Ok(false);
        }
        let Some(load) = self.take(&order, wanted) else {
            return Ok(false);
        };
        self.pace.begun(now, &order, load.frames.len());
        self.pipeline.begin(load)?;
        Ok(true)
    }

    /// Takes the pages of a batch, if they are worth one.
    fn take(&self, order: &Order, wanted: Option<Wanted>) -> Option<Load> {
        let pool = &self.core.pool;
        let asked = wanted.map_or(Lsn(0), |wanted| wanted.farthest);
        let line = self.line(order.line).max(asked);
        let leaving = if order.cleaning { pool.cleaning() } else { 0 };
        let passed = if order.passed {
            pool.dirty.count_passed()
        } else {
            0
        };
        let missing = order.pages_min.saturating_sub(leaving + passed);
        if !pool.dirty.has_before(missing, line) {
            return None;
        }
        let space_of = |frame: u32| pool.frames()[frame as usize].page().space;
        let mut batch = Gathered::default();
        if order.cleaning {
            // Of these there may always be more: who waits for a checkpoint has
            // a share of each batch, and of its files.
            let (most, files) = match wanted {
                Some(_) => (order.pages.div_ceil(2), FILES_MAX / 2),
                None => (order.pages, FILES_MAX),
            };
            batch.fill(most, files, space_of, |most| {
                let found = pool.take_cleaning(most);
                let looked_at = found.len();
                let (dirty, clean) = found
                    .into_iter()
                    .partition::<Vec<u32>, _>(|&frame| pool.dirty.take(pool.frames(), frame));
                pool.cleaned(&clean);
                (looked_at, dirty)
            });
        }
        let cleaning = batch.frames.len();
        let counted = |frames: Vec<u32>| (frames.len(), frames);
        batch.fill(order.pages, FILES_MAX, space_of, |most| {
            counted(pool.dirty.take_oldest(pool.frames(), most, line))
        });
        if order.passed {
            batch.fill(order.pages, FILES_MAX, space_of, |most| {
                counted(pool.dirty.take_passed(pool.frames(), most))
            });
        }
        let frames = batch.frames;
        if frames.is_empty() {
            return None;
        }
        Some(Load {
            frames,
            cleaning,
            role: order.role,
            level: order.haste.level(&pool.files.policy),
            urgent: order.haste == Haste::Urgent,
        })
    }

    /// The position before which this share of the log lies.
    fn line(&self, share: f64) -> Lsn {
        if share >= 1.0 {
            return Lsn(u64::MAX);
        }
        let from = self.core.log.checkpoint_lsn();
        let held = (self.core.log.end().0 - from.0) as f64;
        Lsn(from.0 + (held * share) as u64)
    }

    /// Lets the log forget what has reached its place.
    fn checkpoint(&self, seen: &Situation, wanted: Option<Wanted>) -> Result<(), String> {
        let core = &self.core;
        if !core.may_checkpoint() {
            return Ok(());
        }
        let oldest = core.pool.dirty.oldest();
        let now = core.log.checkpoint_lsn();
        if oldest <= now {
            return Ok(());
        }
        let gain = (oldest.0 - now.0) as f64 / core.log.capacity() as f64;
        let clean = core.pool.dirty.count() == 0 && self.pipeline.is_empty();
        let worth = gain >= CHECKPOINT_GAIN && seen.pressure > CHECKPOINT_PRESSURE;
        let asked = wanted.is_some_and(|wanted| wanted.nearest <= oldest);
        if worth || asked || seen.room_wanted || seen.stopped || clean {
            core.log
                .set_checkpoint(oldest)
                .map_err(|error| error.to_string())?;
            core.flushed.checkpoint();
            core.asked.look_again();
        }
        Ok(())
    }
}

/// Pages for a batch, and of whose files they are.
#[derive(Default)]
struct Gathered {
    frames: Vec<u32>,
    spaces: BTreeSet<u32>,
}

impl Gathered {
    /// Takes more, until there are `pages` or they may be of more than `files`.
    /// `more` takes up to as many as it is told, and says at how many it has
    /// looked.
    fn fill(
        &mut self,
        pages: usize,
        files: usize,
        space_of: impl Fn(u32) -> u32,
        mut more: impl FnMut(usize) -> (usize, Vec<u32>),
    ) {
        let mut left = pages.saturating_sub(self.frames.len());
        loop {
            // Each may be of another file.
            let most = left.min(files - self.spaces.len());
            if most == 0 {
                return;
            }
            let (looked_at, found) = more(most);
            if looked_at == 0 {
                return;
            }
            left -= looked_at;
            self.spaces.extend(found.iter().map(|&it| space_of(it)));
            self.frames.extend(found);
        }
    }
}

/// Transfers a second that the device has, if it has a budget of them for reads and
/// writes together, and something that nobody waits for could use one less of others'.
fn transfers_wanted(device: &Snapshot) -> Option<f64> {
    let limit = device.window.rate_limit?;
    let waiting = &device.queued[Level::Prefetch.index()..];
    let is_shared = limit.unit == RateUnit::Transfers && limit.scope == RateScope::Both;
    let is_wanted = is_shared && waiting.iter().any(|&queued| queued > 0);
    is_wanted.then_some(limit.per_second)
}

/// Tells that the flusher has ended.
struct Over<'a>(&'a Core);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.pool.files.in_place.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each page is of another file.
    fn some_of(next: &mut std::ops::Range<u32>, most: usize) -> (usize, Vec<u32>) {
        let found: Vec<u32> = next.take(most).collect();
        (found.len(), found)
    }

    #[test]
    fn pages_of_many_files_leave_room_for_those_that_a_checkpoint_needs() {
        let mut batch = Gathered::default();
        let (mut leaving, mut old) = (0..1000, 1000..2000);
        batch.fill(
            64,
            FILES_MAX / 2,
            |frame| frame,
            |most| some_of(&mut leaving, most),
        );
        assert_eq!(batch.frames.len(), FILES_MAX / 2);
        batch.fill(
            128,
            FILES_MAX,
            |frame| frame,
            |most| some_of(&mut old, most),
        );
        let old = batch.frames.iter().filter(|&&frame| frame >= 1000);
        assert_eq!(
            (old.count(), batch.spaces.len()),
            (FILES_MAX / 2, FILES_MAX)
        );
    }

    #[test]
    fn pages_of_one_file_fill_a_batch() {
        let mut batch = Gathered::default();
        let mut all = 0..1000;
        batch.fill(128, FILES_MAX, |_| 7, |most| some_of(&mut all, most));
        assert_eq!((batch.frames.len(), batch.spaces.len()), (128, 1));
    }
}
