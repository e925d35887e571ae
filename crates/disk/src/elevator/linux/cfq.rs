//! Time slices for each process.

mod parameters;
mod queue;

pub use parameters::CfqParameters;

use super::{BlockLayer, BlockLayerParameters, Cfq, LinuxScheduler, Queued};
use crate::model::ParameterError;
use queue::{Owner, Queue};
use std::collections::HashMap;

/// What the drive has.
#[derive(Clone, Copy, Debug, Default)]
struct Drive {
    requests: u32,
    sync: u32,
    /// It has been seen to hold several at once.
    queueing: bool,
}

/// The queue whose turn it is.
#[derive(Clone, Copy, Debug)]
struct Active {
    queue: usize,
    /// The slice begins when the first of its requests ends: the seek to where
    /// the process reads is not counted.
    slice_end_ns: Option<u64>,
    dispatched: u32,
    /// Expiry is looked at once in a slice.
    expiry_checked: bool,
    /// The disk is kept idle for its process until then.
    idle_until_ns: Option<u64>,
}

/// Linux's `cfq` with time slices (version 3, Linux 2.6.13 on): every process
/// has a queue of its own for what it waits for, with one slice of the disk's
/// time after the other; all that nobody waits for shares a queue per priority.
/// In its slice a queue goes in position order; when it runs empty, the disk is
/// kept idle for a while if its process is known to come back soon. See
/// Documentation/block/cfq-iosched.txt and ioprio.txt.
///
/// A process that submits at several levels has a queue for each, where Linux
/// takes the priority from the process. Not modelled: the real-time and idle
/// classes, cooperating processes (2.6.22 on) and control groups.
pub struct CfqScheduler {
    parameters: CfqParameters,
    queues: Vec<Queue>,
    by_owner: HashMap<Owner, usize>,
    /// By tag: its queue.
    queue_of: Vec<usize>,
    /// Queues with requests, but for the active one; few, searched in whole.
    busy: Vec<usize>,
    active: Option<Active>,
    drive: Drive,
    head: u64,
    /// Breaks ties in the order of service.
    turns: u64,
}

impl Cfq {
    /// `cfq`, with its block layer.
    ///
    /// # Errors
    /// A parameter that makes no sense.
    pub fn cfq(
        parameters: CfqParameters,
        block_layer: BlockLayerParameters,
    ) -> Result<Cfq, ParameterError> {
        parameters.validate()?;
        let scheduler = CfqScheduler {
            parameters,
            queues: Vec::new(),
            by_owner: HashMap::new(),
            queue_of: Vec::new(),
            busy: Vec::new(),
            active: None,
            drive: Drive::default(),
            head: 0,
            turns: 0,
        };
        BlockLayer::new(scheduler, block_layer)
    }
}

impl CfqScheduler {
    fn queue_for(&mut self, request: &Queued) -> usize {
        let priority = self.parameters.io_priorities[request.level.index()];
        let owner = Owner::of(request, priority);
        let next = self.queues.len();
        let index = *self.by_owner.entry(owner).or_insert(next);
        if index == next {
            self.queues.push(Queue::new(owner));
        }
        index
    }

    /// Puts a queue into the order of service. A lower priority comes later,
    /// the more so the more queues there are.
    fn line_up(&mut self, now_ns: u64, index: usize, first: bool) {
        self.turns += 1;
        let others = self.busy.len() as u64;
        let queue = &mut self.queues[index];
        let late_ns = self.parameters.slice_ns(queue.owner.is_sync(), 0)
            - self
                .parameters
                .slice_ns(queue.owner.is_sync(), queue.owner.priority());
        let due_ns = if first { 0 } else { now_ns + others * late_ns };
        queue.turn = (due_ns, self.turns);
        self.busy.push(index);
    }

    fn expire(&mut self, now_ns: u64) {
        if let Some(active) = self.active.take()
            && !self.queues[active.queue].positions.is_empty()
        {
            self.line_up(now_ns, active.queue, false);
        }
    }

    fn next_queue(&mut self) -> Option<usize> {
        let queues = &self.queues;
        let (place, _) = self
            .busy
            .iter()
            .enumerate()
            .min_by_key(|&(_, &index)| queues[index].turn)?;
        Some(self.busy.swap_remove(place))
    }

    /// Whether the active queue keeps its turn.
    fn keeps_turn(&self, now_ns: u64, active: &Active) -> bool {
        let queue = &self.queues[active.queue];
        if active.slice_end_ns.is_some_and(|end_ns| now_ns >= end_ns) {
            return false;
        }
        if !queue.positions.is_empty() {
            let requests_max = self.parameters.async_requests_max(queue.owner.priority());
            return queue.owner.is_sync() || active.dispatched < requests_max;
        }
        match active.idle_until_ns {
            Some(until_ns) => now_ns < until_ns,
            // Its process will come when what is under way has ended.
            None => queue.idles && queue.in_drive > 0,
        }
    }

    fn select(&mut self, now_ns: u64) -> Option<Active> {
        if let Some(active) = self.active {
            if self.keeps_turn(now_ns, &active) {
                return Some(active);
            }
            self.expire(now_ns);
        }
        let queue = self.next_queue()?;
        self.active = Some(Active {
            queue,
            slice_end_ns: None,
            dispatched: 0,
            expiry_checked: false,
            idle_until_ns: None,
        });
        self.active
    }

