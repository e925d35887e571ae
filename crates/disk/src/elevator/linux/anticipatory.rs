//! Deadline that waits for a process that will read on.

use super::deadline::remove_from;
use super::history::History;
use super::positions::Positions;
use super::{Anticipatory, BlockLayer, BlockLayerParameters, LinuxScheduler, Queued};
use crate::model::ParameterError;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// Parameters of [`Anticipatory`], with the defaults of Linux 2.6
/// (Documentation/block/as-iosched.txt; values from the table at the top of
/// `block/as-iosched.c` where that page gives none). "Reads" are all requests
/// that somebody waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnticipatoryParameters {
    /// A read should go to the disk this long after its submission at the
    /// latest, in milliseconds; also how often expiry is looked at.
    pub read_expire_ms: u32,
    /// The same for a write that nobody waits for.
    pub write_expire_ms: u32,
    /// Milliseconds that a batch of reads lasts once writes wait.
    pub read_batch_expire_ms: u32,
    /// Milliseconds that a batch of writes should last once reads wait. The
    /// number of requests in it adapts to that.
    pub write_batch_expire_ms: u32,
    /// Longest wait for a process, in milliseconds. 0 turns anticipation off.
    pub antic_expire_ms: f64,
    /// Longest think time that is counted, in milliseconds.
    pub think_max_ms: u32,
    /// How far the head may turn back, in bytes.
    pub back_seek_max_bytes: u64,
    /// How many times as far the head would rather go forwards.
    pub back_seek_penalty: u64,
    /// A request of another process that lies at most this many bytes ahead of
    /// the head, or half as many behind it, is not kept waiting; twice as far
    /// after each millisecond of the wait (`as_close_req`: 8192 sectors). Nor is
    /// one that is nearer than the process's own seeks.
    pub close_bytes: u64,
}

impl Default for AnticipatoryParameters {
    fn default() -> AnticipatoryParameters {
        AnticipatoryParameters {
            read_expire_ms: 125,
            write_expire_ms: 250,
            read_batch_expire_ms: 500,
            write_batch_expire_ms: 125,
            antic_expire_ms: 6.0,
            think_max_ms: 20,
            back_seek_max_bytes: 512 << 20,
            back_seek_penalty: 2,
            close_bytes: 4 << 20,
        }
    }
}

const MS: u64 = 1_000_000;
/// Requests in the first batch of writes; adapts from there.
const WRITE_BATCH_FIRST: u32 = 16;

/// The two kinds of batches: an index into pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Sync = 0,
    Async = 1,
}

impl Class {
    fn of(request: &Queued) -> Class {
        if request.sync {
            Class::Sync
        } else {
            Class::Async
        }
    }

    fn other(self) -> Class {
        match self {
            Class::Sync => Class::Async,
            Class::Async => Class::Sync,
        }
    }
}

#[derive(Default)]
struct Side {
    positions: Positions,
    fifo: VecDeque<u32>,
    in_drive: u32,
    expiry_checked_ns: u64,
    /// The next one begins a batch.
    fresh: bool,
}

/// The request that ended last, of those that somebody waited for.
#[derive(Clone, Copy)]
struct Last {
    process: u32,
    finished_ns: u64,
}

/// Linux's `anticipatory`, after Iyer and Druschel ("Anticipatory scheduling: a
/// disk scheduling framework to overcome deceptive idleness in synchronous
/// I/O", SOSP 2001): when a request has ended, the disk is kept idle for a few
/// milliseconds if the same process will probably ask for something nearby.
/// Reads go to the disk one at a time.
pub struct AnticipatoryScheduler {
    parameters: AnticipatoryParameters,
    sides: [Side; 2],
    batch: Class,
    /// Since when the batch counts: when the other kind began to wait.
    contended_since_ns: Option<u64>,
    batch_began_ns: u64,
    write_batch_left: u32,
    write_batch: u32,
    /// Where the head is taken to be.
    head: u64,
    last: Option<Last>,
    /// The wait under way ends at this time.
    wait_until_ns: Option<u64>,
    /// The request that was waited for.
    awaited: Option<u32>,
    histories: HashMap<u32, History>,
}

