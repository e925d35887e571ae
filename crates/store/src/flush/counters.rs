//! What the flusher did.

use iolane::Level;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the flusher did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushStatistics {
    /// Pages written to their places.
    pub pages: u64,
    /// Batches that they were written in.
    pub batches: u64,
    /// Most pages of one batch.
    pub batch_pages_max: u64,
    /// Most batches that were under way at once.
    pub flights_max: u64,
    /// Pages by the level that their batch began with, `Critical` first. It
    /// may have been promoted later.
    pub levels: [u64; Level::COUNT],
    /// Syncs of tablespaces.
    pub syncs: u64,
    /// Syncs of the doublewrite area.
    pub area_syncs: u64,
    /// Times that the log's checkpoint was moved.
    pub checkpoints: u64,
    /// Calls of [`Store::checkpoint`](crate::Store::checkpoint) that were served.
    pub checkpoints_asked: u64,
}

#[derive(Default)]
pub(crate) struct FlushCounters {
    pages: AtomicU64,
    batches: AtomicU64,
    batch_pages_max: AtomicU64,
    flights_max: AtomicU64,
    levels: [AtomicU64; Level::COUNT],
    syncs: AtomicU64,
    area_syncs: AtomicU64,
    checkpoints: AtomicU64,
    checkpoints_asked: AtomicU64,
}

impl FlushCounters {
    /// A batch has begun, as one of so many.
    pub(super) fn begun(&self, level: Level, pages: usize, flights: usize) {
        self.levels[level.index()].fetch_add(pages as u64, Ordering::Relaxed);
        self.batch_pages_max
            .fetch_max(pages as u64, Ordering::Relaxed);
        self.flights_max
            .fetch_max(flights as u64, Ordering::Relaxed);
    }

    /// A batch is durable in its places.
    pub(super) fn landed(&self, pages: usize) {
        self.pages.fetch_add(pages as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// A sync has begun, of a tablespace or of the doublewrite area.
    pub(super) fn synced(&self, in_place: bool) {
        let counter = match in_place {
            true => &self.syncs,
            false => &self.area_syncs,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn asked(&self) {
        self.checkpoints_asked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> FlushStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FlushStatistics {
            pages: read(&self.pages),
            batches: read(&self.batches),
            batch_pages_max: read(&self.batch_pages_max),
            flights_max: read(&self.flights_max),
            levels: std::array::from_fn(|level| read(&self.levels[level])),
            syncs: read(&self.syncs),
            area_syncs: read(&self.area_syncs),
            checkpoints: read(&self.checkpoints),
            checkpoints_asked: read(&self.checkpoints_asked),
        }
    }
}
