//! Requests on their way through the elevator and the disk.

use super::Operation;
use super::events::{Action, Events};
use super::meter::{Gauge, Meter, Occupancy, Spent};
use super::workload::Host;
use crate::elevator::{Dispatched, Elevator, Request, Transfer};
use crate::model::{Command, Done, Kind, Model};
use std::collections::VecDeque;

/// No slot.
const NONE: u32 = u32::MAX;
/// Longer queues in the elevator are not told apart.
const QUEUED_MAX: usize = 4096;

/// A request, or an operation whose requests are its parts.
#[derive(Clone, Copy)]
struct Slot {
    request: Request,
    source: u32,
    thread: u32,
    begun_ns: u64,
    added_ns: u64,
    dispatched_ns: u64,
    /// The next in the same call before it enters, in the same command while
    /// that is in the disk, or in the list of free slots.
    next: u32,
    /// The operation that it is a part of.
    parent: u32,
    /// Parts that have not ended.
    parts: u32,
}

/// A submitting thread.
struct Gate {
    process: u32,
    /// Its processor is busy with calls until then.
    busy_until_ns: u64,
    /// What the elevator does not take yet, in order.
    blocked: VecDeque<u32>,
}

/// An operation that has ended.
#[derive(Clone, Copy)]
pub struct Finished {
    pub source: u32,
    pub thread: u32,
    pub kind: Kind,
}

/// A call that is being put together: a chain of slots.
pub struct Call {
    source: u32,
    thread: u32,
    gate: u32,
    process: u32,
    operations: u64,
    first: u32,
    last: u32,
}

/// Everything but where operations come from.
pub struct Engine<M, E> {
    pub now_ns: u64,
    pub model: M,
    pub elevator: E,
    pub events: Events,
    /// By source.
    pub meters: Vec<Meter>,
    pub commands: u64,
    pub command_bytes: u64,
    pub requests: u64,
    pub in_disk: Occupancy,
    pub in_elevator: Occupancy,
    pub blocked: Gauge,
    host: Host,
    slots: Vec<Slot>,
    free: u32,
    gates: Vec<Gate>,
    /// Gates with something blocked, in the order in which they try again.
    waiting: VecDeque<u32>,
    request_bytes_max: u32,
    queue_max: usize,
    disk_count: usize,
    elevator_count: usize,
    /// The elevator may decide otherwise than when it was last asked.
    changed: bool,
    dispatched: Dispatched,
    ended: Vec<Done>,
}

impl<M: Model, E: Elevator> Engine<M, E> {
    pub fn new(model: M, mut elevator: E, host: Host, sources: usize) -> Engine<M, E> {
        let queue_max = model.queue_max();
        elevator.attach(queue_max);
        let block = model.block_bytes();
        Engine {
            now_ns: 0,
            request_bytes_max: (elevator.request_bytes_max() / block * block).max(block),
            events: Events::default(),
            meters: (0..sources).map(|_| Meter::new()).collect(),
            commands: 0,
            command_bytes: 0,
            requests: 0,
            in_disk: Occupancy::new(queue_max),
            in_elevator: Occupancy::new(QUEUED_MAX),
            blocked: Gauge::default(),
            host,
            slots: Vec::new(),
            free: NONE,
            gates: Vec::new(),
            waiting: VecDeque::new(),
            queue_max,
            disk_count: 0,
            elevator_count: 0,
            changed: false,
            dispatched: Dispatched::default(),
            ended: Vec::new(),
            model,
            elevator,
        }
    }

    /// The gate of a process.
    pub fn gate(&mut self, process: u32) -> u32 {
        let known = self.gates.iter().position(|gate| gate.process == process);
        known.unwrap_or_else(|| {
            self.gates.push(Gate {
                process,
                busy_until_ns: 0,
                blocked: VecDeque::new(),
            });
            self.gates.len() - 1
        }) as u32
    }