    /// Whether the drive may get one more from this queue now.
    fn has_room(&self, queue: &Queue) -> bool {
        if !queue.owner.is_sync() && self.drive.sync > 0 {
            return false;
        }
        let alone = self.busy.is_empty();
        let quantum = self.parameters.quantum * if alone { 4 } else { 1 };
        queue.in_drive < quantum
    }

    fn pick(&mut self, now_ns: u64, active: &mut Active, requests: &[Queued]) -> Option<u32> {
        let queue = &self.queues[active.queue];
        let oldest = *queue.fifo.front()?;
        if !std::mem::replace(&mut active.expiry_checked, true) {
            let expire_ns = self.parameters.fifo_expire_ns(queue.owner.is_sync());
            if requests[oldest as usize].added_ns + expire_ns <= now_ns {
                return Some(oldest);
            }
        }
        let (back_max, penalty) = (
            self.parameters.back_seek_max_bytes,
            self.parameters.back_seek_penalty,
        );
        let nearest = queue.positions.nearest(self.head, back_max, penalty);
        nearest.map(|(_, tag)| tag)
    }

    /// Whether a request of `index` takes the turn from the active queue: what
    /// somebody waits for does from what nobody does.
    fn preempts(&self, index: usize) -> bool {
        self.active.is_some_and(|active| {
            !self.queues[active.queue].owner.is_sync() && self.queues[index].owner.is_sync()
        })
    }

    /// The active queue has run empty: shall the disk wait for its process?
    fn arm_idle(&mut self, now_ns: u64) {
        let Some(active) = &mut self.active else {
            return;
        };
        let queue = &self.queues[active.queue];
        if !queue.idles || !queue.positions.is_empty() || queue.in_drive > 0 {
            return;
        }
        let idle_ns = if queue.is_seeky(&self.parameters) {
            self.parameters.seeky_idle_ns()
        } else {
            self.parameters.slice_idle_ns()
        };
        active.idle_until_ns = Some(now_ns + idle_ns);
    }
}

impl LinuxScheduler for CfqScheduler {
    fn add(&mut self, now_ns: u64, tag: u32, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let index = self.queue_for(request);
        *super::at_tag(&mut self.queue_of, tag, 0) = index;
        let was_empty = self.queues[index].positions.is_empty();
        self.queues[index].add(now_ns, tag, request, self.drive.queueing, &self.parameters);
        if let Some(active) = &mut self.active
            && active.queue == index
        {
            active.idle_until_ns = None;
        } else if self.preempts(index) {
            if was_empty {
                self.line_up(now_ns, index, true);
            } else {
                self.turns += 1;
                self.queues[index].turn = (0, self.turns);
            }
            self.expire(now_ns);
        } else if was_empty {
            self.line_up(now_ns, index, false);
        }
    }

    fn moved(&mut self, tag: u32, start_before: u64, requests: &[Queued]) {
        let positions = &mut self.queues[self.queue_of[tag as usize]].positions;
        positions.remove(start_before, tag);
        positions.insert(requests[tag as usize].start, tag);
    }

    fn dispatch(&mut self, now_ns: u64, requests: &[Queued]) -> Option<u32> {
        let mut active = self.select(now_ns)?;
        if !self.has_room(&self.queues[active.queue]) {
            return None;
        }
        let tag = self.pick(now_ns, &mut active, requests)?;
        active.dispatched += 1;
        self.active = Some(active);
        let request = &requests[tag as usize];
        let queue = &mut self.queues[active.queue];
        queue.dispatch(tag, request);
        self.head = request.end;
        self.drive.requests += 1;
        self.drive.sync += u32::from(request.sync);
        if self.drive.requests >= self.parameters.queueing_depth_min {
            self.drive.queueing = true;
        }
        Some(tag)
    }

    fn complete(&mut self, now_ns: u64, tag: u32, requests: &[Queued]) {
        let request = &requests[tag as usize];
        let index = self.queue_of[tag as usize];
        self.drive.requests -= 1;
        self.drive.sync -= u32::from(request.sync);
        let queue = &mut self.queues[index];
        queue.finish(now_ns);
        let owner = queue.owner;
        if let Some(active) = &mut self.active
            && active.queue == index
        {
            let slice_ns = self.parameters.slice_ns(owner.is_sync(), owner.priority());
            active.slice_end_ns.get_or_insert(now_ns + slice_ns);
            self.arm_idle(now_ns);
        }
    }

    fn next_timer_ns(&self) -> Option<u64> {
        // With nobody else to serve, there is nothing to do when it ends.
        if self.busy.is_empty() {
            return None;
        }
        let active = self.active?;
        let idle_ns = active.idle_until_ns?;
        Some(active.slice_end_ns.map_or(idle_ns, |end| end.min(idle_ns)))
    }

    fn waits_for(&self, process: u32) -> bool {
        self.active.is_some_and(|active| {
            active.idle_until_ns.is_some()
                && self.queues[active.queue].owner.process() == Some(process)
        })
    }
}
