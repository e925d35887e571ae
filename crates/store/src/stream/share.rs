//! What the streams that run at a time may have, and what they did.

use super::pace::Pace;
use super::trails::Trails;
use crate::ids::EXTENT_PAGES;
use crate::policy::Role;
use crate::pool::Pool;
use iolane::Level;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Share of the frames that all streams together may hold: what they hold
/// cannot leave, and others must find room beside it.
const FRAMES_SHARE: usize = 4;
/// The same of those whose consumers stand back behind queries: where writes are
/// slow, most of the other frames may be dirty.
const FRAMES_SHARE_BEHIND: usize = 8;
/// Windows of the device that all streams together may have outstanding: one
/// that it works on, the others so that it finds work when one is used up at
/// once.
const WINDOWS: usize = 4;
/// As long as nothing has been learned of the device, and where its window is
/// small because its transfers are large: sixteen of them. A virtual disk that
/// tells of all at once when it has done all has as many in a round as a consumer
/// has asked for while it went through the round before: with four, neither is
/// busy for much more than half of the time.
pub(super) const OUTSTANDING_MIN: usize = 16 * EXTENT_PAGES as usize;
/// The same where reads of a page or a few come faster than from any disk with
/// heads, which finds the nearest among them. Read into 2 MiB again and again, a
/// virtio disk gave 70 to 77 thousand pages a second, into 8 MiB 63 to 70, and into 16 MiB
/// and more 58 to 68: from there on the processor's cache holds nothing of them.
const WINDOWS_QUICK: usize = 2;
const OUTSTANDING_QUICK_MIN: usize = 384;
/// More than the window of any device times [`WINDOWS`], and fewer than may
/// queue in the engine on one level: a stream never waits for room there.
const OUTSTANDING_MAX: usize = 2048;

/// What the streams of one role did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStatistics {
    /// Streams that run now.
    pub running: u64,
    /// Streams that have been begun.
    pub begun: u64,
    /// Pages that they began to read.
    pub reads: u64,
    /// Times that a consumer came to a page that was still on its way.
    pub waits: u64,
    /// Farthest that one was ahead of its consumer, in pages.
    pub distance_max: u64,
}

#[derive(Default)]
struct Counters {
    running: AtomicU64,
    begun: AtomicU64,
    reads: AtomicU64,
    waits: AtomicU64,
    distance_max: AtomicU64,
}

/// All streams of a store.
#[derive(Default)]
pub(crate) struct Streams {
    running: AtomicUsize,
    pub(super) trails: Trails,
    roles: [Counters; Role::COUNT],
}

impl Streams {
    /// One `within` another shares with that.
    pub(super) fn begin(&self, role: Role, within: bool) {
        self.running
            .fetch_add(usize::from(!within), Ordering::Relaxed);
        let counters = &self.roles[role.index()];
        counters.running.fetch_add(1, Ordering::Relaxed);
        counters.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, role: Role, within: bool) {
        self.running
            .fetch_sub(usize::from(!within), Ordering::Relaxed);
        let counters = &self.roles[role.index()];
        counters.running.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, role: Role, pages: usize) {
        let reads = &self.roles[role.index()].reads;
        reads.fetch_add(pages as u64, Ordering::Relaxed);
    }

    pub(super) fn waited(&self, role: Role) {
        let waits = &self.roles[role.index()].waits;
        waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn reached(&self, role: Role, pages: usize) {
        let distance_max = &self.roles[role.index()].distance_max;
        distance_max.fetch_max(pages as u64, Ordering::Relaxed);
    }

    /// Pages that one of the running streams, which asks for `role`, may be
    /// ahead: its part of the frames, and of what the device of tablespace `space`
    /// needs, from which pages come at `pace`.
    pub(super) fn limit(&self, pool: &Pool, role: Role, pace: Pace, space: Option<u32>) -> usize {
        let running = self.running.load(Ordering::Relaxed).max(1);
        let share = match pool.files.policy.level(role) {
            Level::Background => FRAMES_SHARE_BEHIND,
            _ => FRAMES_SHARE,
        };
        let frames = pool.frames().len() / share;
        let file = space.and_then(|space| pool.files.spaces.opened(space));
        let window = file.map_or(0.0, |file| file.device().snapshot().window.transfers);
        (frames.min(outstanding(window as usize, pace)) / running).max(1)
    }

    pub(crate) fn statistics(&self, role: Role) -> StreamStatistics {
        let counters = &self.roles[role.index()];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StreamStatistics {
            running: read(&counters.running),
            begun: read(&counters.begun),
            reads: read(&counters.reads),
            waits: read(&counters.waits),
            distance_max: read(&counters.distance_max),
        }
    }
}

/// Pages that all streams together may have outstanding on a device of `window`
/// transfers.
fn outstanding(window: usize, pace: Pace) -> usize {
    match pace.pages_per_quick_read() {
        Some(pages) => {
            let scattered = (WINDOWS_QUICK * window).max(OUTSTANDING_QUICK_MIN);
            (scattered * pages).min(OUTSTANDING_MIN.max(WINDOWS_QUICK * window))
        }
        None => (WINDOWS * window).max(OUTSTANDING_MIN),
    }
    .min(OUTSTANDING_MAX)
}
