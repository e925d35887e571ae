//! Writing changed pages: the flusher, the doublewrite area, checkpoints.
//!
//! One thread writes all the time, as slowly as it may: first what must leave
//! memory, then pages whose changes are so old that the log would have to keep
//! half of its room for them. Both come at the pace at which pages become
//! dirty, so the writing is steady without a controller. Its level rises as
//! room runs out: `Background`, `Prefetch`, and `Foreground` while a thread
//! waits for a frame or for room in the log; what is already submitted is then
//! promoted.

mod bell;
mod doublewrite;

pub(crate) use bell::Bell;
pub(crate) use doublewrite::{BATCH_PAGES, Doublewrite};

use crate::core::Core;
use crate::ids::{Lsn, PageId};
use crate::page::header;
use crate::policy::Role;
use doublewrite::Outgoing;
use iolane::{Buffer, Completion, Error, File, Level, Operation, Pending};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Share of the log that changed pages may hold on to before they are written.
const PRESSURE_EASY: f64 = 0.5;
/// From here on, ahead of backups and scrubs.
const PRESSURE_RAISED: f64 = 0.7;
/// From here on, as urgent as those who will have to wait.
const PRESSURE_URGENT: f64 = 0.85;
/// A checkpoint costs a write to the log: not for less than this.
const PRESSURE_CHECKPOINT: f64 = 0.125;
/// How often it looks without being called.
const TICK: Duration = Duration::from_millis(50);
/// After this long without a change, the rest is written too.
const IDLE: Duration = Duration::from_millis(500);
/// Frames evicted ahead of need in one go.
const REFILL: usize = 256;

/// What the flusher did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushStatistics {
    /// Pages written to their places.
    pub pages: u64,
    /// Batches that they were written in.
    pub batches: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
}

#[derive(Default)]
pub(crate) struct FlushCounters {
    pages: AtomicU64,
    batches: AtomicU64,
    checkpoints: AtomicU64,
}

impl FlushCounters {
    pub(crate) fn read(&self) -> FlushStatistics {
        FlushStatistics {
            pages: self.pages.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
        }
    }
}

/// The thread's own.
pub(crate) struct Flusher {
    core: Arc<Core>,
    staging: Vec<Buffer>,
    head: Option<Buffer>,
    waker: Waker,
    /// The end of the log when it last moved.
    seen: (Lsn, Instant),
}

/// One batch to be written.
struct Demand {
    frames: Vec<u32>,
    /// How many of these, at the beginning, come from the cleaning list.
    cleaning: usize,
    level: Level,
}

impl Demand {
    /// What most of it is for.
    fn role(&self) -> Role {
        if 2 * self.cleaning > self.frames.len() {
            Role::Preflush
        } else {
            Role::Checkpoint
        }
    }
}

impl Flusher {
    /// Memory that it takes from the pool's arena, in pages.
    pub(crate) const PAGES: usize = BATCH_PAGES + 1;

    pub(crate) fn new(core: Arc<Core>, mut staging: Vec<Buffer>) -> Flusher {
        assert_eq!(staging.len(), Flusher::PAGES);
        Flusher {
            head: staging.pop(),
            staging,
            waker: Waker::from(Arc::clone(&core.bell)),
            seen: (Lsn(0), Instant::now()),
            core,
        }
    }

    /// Writes until it is stopped and everything is written, or writing fails.
    pub(crate) fn run(mut self) {
        loop {
            let stopped = self.core.bell.is_stopped();
            if let Err(reason) = self.round(stopped) {
                self.core.fail(reason);
                return;
            }
            if self.core.pool.failure.is_set() {
                return;
            }
            let idle = self.core.pool.dirty.count() == 0;
            if stopped && idle {
                return;
            }
        }
    }

    fn round(&mut self, stopped: bool) -> Result<(), String> {
        let demand = self.demand(stopped);
        if !demand.frames.is_empty() {
            self.write(&demand)?;
            return self.checkpoint(stopped);
        }
        self.checkpoint(stopped)?;
        if !stopped {
            self.core.bell.wait(TICK);
        }
        Ok(())
    }

