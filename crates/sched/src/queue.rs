//! The requests a scheduler knows: queued, held back, in flight.
//!
//! One slot per outstanding request. A queued one is in one deadline list and,
//! unless it is a sync, in one position tree; which ones depends on the policy
//! (a [`Layout`]). A request that overlaps an earlier outstanding one, where
//! either writes, is held back until that one has completed, so that no
//! overlapping write is ever reordered.

use crate::config::Policy;
use crate::fifo::{DeadlineList, Entries};
use crate::footprint::Footprint;
use crate::position::{NIL, PositionTree, Positions};
use crate::request::{Direction, Kind, Level, Request, RequestId};

/// Where an outstanding request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: the slot is unused.
    Free,
    /// In a deadline list.
    Queued,
    /// Behind an earlier request that it overlaps.
    Held,
    /// With the device, as the first of a transfer.
    Head,
    /// With the device, inside the transfer of another request.
    Member,
}

#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub request: Request,
    pub place: Place,
    /// The allocation group it counts against while it waits: the level it
    /// came with, whatever it was promoted to. Otherwise a stream of requests,
    /// each promoted, would grow the queue without bound.
    group: Level,
    pub generation: u32,
    pub sequence: u64,
    pub enqueued_ns: u64,
    pub dispatched_ns: u64,
    /// Next request of the same transfer, in position order.
    pub member_next: u32,
    /// Head: where its transfer is in `Queue::transfers`.
    pub transfer: u32,
    /// Held: the request it waits for, and the next one that waits for it too.
    waits_for: u32,
    waiter_next: u32,
    /// The first request that waits for this one.
    waiter_first: u32,
}

/// A transfer in flight, as conflict detection needs it: dense, so that a scan
/// is a few nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct InFlight {
    pub offset: u64,
    pub end: u64,
    pub file: u32,
    pub head: u32,
    pub cost_ns: u64,
    pub kind: Kind,
}

const LISTS: usize = 6;
const TREES: usize = 2 * Level::COUNT;
/// The list for syncs under policies that do not order them.
pub(crate) const BYPASS: usize = 5;

/// Which list and tree a queued request is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// One list, a tree per direction.
    Arrival,
    /// A list and a tree per direction.
    Direction,
    /// A list per level, a tree per direction.
    Level,
    /// A list per level, a tree per level and direction.
    Lanes,
}

impl Layout {
    pub(crate) const fn of(policy: Policy) -> Layout {
        match policy {
            Policy::Noop => Layout::Arrival,
            Policy::Deadline => Layout::Direction,
            Policy::PrioDeadline => Layout::Level,
            Policy::Lanes => Layout::Lanes,
        }
    }

    pub(crate) fn list(self, request: &Request) -> usize {
        match (self, request.kind) {
            (Layout::Arrival, _) => 0,
            (Layout::Lanes, _) => request.level.index(),
            (_, Kind::Sync) => BYPASS,
            (Layout::Direction, Kind::Read) => 0,
            (Layout::Direction, Kind::Write) => 1,
            (Layout::Level, _) => request.level.index(),
        }
    }

    pub(crate) fn tree(self, level: Level, direction: Direction) -> usize {
        match self {
            Layout::Lanes => level.index() * 2 + direction as usize,
            _ => direction as usize,
        }
    }
}

pub(crate) struct Queue {
    pub layout: Layout,
    slots: Vec<Slot>,
    free: Vec<u32>,
    entries: Entries,
    pub positions: Positions,
    lists: [DeadlineList; LISTS],
    trees: [PositionTree; TREES],
    held: [PositionTree; 2],
    /// The ranges of all outstanding requests.
    footprint: Footprint,
    pub transfers: Vec<InFlight>,
    writes_in_flight: u32,
    sequence: u64,
    /// Requests that wait, by their level.
    pub queued: [u32; Level::COUNT],
    /// Requests that wait, by their allocation group.
    pub grouped: [u32; Level::COUNT],
    pub held_count: u32,
    /// Memory of [`Queue::raise_blockers`], empty between calls.
    to_raise: Vec<u32>,
}

