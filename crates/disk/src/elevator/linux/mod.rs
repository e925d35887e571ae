//! The I/O schedulers of Linux 2.6, and the block layer around them.

mod anticipatory;
mod cfq;
mod deadline;
mod history;
mod neighbours;
mod noop;
mod positions;

pub use anticipatory::{AnticipatoryParameters, AnticipatoryScheduler};
pub use cfq::{CfqParameters, CfqScheduler};
pub use deadline::{DeadlineParameters, DeadlineScheduler};
pub use noop::NoopScheduler;

use super::{Dispatched, Elevator, Request, Transfer, at_tag};
use crate::model::{Kind, ParameterError};
use iolane_sched::Level;
use neighbours::Neighbours;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// First in, first out, with merging: `noop`.
pub type LinuxNoop = BlockLayer<NoopScheduler>;
/// Position order in batches, with expiry times: `deadline`.
pub type LinuxDeadline = BlockLayer<DeadlineScheduler>;
/// Deadline that waits for a process that will read on: `anticipatory`.
pub type Anticipatory = BlockLayer<AnticipatoryScheduler>;
/// Time slices for each process: `cfq`.
pub type Cfq = BlockLayer<CfqScheduler>;

/// The parameters that all schedulers of Linux 2.6 share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockLayerParameters {
    /// Requests that exist at once, per direction, from submission to their
    /// end; a submitter waits when there is none left. 128 in Linux 2.6
    /// (`BLKDEV_MAX_RQ` in `include/linux/blkdev.h`; later
    /// `/sys/block/*/queue/nr_requests`).
    pub requests_max: u32,
    /// Longest request, in bytes; the host splits what is longer, and nothing
    /// is merged beyond it. 512 KiB in Linux 2.6
    /// (`/sys/block/*/queue/max_sectors_kb`); less where the adapter says so.
    pub request_bytes_max: u32,
    /// Most requests merged into one. 128, for as many scatter-gather segments
    /// (`MAX_PHYS_SEGMENTS` in Linux 2.6). 1 turns merging off.
    pub segments_max: u32,
    /// Whether a request is also merged in front of a queued one, not only
    /// behind it (`front_merges` in Documentation/block/deadline-iosched.txt;
    /// default 1).
    pub front_merges: bool,
}

impl Default for BlockLayerParameters {
    fn default() -> BlockLayerParameters {
        BlockLayerParameters {
            requests_max: 128,
            request_bytes_max: 512 << 10,
            segments_max: 128,
            front_merges: true,
        }
    }
}

impl BlockLayerParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        if self.requests_max == 0 {
            return Err(ParameterError::new("requests_max", 0, "must be at least 1"));
        }
        if self.request_bytes_max < 4096 || !self.request_bytes_max.is_multiple_of(4096) {
            return Err(ParameterError::new(
                "request_bytes_max",
                self.request_bytes_max,
                "must be a multiple of 4096 above 0",
            ));
        }
        if self.segments_max == 0 {
            return Err(ParameterError::new("segments_max", 0, "must be at least 1"));
        }
        Ok(())
    }
}

/// Which way the data go: an index into pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read = 0,
    Write = 1,
}

/// A request in the block layer, as a scheduler sees it: possibly several of
/// the host's, merged. Only reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub(crate) direction: Direction,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) process: u32,
    pub(crate) sync: bool,
    pub(crate) level: Level,
    pub(crate) added_ns: u64,
    durable: bool,
    /// The host's requests in it.
    segments: u32,
    /// The last of them.
    last: u32,
    /// In the table of the host's requests: the next in the same [`Queued`],
    /// or its own tag at the end.
    next: u32,
}

impl Queued {
    const NONE: Queued = Queued {
        direction: Direction::Read,
        start: 0,
        end: 0,
        process: 0,
        sync: false,
        level: Level::Normal,
        added_ns: 0,
        durable: false,
        segments: 0,
        last: 0,
        next: 0,
    };
}