impl Anticipatory {
    /// `anticipatory`, with its block layer.
    ///
    /// # Errors
    /// A parameter that makes no sense.
    pub fn anticipatory(
        parameters: AnticipatoryParameters,
        block_layer: BlockLayerParameters,
    ) -> Result<Anticipatory, ParameterError> {
        if !(0.0..=1000.0).contains(&parameters.antic_expire_ms) {
            return Err(ParameterError::new(
                "antic_expire_ms",
                parameters.antic_expire_ms,
                "must be 0 to 1000",
            ));
        }
        let scheduler = AnticipatoryScheduler {
            parameters,
            sides: Default::default(),
            batch: Class::Sync,
            contended_since_ns: None,
            batch_began_ns: 0,
            write_batch_left: 0,
            write_batch: WRITE_BATCH_FIRST,
            head: 0,
            last: None,
            wait_until_ns: None,
            awaited: None,
            histories: HashMap::new(),
        };
        BlockLayer::new(scheduler, block_layer)
    }
}

impl AnticipatoryScheduler {
    fn antic_ns(&self) -> u64 {
        (self.parameters.antic_expire_ms * MS as f64) as u64
    }

    fn think_max_ns(&self) -> u64 {
        u64::from(self.parameters.think_max_ms) * MS
    }

    fn has(&self, class: Class) -> bool {
        !self.sides[class as usize].positions.is_empty()
    }

    /// Whether the batch must end, given that the other kind waits.
    fn batch_expired(&self, now_ns: u64) -> bool {
        let limit_ms = match self.batch {
            Class::Sync => self.parameters.read_batch_expire_ms,
            Class::Async => self.parameters.write_batch_expire_ms,
        };
        let expired = self
            .contended_since_ns
            .is_some_and(|since_ns| now_ns >= since_ns + u64::from(limit_ms) * MS);
        expired || (self.batch == Class::Async && self.write_batch_left == 0)
    }

    fn change_batch(&mut self, now_ns: u64) {
        if self.batch == Class::Async {
            self.adapt_write_batch(now_ns);
        }
        self.batch = self.batch.other();
        self.batch_began_ns = now_ns;
        self.sides[self.batch as usize].fresh = true;
        self.write_batch_left = self.write_batch;
        self.contended_since_ns = self.has(self.batch.other()).then_some(now_ns);
        self.wait_until_ns = None;
    }

    /// A drive with a cache takes many writes at once and is busy with them
    /// for long: the number that takes as long as it should is found by trial.
    fn adapt_write_batch(&mut self, now_ns: u64) {
        let took_ns = now_ns - self.batch_began_ns;
        let target_ns = u64::from(self.parameters.write_batch_expire_ms) * MS;
        if took_ns > target_ns {
            self.write_batch = (self.write_batch / 2).max(1);
        } else if self.write_batch_left == 0 {
            self.write_batch = self.write_batch.saturating_add(1);
        }
    }

    /// The oldest of a kind, if it is time to look and it has expired; or if
    /// the batch begins with it.
    fn oldest_due(&mut self, now_ns: u64, class: Class, requests: &[Queued]) -> Option<u32> {
        let expire_ms = match class {
            Class::Sync => self.parameters.read_expire_ms,
            Class::Async => self.parameters.write_expire_ms,
        };
        let expire_ns = u64::from(expire_ms) * MS;
        let side = &mut self.sides[class as usize];
        let oldest = *side.fifo.front()?;
        if side.fresh {
            return Some(oldest);
        }
        if now_ns < side.expiry_checked_ns + expire_ns {
            return None;
        }
        side.expiry_checked_ns = now_ns;
        (requests[oldest as usize].added_ns + expire_ns <= now_ns).then_some(oldest)
    }

    fn nearest(&self, class: Class) -> Option<u32> {
        let parameters = &self.parameters;
        let positions = &self.sides[class as usize].positions;
        let (max, penalty) = (parameters.back_seek_max_bytes, parameters.back_seek_penalty);
        positions
            .nearest(self.head, max, penalty)
            .map(|(_, tag)| tag)
    }

    /// Until when `candidate` is held back for the sake of the process whose
    /// request ended last.
    fn hold_back(&self, now_ns: u64, candidate: &Queued) -> Option<u64> {
        let last = self.last?;
        let until_ns = last.finished_ns + self.antic_ns();
        if now_ns >= until_ns || candidate.process == last.process {
            return None;
        }
        let history = &self.histories[&last.process];
        // A process of which nothing is known gets the benefit of the doubt.
        let thinks_long = |think_ns| think_ns > self.antic_ns();
        if history.outstanding() > 0 || history.think_ns.get(1).is_some_and(thinks_long) {
            return None;
        }
        let waited_ms = (now_ns - last.finished_ns) / MS;
        if self.is_near(candidate, history, waited_ms) {
            return None;
        }
        Some(until_ns)
    }