    /// What to write next, and how urgently.
    fn demand(&mut self, stopped: bool) -> Demand {
        let core = &self.core;
        let pool = &core.pool;
        pool.refill(REFILL);
        let pressure = core.log.pressure();
        let waited_for = core.bell.take_urgent() || pool.waiting() > 0;
        let level = if waited_for || pressure > PRESSURE_URGENT {
            Level::Foreground
        } else if pressure > PRESSURE_RAISED || pool.is_low() {
            Level::Prefetch
        } else {
            Level::Background
        };
        // A few are worth two syncs only if somebody needs the frames.
        let worth = pool.cleaning() >= BATCH_PAGES / 4 || pool.is_low() || waited_for || stopped;
        let mut frames = Vec::new();
        if worth {
            let found = pool.take_cleaning(BATCH_PAGES);
            let (dirty, clean) = found
                .into_iter()
                .partition::<Vec<u32>, _>(|&frame| pool.dirty.take(pool.frames(), frame));
            pool.cleaned(&clean);
            frames = dirty;
        }
        let cleaning = frames.len();
        let line = self.line(pressure, stopped);
        let pool = &self.core.pool;
        let room = BATCH_PAGES - cleaning;
        frames.extend(pool.dirty.take_oldest(pool.frames(), room, line));
        Demand {
            frames,
            cleaning,
            level,
        }
    }

    /// Changes before this position are to be written now.
    fn line(&mut self, pressure: f64, stopped: bool) -> Lsn {
        let core = &self.core;
        let end = core.log.end();
        let now = Instant::now();
        if self.seen.0 != end {
            self.seen = (end, now);
        }
        let idle = now.duration_since(self.seen.1) >= IDLE;
        let crowded = core.pool.dirty.count() > core.pool.frames().len() / 2;
        if stopped || idle || crowded {
            return Lsn(u64::MAX);
        }
        if pressure <= PRESSURE_EASY {
            return Lsn(0);
        }
        let from = core.log.checkpoint_lsn();
        let held = (end.0 - from.0) as f64;
        Lsn(from.0 + (held * (1.0 - PRESSURE_EASY / pressure)) as u64)
    }

    fn write(&mut self, demand: &Demand) -> Result<(), String> {
        let core = Arc::clone(&self.core);
        let pool = &core.pool;
        let mut batch = self.copy(&demand.frames);
        batch.sort_unstable_by_key(|(id, _)| *id);
        let newest = batch.iter().map(|(_, page)| header::lsn(page)).max();
        if let Some(lsn) = newest {
            core.log
                .make_durable(lsn)
                .map_err(|error| error.to_string())?;
            pool.files.raise_newest(lsn);
            let count = batch.len() as u64;
            self.write_twice(batch, demand.role(), demand.level)
                .map_err(|error| error.to_string())?;
            core.flushed.pages.fetch_add(count, Ordering::Relaxed);
            core.flushed.batches.fetch_add(1, Ordering::Relaxed);
        }
        pool.dirty.written(pool.frames(), &demand.frames);
        pool.cleaned(&demand.frames[..demand.cleaning]);
        Ok(())
    }

    /// Sealed copies of the pages in these frames.
    fn copy(&mut self, frames: &[u32]) -> Vec<Outgoing> {
        let mut batch = Vec::with_capacity(frames.len());
        for &frame in frames {
            let slot = self.core.pool.frames()[frame as usize].latch.read();
            // Discarded meanwhile.
            let Some(id) = slot.id else { continue };
            let mut copy = self.staging.pop().expect("as many as a batch has pages");
            copy.copy_from_slice(slot.bytes());
            drop(slot);
            header::seal(&mut copy);
            batch.push((id, copy));
        }
        batch
    }