/// A scheduler inside the [`BlockLayer`]. It holds tags; what they stand for it
/// is shown in each call (`requests`, by tag).
pub trait LinuxScheduler: Send {
    /// A request has come.
    fn add(&mut self, now_ns: u64, tag: u32, requests: &[Queued]);

    /// A queued request now begins at another place: it grew at its front.
    fn moved(&mut self, tag: u32, start_before: u64, requests: &[Queued]);

    /// The one request that should go to the disk now.
    fn dispatch(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32>;

    /// A dispatched request has ended.
    fn complete(&mut self, _now_ns: u64, _tag: u32, _requests: &[Queued]) {}

    /// When to ask again though nothing has come and nothing ended.
    fn next_timer_ns(&self) -> Option<u64> {
        None
    }

    /// Whether the scheduler keeps the disk idle for this process, which may
    /// then submit beyond the pool's limit.
    fn waits_for(&self, _process: u32) -> bool {
        false
    }
}

/// The block layer of Linux 2.6 around one of its schedulers: the pool of
/// requests, merging, and the way past the scheduler for flushes.
///
/// Not modelled: plugging of an idle queue (a submission in a batch enters at
/// once anyway), and joining two queued requests when a third fills the gap
/// between them.
pub struct BlockLayer<S> {
    parameters: BlockLayerParameters,
    scheduler: S,
    requests: Vec<Queued>,
    neighbours: Neighbours,
    /// Requests that exist, by direction.
    in_use: [u32; 2],
    /// Flushes have no position and nothing to merge: they go at once, as in
    /// `block/blk-flush.c`.
    flushes: VecDeque<u32>,
    /// By tag: whether what is in flight under it is a flush.
    is_flush: Vec<bool>,
}

impl<S: LinuxScheduler> BlockLayer<S> {
    /// The block layer around `scheduler`.
    ///
    /// # Errors
    /// A parameter with which there could be no requests.
    pub fn new(
        scheduler: S,
        parameters: BlockLayerParameters,
    ) -> Result<BlockLayer<S>, ParameterError> {
        parameters.validate()?;
        Ok(BlockLayer {
            parameters,
            scheduler,
            requests: Vec::new(),
            neighbours: Neighbours::default(),
            in_use: [0; 2],
            flushes: VecDeque::new(),
            is_flush: Vec::new(),
        })
    }

    /// The queued request that `request` can be merged with, and whether at
    /// its front.
    fn partner(&self, direction: Direction, request: &Request) -> Option<(u32, bool)> {
        if self.parameters.segments_max == 1 {
            return None;
        }
        let fits = |&tag: &u32| {
            let queued = &self.requests[tag as usize];
            let bytes = queued.end - queued.start + u64::from(request.length);
            queued.segments < self.parameters.segments_max
                && bytes <= u64::from(self.parameters.request_bytes_max)
                && queued.sync == request.sync
                && queued.level == request.level
        };
        let end = request.offset + u64::from(request.length);
        let behind = self.neighbours.ending_at(direction, request.offset);
        if let Some(tag) = behind.filter(fits) {
            return Some((tag, false));
        }
        if !self.parameters.front_merges {
            return None;
        }
        let before = self.neighbours.starting_at(direction, end);
        before.filter(fits).map(|tag| (tag, true))
    }

    fn merge(&mut self, tag: u32, into: u32, front: bool, request: &Request) {
        let queued = &mut self.requests[into as usize];
        let (start, end) = (queued.start, queued.end);
        self.neighbours.remove(queued.direction, start, end, into);
        if front {
            queued.start = request.offset;
        } else {
            queued.end += u64::from(request.length);
        }
        queued.durable |= request.durable;
        queued.segments += 1;
        let last = std::mem::replace(&mut queued.last, tag);
        let (direction, new_start, new_end) = (queued.direction, queued.start, queued.end);
        self.neighbours.insert(direction, new_start, new_end, into);
        self.requests[last as usize].next = tag;
        at_tag(&mut self.requests, tag, Queued::NONE).next = tag;
        if front {
            self.scheduler.moved(into, start, &self.requests);
        }
    }