    /// When something happens next; `u64::MAX` for never.
    pub fn next_ns(&self) -> u64 {
        let disk_ns = self.model.next_event_ns().unwrap_or(u64::MAX);
        let next_ns = disk_ns.min(self.events.next_ns());
        // A full disk takes nothing, whatever the elevator would like.
        if self.disk_count == self.queue_max {
            return next_ns;
        }
        match self.elevator.next_timer_ns() {
            // It was asked at this instant already.
            Some(timer_ns) => next_ns.min(timer_ns.max(self.now_ns + 1)),
            None => next_ns,
        }
    }

    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.model.advance(now_ns, &mut self.ended);
        self.changed |= self.elevator.next_timer_ns().is_some_and(|at| at <= now_ns);
    }

    pub fn take_ended(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.ended)
    }

    /// Keeps the memory for the next time.
    pub fn return_ended(&mut self, ended: Vec<Done>) {
        self.ended = ended;
    }

    pub fn begin_call(&self, source: u32, thread: u32, gate: u32, process: u32) -> Call {
        Call {
            source,
            thread,
            gate,
            process,
            operations: 0,
            first: NONE,
            last: NONE,
        }
    }

    pub fn add_to_call(&mut self, call: &mut Call, operation: &Operation) {
        call.operations += 1;
        let request = Request {
            kind: operation.kind,
            offset: operation.offset,
            length: operation.length,
            durable: operation.durable,
            process: call.process,
            sync: operation.sync,
            level: operation.level,
        };
        if operation.length <= self.request_bytes_max {
            self.chain(call, request, NONE);
        } else {
            self.split(call, request);
        }
    }

    fn split(&mut self, call: &mut Call, whole: Request) {
        let parts = whole.length.div_ceil(self.request_bytes_max);
        let parent = self.take_slot(call, whole, NONE);
        self.slots[parent as usize].parts = parts;
        for part in 0..parts {
            let begin = part * self.request_bytes_max;
            let request = Request {
                offset: whole.offset + u64::from(begin),
                length: self.request_bytes_max.min(whole.length - begin),
                ..whole
            };
            self.chain(call, request, parent);
        }
    }

    fn chain(&mut self, call: &mut Call, request: Request, parent: u32) {
        let tag = self.take_slot(call, request, parent);
        if call.last == NONE {
            call.first = tag;
        } else {
            self.slots[call.last as usize].next = tag;
        }
        call.last = tag;
    }

    fn take_slot(&mut self, call: &Call, request: Request, parent: u32) -> u32 {
        let slot = Slot {
            request,
            source: call.source,
            thread: call.thread,
            begun_ns: self.now_ns,
            added_ns: 0,
            dispatched_ns: 0,
            next: NONE,
            parent,
            parts: 0,
        };
        if self.free == NONE {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        }
        let tag = self.free;
        let place = &mut self.slots[tag as usize];
        self.free = place.next;
        *place = slot;
        tag
    }

    fn free_slot(&mut self, tag: u32) {
        self.slots[tag as usize].next = self.free;
        self.free = tag;
    }

    /// The call's requests enter when its CPU time has passed.
    pub fn end_call(&mut self, call: Call) {
        let cost_ns = self.host.call_ns + call.operations * self.host.operation_ns;
        if cost_ns == 0 {
            self.enter_all(call.gate, call.first);
            return;
        }
        let gate = &mut self.gates[call.gate as usize];
        gate.busy_until_ns = gate.busy_until_ns.max(self.now_ns) + cost_ns;
        let enter = Action::Enter {
            gate: call.gate,
            first: call.first,
        };
        self.events.plan(gate.busy_until_ns, enter);
    }

    /// A chain of requests comes to the elevator.
    pub fn enter_all(&mut self, gate: u32, first: u32) {
        let mut tag = first;
        while tag != NONE {
            let next = self.slots[tag as usize].next;
            self.enter(gate, tag);
            tag = next;
        }
    }

    fn enter(&mut self, gate: u32, tag: u32) {
        let state = &mut self.gates[gate as usize];
        let behind_others = !state.blocked.is_empty();
        if !behind_others && self.elevator.admits(&self.slots[tag as usize].request) {
            self.add(tag);
            return;
        }
        state.blocked.push_back(tag);
        if !behind_others {
            self.waiting.push_back(gate);
        }
        self.blocked.set(self.now_ns, self.blocked.value() + 1);
    }

    fn add(&mut self, tag: u32) {
        let slot = &mut self.slots[tag as usize];
        slot.added_ns = self.now_ns;
        self.elevator.add(self.now_ns, tag, &slot.request);
        self.elevator_count += 1;
        self.changed = true;
    }

    /// Lets blocked requests in, one of each gate in turn. Returns whether any
    /// came in.
    fn unblock(&mut self) -> bool {
        let mut came_in = false;
        let mut refused = 0;
        while refused < self.waiting.len() {
            let gate = self.waiting[0];
            let state = &mut self.gates[gate as usize];
            let tag = *state
                .blocked
                .front()
                .expect("a waiting gate has something blocked");
            if !self.elevator.admits(&self.slots[tag as usize].request) {
                self.waiting.rotate_left(1);
                refused += 1;
                continue;
            }
            state.blocked.pop_front();
            self.waiting.pop_front();
            if !state.blocked.is_empty() {
                self.waiting.push_back(gate);
            }
            self.blocked.set(self.now_ns, self.blocked.value() - 1);
            self.add(tag);
            came_in = true;
            refused = 0;
        }
        came_in
    }

    /// Hands to the disk what should go now.
    pub fn dispatch(&mut self) {
        if !self.changed {
            return;
        }
        self.changed = false;
        loop {
            if self.disk_count < self.queue_max {
                self.dispatch_once();
            }
            if self.waiting.is_empty() || !self.unblock() {
                break;
            }
        }
        self.changed = false;
        self.in_disk.set(self.now_ns, self.disk_count);
        self.in_elevator.set(self.now_ns, self.elevator_count);
    }

    fn dispatch_once(&mut self) {
        let mut dispatched = std::mem::take(&mut self.dispatched);
        dispatched.clear();
        let room = self.queue_max - self.disk_count;
        self.elevator.dispatch(self.now_ns, room, &mut dispatched);
        let mut members_begin = 0;
        for transfer in &dispatched.transfers {
            let members = &dispatched.members[members_begin..transfer.members_end];
            members_begin = transfer.members_end;
            self.submit(transfer, members);
        }
        self.dispatched = dispatched;
    }

    fn submit(&mut self, transfer: &Transfer, members: &[u32]) {
        debug_assert_eq!(transfer.tag, members[0]);
        let mut next = NONE;
        for &tag in members.iter().rev() {
            let slot = &mut self.slots[tag as usize];
            slot.dispatched_ns = self.now_ns;
            slot.next = next;
            next = tag;
        }
        self.elevator_count -= members.len();
        self.disk_count += 1;
        self.commands += 1;
        self.command_bytes += u64::from(transfer.length);
        self.model.submit(
            self.now_ns,
            Command {
                tag: transfer.tag,
                kind: transfer.kind,
                offset: transfer.offset,
                length: transfer.length,
                durable: transfer.durable && transfer.kind == Kind::Write,
            },
        );
    }

    /// A command has ended; the first of its requests.
    pub fn end_command(&mut self, tag: u32) -> Option<u32> {
        self.elevator.complete(self.now_ns, tag);
        self.disk_count -= 1;
        self.changed = true;
        Some(tag)
    }

    /// A request has ended: the next of the same command, and the operation
    /// that has ended with it, if any.
    pub fn end_request(&mut self, tag: u32) -> (Option<u32>, Option<Finished>) {
        self.requests += 1;
        let slot = self.slots[tag as usize];
        self.free_slot(tag);
        let next = (slot.next != NONE).then_some(slot.next);
        let operation = if slot.parent == NONE {
            slot
        } else {
            let parent = &mut self.slots[slot.parent as usize];
            parent.parts -= 1;
            if parent.parts > 0 {
                return (next, None);
            }
            let parent = *parent;
            self.free_slot(slot.parent);
            parent
        };
        let spent = Spent {
            latency_ns: self.now_ns - operation.begun_ns,
            // Of several parts, the last one's: that is what was waited for.
            queued_ns: slot.dispatched_ns - slot.added_ns,
            disk_ns: self.now_ns - slot.dispatched_ns,
        };
        let meter = &mut self.meters[operation.source as usize];
        meter.end(self.now_ns, operation.request.length, spent);
        let finished = Finished {
            source: operation.source,
            thread: operation.thread,
            kind: operation.request.kind,
        };
        (next, Some(finished))
    }

    pub fn restart_meters(&mut self) {
        for meter in &mut self.meters {
            meter.restart(self.now_ns);
        }
        self.in_disk.restart(self.now_ns);
        self.in_elevator.restart(self.now_ns);
        self.blocked.restart(self.now_ns);
        (self.commands, self.command_bytes, self.requests) = (0, 0, 0);
    }

    /// The measurements up to now.
    pub fn take_meters(&mut self) -> Vec<Meter> {
        for meter in &mut self.meters {
            meter.outstanding.settle(self.now_ns);
        }
        self.in_disk.settle(self.now_ns);
        self.in_elevator.settle(self.now_ns);
        self.blocked.settle(self.now_ns);
        std::mem::take(&mut self.meters)
    }
}