    /// To the doublewrite area, then to their places, each made durable.
    fn write_twice(
        &mut self,
        batch: Vec<Outgoing>,
        role: Role,
        mut level: Level,
    ) -> Result<(), Error> {
        let core = Arc::clone(&self.core);
        let files = &core.pool.files;
        let _no_repairs = files.in_place.lock();
        let ids: Vec<(PageId, Lsn)> = batch
            .iter()
            .map(|(id, page)| (*id, header::lsn(page)))
            .collect();
        let head = self.head.take().expect("given back after each batch");
        let pending = files.doublewrite.submit(batch, head, role, level)?;
        let mut buffers = self.wait_written(pending, &mut level)?;
        self.head = buffers.pop();
        let sync = files.doublewrite.submit_sync(role, level)?;
        self.wait_all(vec![sync], &mut level, |done| done.result.map(|_| ()))?;

        let mut pending = Vec::with_capacity(ids.len());
        let mut touched: Vec<File> = Vec::new();
        let mut buffers = buffers.into_iter();
        for same in ids.chunk_by(|(a, _), (b, _)| a.space == b.space) {
            let taken = buffers.by_ref().take(same.len());
            let Some(file) = files.for_role(same[0].0.space, role) else {
                // Dropped meanwhile.
                self.staging.extend(taken);
                continue;
            };
            let mut requests = file.device().batch();
            for ((id, _), buffer) in same.iter().zip(taken) {
                match requests.write(&file, buffer, files.offset(*id), level) {
                    Ok(request) => pending.push(request),
                    Err(refused) => {
                        drop(requests);
                        let _ = self.wait_written(pending, &mut level);
                        return Err(refused.error);
                    }
                }
            }
            requests.submit();
            touched.push(file);
        }
        let written = self.wait_written(pending, &mut level)?;
        self.staging.extend(written);
        let syncs: Result<Vec<_>, Error> = touched
            .iter()
            .map(|file| {
                let request = file.submit_sync(Operation::SyncData, level);
                request.map_err(|refused| refused.error)
            })
            .collect();
        self.wait_all(syncs?, &mut level, |done| done.result.map(|_| ()))?;
        files.doublewrite.finished(ids);
        Ok(())
    }

    fn wait_written(
        &self,
        pending: Vec<Pending<Buffer>>,
        level: &mut Level,
    ) -> Result<Vec<Buffer>, Error> {
        self.wait_all(pending, level, |done| done.result.map(|_| done.buffer))
    }

    /// Waits for all, also when one fails: what is still under way would
    /// overwrite what the store writes once it is opened again. Promotes what
    /// is left when a thread begins to wait for frames or log room.
    fn wait_all<B: Unpin, T>(
        &self,
        pending: Vec<Pending<B>>,
        level: &mut Level,
        finish: impl Fn(Completion<B>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut context = Context::from_waker(&self.waker);
        let mut pending: Vec<Option<Pending<B>>> = pending.into_iter().map(Some).collect();
        let mut finished = Vec::with_capacity(pending.len());
        let mut failed = None;
        for index in 0..pending.len() {
            loop {
                let first = pending[index].as_mut().expect("taken once");
                if let Poll::Ready(done) = Pin::new(first).poll(&mut context) {
                    pending[index] = None;
                    match finish(done) {
                        Ok(done) => finished.push(done),
                        Err(error) => failed = failed.or(Some(error)),
                    }
                    break;
                }
                self.core.bell.wait(TICK);
                let waited_for = self.core.bell.take_urgent() || self.core.pool.waiting() > 0;
                if waited_for && *level != Level::Foreground {
                    *level = Level::Foreground;
                    for request in pending.iter().flatten() {
                        request.promote(Level::Foreground);
                    }
                }
            }
        }
        failed.map_or(Ok(finished), Err)
    }

    /// Lets the log forget what has reached its place.
    fn checkpoint(&self, stopped: bool) -> Result<(), String> {
        let core = &self.core;
        if !core.may_checkpoint() {
            return Ok(());
        }
        let oldest = core.pool.dirty.oldest();
        let now = core.log.checkpoint_lsn();
        let clean = core.pool.dirty.count() == 0;
        let due = core.log.pressure() > PRESSURE_CHECKPOINT || stopped || clean;
        if oldest > now && due {
            core.log
                .set_checkpoint(oldest)
                .map_err(|error| error.to_string())?;
            core.flushed.checkpoints.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