    fn send(&mut self, tag: u32, out: &mut Dispatched) {
        let queued = self.requests[tag as usize];
        self.neighbours
            .remove(queued.direction, queued.start, queued.end, tag);
        let mut member = tag;
        loop {
            out.members.push(member);
            let next = self.requests[member as usize].next;
            if next == member {
                break;
            }
            member = next;
        }
        out.transfers.push(Transfer {
            tag,
            kind: match queued.direction {
                Direction::Read => Kind::Read,
                Direction::Write => Kind::Write,
            },
            offset: queued.start,
            length: (queued.end - queued.start) as u32,
            durable: queued.durable,
            members_end: out.members.len(),
        });
    }

    fn send_flush(tag: u32, out: &mut Dispatched) {
        out.members.push(tag);
        out.transfers.push(Transfer {
            tag,
            kind: Kind::Flush,
            offset: 0,
            length: 0,
            durable: false,
            members_end: out.members.len(),
        });
    }
}

fn direction(kind: Kind) -> Option<Direction> {
    match kind {
        Kind::Read => Some(Direction::Read),
        Kind::Write => Some(Direction::Write),
        Kind::Flush => None,
    }
}

impl<S: LinuxScheduler> Elevator for BlockLayer<S> {
    fn attach(&mut self, _queue_max: usize) {}

    fn request_bytes_max(&self) -> u32 {
        self.parameters.request_bytes_max
    }

    fn admits(&self, request: &Request) -> bool {
        let Some(direction) = direction(request.kind) else {
            return true;
        };
        let in_use = self.in_use[direction as usize];
        let limit = self.parameters.requests_max;
        in_use < limit
            // Half as many again for the one that the disk is kept idle for:
            // it would be waited for in vain.
            || (in_use < limit + limit / 2 && self.scheduler.waits_for(request.process))
            || self.partner(direction, request).is_some()
    }

    fn add(&mut self, now_ns: u64, tag: u32, request: &Request) {
        let direction = direction(request.kind);
        *at_tag(&mut self.is_flush, tag, false) = direction.is_none();
        let Some(direction) = direction else {
            self.flushes.push_back(tag);
            return;
        };
        if let Some((into, front)) = self.partner(direction, request) {
            self.merge(tag, into, front, request);
            return;
        }
        self.in_use[direction as usize] += 1;
        let end = request.offset + u64::from(request.length);
        *at_tag(&mut self.requests, tag, Queued::NONE) = Queued {
            direction,
            start: request.offset,
            end,
            process: request.process,
            sync: request.sync,
            level: request.level,
            added_ns: now_ns,
            durable: request.durable,
            segments: 1,
            last: tag,
            next: tag,
        };
        self.neighbours.insert(direction, request.offset, end, tag);
        self.scheduler.add(now_ns, tag, &self.requests);
    }

    fn dispatch(&mut self, now_ns: u64, room: usize, out: &mut Dispatched) {
        for _ in 0..room {
            if let Some(tag) = self.flushes.pop_front() {
                Self::send_flush(tag, out);
            } else if let Some(tag) = self.scheduler.dispatch(now_ns, &self.requests) {
                self.send(tag, out);
            } else {
                break;
            }
        }
    }

    fn complete(&mut self, now_ns: u64, tag: u32) {
        if self.is_flush[tag as usize] {
            return;
        }
        self.in_use[self.requests[tag as usize].direction as usize] -= 1;
        self.scheduler.complete(now_ns, tag, &self.requests);
    }

    fn next_timer_ns(&self) -> Option<u64> {
        self.scheduler.next_timer_ns()
    }
}