pub(crate) fn direction(kind: Kind) -> Option<Direction> {
    match kind {
        Kind::Read => Some(Direction::Read),
        Kind::Write => Some(Direction::Write),
        Kind::Sync => None,
    }
}

fn end(request: &Request) -> u64 {
    request.offset + u64::from(request.length)
}

impl Queue {
    pub(crate) fn new(layout: Layout) -> Queue {
        Queue {
            layout,
            slots: Vec::new(),
            free: Vec::new(),
            entries: Entries::new(),
            positions: Positions::new(),
            lists: [DeadlineList::new(); LISTS],
            trees: [PositionTree::new(); TREES],
            held: [PositionTree::new(); 2],
            footprint: Footprint::new(),
            transfers: Vec::new(),
            writes_in_flight: 0,
            sequence: 0,
            queued: [0; Level::COUNT],
            grouped: [0; Level::COUNT],
            held_count: 0,
            to_raise: Vec::new(),
        }
    }

    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    pub(crate) fn id(&self, slot: u32) -> RequestId {
        RequestId {
            slot,
            generation: self.slot(slot).generation,
        }
    }

    /// The slot of `id`, if that request is still outstanding.
    pub(crate) fn find(&self, id: RequestId) -> Option<u32> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.generation == id.generation && slot.place != Place::Free).then_some(id.slot)
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn slots_allocated(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn deadline_ns(&self, slot: u32) -> u64 {
        self.entries.deadline_ns(slot)
    }

    pub(crate) fn list_head(&self, list: usize) -> u32 {
        self.lists[list].head()
    }

    pub(crate) fn tree(&self, tree: usize) -> &PositionTree {
        &self.trees[tree]
    }

    /// The earliest deadline that a new request of the same list may have, so
    /// that the list stays a FIFO when the level's offset shrinks.
    pub(crate) fn list_deadline_ns_max(&self, request: &Request) -> u64 {
        match self.lists[self.layout.list(request)].tail() {
            NIL => 0,
            tail => self.entries.deadline_ns(tail),
        }
    }

    /// A slot for a new request, in no list yet.
    pub(crate) fn allocate(&mut self, now_ns: u64, request: Request) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow(request),
        };
        if let Some(direction) = direction(request.kind) {
            self.footprint.add(&request, direction);
        }
        self.sequence += 1;
        let sequence = self.sequence;
        let entry = self.slot_mut(slot);
        *entry = Slot {
            request,
            place: Place::Free,
            group: request.level,
            generation: entry.generation,
            sequence,
            enqueued_ns: now_ns,
            dispatched_ns: 0,
            member_next: NIL,
            transfer: NIL,
            waits_for: NIL,
            waiter_next: NIL,
            waiter_first: NIL,
        };
        slot
    }

    /// Doubles the tables. Amortised: they follow the most requests ever
    /// outstanding at once.
    fn grow(&mut self, request: Request) -> u32 {
        let first = self.slots.len() as u32;
        let count = (first * 2).max(64);
        let unused = Slot {
            request,
            place: Place::Free,
            group: request.level,
            generation: 0,
            sequence: 0,
            enqueued_ns: 0,
            dispatched_ns: 0,
            member_next: NIL,
            transfer: NIL,
            waits_for: NIL,
            waiter_next: NIL,
            waiter_first: NIL,
        };
        self.slots.resize(count as usize, unused);
        self.entries.grow(count as usize);
        self.positions.grow(count as usize);
        self.free.extend((first + 1..count).rev());
        first
    }

    /// Makes the slot unused and its id stale.
    fn release(&mut self, slot: u32) {
        let request = self.slot(slot).request;
        if let Some(direction) = direction(request.kind) {
            self.footprint.remove(&request, direction);
        }
        let entry = self.slot_mut(slot);
        entry.place = Place::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
    }

    /// A request earlier than `sequence` that `request` must not overtake: one
    /// outstanding that it overlaps, where either writes.
    pub(crate) fn conflict(&self, request: &Request, sequence: u64) -> Option<u32> {
        if !self
            .footprint
            .may_conflict(request, direction(request.kind)?)
        {
            return None;
        }
        let (start, end) = (request.offset, end(request));
        let writes_only = request.kind == Kind::Read;

        if !self.transfers.is_empty() && (!writes_only || self.writes_in_flight > 0) {
            let clash = self
                .transfers
                .iter()
                .filter(|transfer| {
                    transfer.file == request.file
                        && transfer.offset < end
                        && transfer.end > start
                        && (transfer.kind == Kind::Write || request.kind == Kind::Write)
                        && transfer.kind != Kind::Sync
                })
                .find_map(|transfer| self.member_overlapping(transfer.head, start, end));
            if clash.is_some() {
                return clash;
            }
        }
        self.conflict_waiting(request, |slot| self.slot(slot).sequence < sequence)
    }

    /// A request of the transfer of `head` that overlaps `start..end`. What is
    /// read in a gap is thrown away, so a write there need not wait: it would
    /// do so for ever behind a stream of reads that read through it.
    fn member_overlapping(&self, head: u32, start: u64, stop: u64) -> Option<u32> {
        let mut at = head;
        while at != NIL {
            let Slot {
                request,
                member_next,
                ..
            } = self.slot(at);
            if request.offset < stop && end(request) > start {
                return Some(at);
            }
            at = *member_next;
        }
        None
    }

    /// The part of [`conflict`](Queue::conflict) that looks at what has not
    /// gone to the device: the first one that `accept` takes.
    fn conflict_waiting(
        &self,
        request: &Request,
        mut accept: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let writes_only = request.kind == Kind::Read;
        let first = if writes_only { 1 } else { 0 };
        let step = if writes_only { 2 } else { 1 };
        let queued = self.trees.iter().skip(first).step_by(step);
        let held = self.held.iter().skip(first);
        queued
            .chain(held)
            .filter(|tree| !tree.is_empty())
            .find_map(|tree| {
                tree.overlapping(
                    &self.positions,
                    request.file,
                    request.offset,
                    end(request),
                    &mut accept,
                )
            })
    }

    /// Puts `slot` behind `blocker`.
    pub(crate) fn hold(&mut self, slot: u32, blocker: u32) {
        let request = self.slot(slot).request;
        let direction = direction(request.kind).expect("a sync overlaps nothing");
        self.held[direction as usize].insert(
            &mut self.positions,
            slot,
            request.file,
            request.offset,
            end(&request),
        );
        self.held_count += 1;
        self.count(slot);
        self.slot_mut(slot).place = Place::Held;
        self.chain(slot, blocker);
    }

    fn chain(&mut self, slot: u32, blocker: u32) {
        let next = self.slot(blocker).waiter_first;
        let entry = self.slot_mut(slot);
        entry.waits_for = blocker;
        entry.waiter_next = next;
        self.slot_mut(blocker).waiter_first = slot;
    }

    /// Queues `slot` with a deadline.
    pub(crate) fn queue(&mut self, slot: u32, deadline_ns: u64) {
        let Slot {
            request, sequence, ..
        } = *self.slot(slot);
        let list = &mut self.lists[self.layout.list(&request)];
        list.insert(&mut self.entries, slot, deadline_ns, sequence);
        if let Some(direction) = direction(request.kind) {
            self.trees[self.layout.tree(request.level, direction)].insert(
                &mut self.positions,
                slot,
                request.file,
                request.offset,
                end(&request),
            );
        }
        self.count(slot);
        self.slot_mut(slot).place = Place::Queued;
    }

    /// Counts `slot` among those that wait.
    fn count(&mut self, slot: u32) {
        let (level, group) = (self.slot(slot).request.level, self.slot(slot).group);
        self.queued[level.index()] += 1;
        self.grouped[group.index()] += 1;
    }

    fn uncount(&mut self, slot: u32) {
        let (level, group) = (self.slot(slot).request.level, self.slot(slot).group);
        self.queued[level.index()] -= 1;
        self.grouped[group.index()] -= 1;
    }

    /// Takes a queued `slot` out of its list and tree.
    pub(crate) fn unqueue(&mut self, slot: u32) {
        let request = self.slot(slot).request;
        debug_assert_eq!(self.slot(slot).place, Place::Queued);
        self.lists[self.layout.list(&request)].remove(&mut self.entries, slot);
        if let Some(direction) = direction(request.kind) {
            self.trees[self.layout.tree(request.level, direction)]
                .remove(&mut self.positions, slot);
        }
        self.uncount(slot);
    }

    /// Takes a held `slot` out. What waits for it stays chained to it.
    fn unhold(&mut self, slot: u32) {
        let entry = *self.slot(slot);
        let direction = direction(entry.request.kind).expect("a sync is never held");
        self.held[direction as usize].remove(&mut self.positions, slot);
        self.held_count -= 1;
        self.uncount(slot);
        let mut at = self.slot(entry.waits_for).waiter_first;
        if at == slot {
            self.slot_mut(entry.waits_for).waiter_first = entry.waiter_next;
            return;
        }
        while self.slot(at).waiter_next != slot {
            at = self.slot(at).waiter_next;
        }
        self.slot_mut(at).waiter_next = entry.waiter_next;
    }

    /// Removes a request that has not gone to the device.
    pub(crate) fn withdraw(&mut self, slot: u32, deadline: impl Fn(&Slot) -> u64) {
        match self.slot(slot).place {
            Place::Queued => self.unqueue(slot),
            Place::Held => self.unhold(slot),
            place => unreachable!("withdrawing a request that is {place:?}"),
        }
        self.finish(slot, &deadline);
    }

    /// Gives a more urgent level to a request that has not gone to the device,
    /// and to all that it waits for.
    pub(crate) fn raise(&mut self, slot: u32, level: Level, deadline: impl Fn(&Slot) -> u64) {
        let mut raised = *self.slot(slot);
        raised.request.level = level;
        self.relevel(slot, level, deadline(&raised));
        self.raise_blockers(slot, deadline);
    }

    /// Gives the level of `slot` to every request that it waits for, at one or
    /// more removes, so that a low one never keeps a high one (priority
    /// inheritance). A held request is chained to only one of those that it
    /// overlaps; all of them must be hurried, or they would go one after the
    /// other, each at its low level.
    pub(crate) fn raise_blockers(&mut self, slot: u32, deadline: impl Fn(&Slot) -> u64) {
        let level = self.slot(slot).request.level;
        let mut todo = std::mem::take(&mut self.to_raise);
        todo.push(slot);
        while let Some(slot) = todo.pop() {
            // What is queued waits for nothing.
            if self.slot(slot).place != Place::Held {
                continue;
            }
            let first = todo.len();
            self.lower_blockers(slot, level, &mut todo);
            for &blocker in &todo[first..] {
                let mut raised = *self.slot(blocker);
                raised.request.level = level;
                self.relevel(blocker, level, deadline(&raised));
            }
        }
        self.to_raise = todo;
    }

    /// Appends the requests that `slot` waits for, that have not gone to the
    /// device and are less urgent than `level`.
    fn lower_blockers(&self, slot: u32, level: Level, blockers: &mut Vec<u32>) {
        let Slot {
            request, sequence, ..
        } = *self.slot(slot);
        let _ = self.conflict_waiting(&request, |at| {
            let entry = self.slot(at);
            if entry.sequence < sequence && entry.request.level > level {
                blockers.push(at);
            }
            false
        });
    }

    /// Makes the level of `slot` more urgent. Under a policy with levels it goes into the list of the new level, by
    /// `deadline_ns` or the deadline it has, whichever is earlier; under the
    /// others it stays where it is.
    fn relevel(&mut self, slot: u32, level: Level, deadline_ns: u64) {
        let entry = self.slot(slot);
        let raised = Request {
            level,
            ..entry.request
        };
        let moves = entry.place == Place::Queued
            && self.layout.list(&entry.request) != self.layout.list(&raised);
        if moves {
            let deadline_ns = deadline_ns.min(self.deadline_ns(slot));
            self.unqueue(slot);
            self.slot_mut(slot).request.level = level;
            self.queue(slot, deadline_ns);
        } else {
            let old = entry.request.level;
            self.queued[old.index()] -= 1;
            self.queued[level.index()] += 1;
            self.slot_mut(slot).request.level = level;
        }
    }

    /// Notes that `head`, taken out of its list, is now a transfer that ends
    /// at `end`. Members are linked from it already.
    pub(crate) fn depart(&mut self, now_ns: u64, head: u32, end: u64) {
        let request = self.slot(head).request;
        let transfer = self.transfers.len() as u32;
        let entry = self.slot_mut(head);
        entry.place = Place::Head;
        entry.transfer = transfer;
        entry.dispatched_ns = now_ns;
        self.transfers.push(InFlight {
            offset: request.offset,
            end,
            file: request.file,
            head,
            cost_ns: 0,
            kind: request.kind,
        });
        if request.kind == Kind::Write {
            self.writes_in_flight += 1;
        }
    }

    /// Links `slot`, taken out of its list, behind `last` of a transfer.
    pub(crate) fn ride(&mut self, now_ns: u64, last: u32, slot: u32) {
        self.slot_mut(last).member_next = slot;
        let entry = self.slot_mut(slot);
        entry.place = Place::Member;
        entry.dispatched_ns = now_ns;
    }

    /// Gives the first request of a transfer the most urgent level in it.
    pub(crate) fn set_level(&mut self, head: u32, level: Level) {
        self.slot_mut(head).request.level = level;
    }

    /// Notes what the transfer of `head` is expected to cost the device.
    pub(crate) fn set_cost(&mut self, head: u32, cost_ns: u64) {
        let transfer = self.slot(head).transfer as usize;
        self.transfers[transfer].cost_ns = cost_ns;
    }

    /// What was noted with [`set_cost`](Queue::set_cost).
    pub(crate) fn cost_ns(&self, head: u32) -> u64 {
        self.transfers[self.slot(head).transfer as usize].cost_ns
    }

    /// Bytes of the transfer of `head`, gaps included.
    pub(crate) fn transfer_length(&self, head: u32) -> u32 {
        let transfer = &self.transfers[self.slot(head).transfer as usize];
        (transfer.end - transfer.offset) as u32
    }

    /// Ends the transfer of `head`: frees its slots, queues what waited for
    /// them with the deadline that `deadline` gives.
    pub(crate) fn arrive(&mut self, head: u32, deadline: impl Fn(&Slot) -> u64) {
        let entry = *self.slot(head);
        let transfer = self.transfers.swap_remove(entry.transfer as usize);
        if let Some(moved) = self.transfers.get(entry.transfer as usize) {
            let moved = moved.head;
            self.slot_mut(moved).transfer = entry.transfer;
        }
        if transfer.kind == Kind::Write {
            self.writes_in_flight -= 1;
        }
        let mut slot = head;
        while slot != NIL {
            let next = self.slot(slot).member_next;
            self.finish(slot, &deadline);
            slot = next;
        }
    }

    /// Frees `slot`, which is nowhere any more, and moves those that waited
    /// for it: into the queue, or behind another request that they overlap.
    fn finish(&mut self, slot: u32, deadline: &impl Fn(&Slot) -> u64) {
        while self.slot(slot).waiter_first != NIL {
            let waiter = self.slot(slot).waiter_first;
            self.unhold(waiter);
            let Slot {
                request, sequence, ..
            } = *self.slot(waiter);
            match self.conflict(&request, sequence) {
                Some(blocker) => self.hold(waiter, blocker),
                None => {
                    let deadline_ns = deadline(self.slot(waiter));
                    self.queue(waiter, deadline_ns);
                }
            }
        }
        self.release(slot);
    }

    /// Moves every queued request into the lists and trees of another layout.
    pub(crate) fn set_layout(&mut self, layout: Layout, deadline: impl Fn(&Slot) -> u64) {
        let mut queued: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|&slot| self.slot(slot).place == Place::Queued)
            .collect();
        // In the order of the lists, so that each belongs at an end.
        queued.sort_unstable_by_key(|&slot| {
            let entry = self.slot(slot);
            (deadline(entry), entry.sequence)
        });
        for &slot in &queued {
            self.unqueue(slot);
        }
        self.layout = layout;
        for slot in queued {
            let deadline_ns = deadline(self.slot(slot));
            self.queue(slot, deadline_ns);
        }
    }
}