    /// Whether going to `candidate` costs no more than waiting would gain.
    fn is_near(&self, candidate: &Queued, history: &History, waited_ms: u64) -> bool {
        let distance = candidate.start.abs_diff(self.head);
        let backwards = candidate.start < self.head;
        let close_bytes =
            (self.parameters.close_bytes << waited_ms.min(20)) >> u32::from(backwards);
        let seeks_farther = |seek_bytes| seek_bytes >= distance;
        distance <= close_bytes || history.seek_bytes.get(1).is_some_and(seeks_farther)
    }

    fn pick_sync(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32> {
        let anticipates = self.antic_ns() > 0;
        if anticipates && self.sides[Class::Sync as usize].in_drive > 0 {
            return None;
        }
        if let Some(tag) = self.oldest_due(now_ns, Class::Sync, requests) {
            return Some(tag);
        }
        if self.awaited.is_some() {
            return self.awaited;
        }
        let candidate = self.nearest(Class::Sync)?;
        if anticipates {
            self.wait_until_ns = self.hold_back(now_ns, &requests[candidate as usize]);
        }
        self.wait_until_ns.is_none().then_some(candidate)
    }

    fn pick(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32> {
        let other_waits = self.has(self.batch.other());
        if other_waits && (!self.has(self.batch) || self.batch_expired(now_ns)) {
            self.change_batch(now_ns);
        }
        // The drive must be done with the batch before.
        if self.sides[self.batch.other() as usize].in_drive > 0 {
            return None;
        }
        match self.batch {
            Class::Sync => self.pick_sync(now_ns, requests),
            Class::Async => self
                .oldest_due(now_ns, Class::Async, requests)
                .or_else(|| self.nearest(Class::Async)),
        }
    }
}

impl LinuxScheduler for AnticipatoryScheduler {
    fn add(&mut self, now_ns: u64, tag: u32, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let class = Class::of(request);
        let side = &mut self.sides[class as usize];
        side.positions.insert(request.start, tag);
        side.fifo.push_back(tag);
        if class != self.batch && self.contended_since_ns.is_none() {
            self.contended_since_ns = Some(now_ns);
        }
        if class == Class::Sync {
            let think_max_ns = self.think_max_ns();
            self.histories
                .entry(request.process)
                .or_default()
                .submitted(now_ns, request.start, request.end, think_max_ns);
            if self.waits_for(request.process) {
                self.awaited = Some(tag);
                self.wait_until_ns = None;
            }
        }
    }

    fn moved(&mut self, tag: u32, start_before: u64, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let positions = &mut self.sides[Class::of(request) as usize].positions;
        positions.remove(start_before, tag);
        positions.insert(request.start, tag);
    }

    fn dispatch(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32> {
        let tag = self.pick(now_ns, requests)?;
        let request = &requests[tag as usize];
        let class = Class::of(request);
        let side = &mut self.sides[class as usize];
        side.positions.remove(request.start, tag);
        remove_from(&mut side.fifo, tag);
        side.in_drive += 1;
        side.fresh = false;
        self.head = request.end;
        match class {
            Class::Sync => (self.last, self.awaited, self.wait_until_ns) = (None, None, None),
            Class::Async => self.write_batch_left = self.write_batch_left.saturating_sub(1),
        }
        Some(tag)
    }

    fn complete(&mut self, now_ns: u64, tag: u32, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let class = Class::of(request);
        self.sides[class as usize].in_drive -= 1;
        if class == Class::Sync {
            let history = self.histories.entry(request.process).or_default();
            history.finished(now_ns);
            self.last = Some(Last {
                process: request.process,
                finished_ns: now_ns,
            });
        }
    }

    fn next_timer_ns(&self) -> Option<u64> {
        self.wait_until_ns
    }

    fn waits_for(&self, process: u32) -> bool {
        self.wait_until_ns.is_some() && self.last.is_some_and(|last| last.process == process)
    }
}
