//! The requests a scheduler knows: queued, held back, in flight.
//!
//! One slot per outstanding request. A queued one is in one deadline list and,
//! unless it is a sync, in one position tree; which ones depends on the policy
//! (a [`Layout`]). A request that overlaps an earlier outstanding one, where
//! either writes, is held back until that one has completed, so that no
//! overlapping write is ever reordered.

mod overlap;

use crate::config::Policy;
use crate::fifo::{DeadlineList, Entries};
use crate::footprint::Footprint;
use crate::position::{NIL, PositionTree, Positions};
use crate::request::{Direction, Held, Kind, Level, Request, RequestId, Terms};

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
    pub terms: Terms,
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
    /// Held: how many outstanding requests it waits for.
    blockers: u32,
    /// Whether another one was held back for this one.
    is_blocker: bool,
}

/// A transfer in flight, as conflict detection needs it: dense, so that a scan
/// is a few nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct InFlight {
    pub offset: u64,
    pub end: u64,
    pub file: u32,
    pub head: u32,
    pub requests: u32,
    pub kind: Kind,
}

const LISTS: usize = 2 * Level::COUNT;
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
    /// A list per level for reads and another for the rest, a tree per level and
    /// direction.
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
            (Layout::Lanes, kind) => Layout::lane(request.level, kind != Kind::Read),
            (_, Kind::Sync) => BYPASS,
            (Layout::Direction, Kind::Read) => 0,
            (Layout::Direction, Kind::Write) => 1,
            (Layout::Level, _) => request.level.index(),
        }
    }

    /// The list of [`Layout::Lanes`] for the reads of a level, or for its writes
    /// and syncs.
    const fn lane(level: Level, writes: bool) -> usize {
        level.index() + if writes { Level::COUNT } else { 0 }
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
    /// Heads in flight that somebody waits for, in the order in which they went.
    watched: DeadlineList,
    writes_in_flight: u32,
    sequence: u64,
    /// Requests that wait, by their level.
    pub queued: [u32; Level::COUNT],
    /// Requests that wait, by their allocation group.
    pub grouped: [u32; Level::COUNT],
    pub held_count: u32,
    /// Memory of searches for requests that overlap, empty between calls.
    found: Vec<u32>,
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
            watched: DeadlineList::new(),
            writes_in_flight: 0,
            sequence: 0,
            queued: [0; Level::COUNT],
            grouped: [0; Level::COUNT],
            held_count: 0,
            found: Vec::new(),
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

    /// Under [`Layout::Lanes`], the request of `level` with the earliest
    /// deadline, without its reads or its writes and syncs if they are held, or [`NIL`].
    pub(crate) fn oldest(&self, level: Level, held: Held) -> u32 {
        let head = |is_held, writes| match is_held {
            true => NIL,
            false => self.list_head(Layout::lane(level, writes)),
        };
        match (head(held.reads, false), head(held.writes, true)) {
            (NIL, write) => write,
            (read, NIL) => read,
            (read, write) if self.entries.key(write) < self.entries.key(read) => write,
            (read, _) => read,
        }
    }

    /// The earliest deadline that a new request of the same list may have, so
    /// that the list stays a FIFO when the level's offset shrinks; under
    /// [`Layout::Lanes`] the two lists of a level together.
    pub(crate) fn list_deadline_ns_max(&self, request: &Request) -> u64 {
        let latest = |list: usize| match self.lists[list].tail() {
            NIL => 0,
            tail => self.entries.deadline_ns(tail),
        };
        if self.layout == Layout::Lanes {
            let lane = |writes| latest(Layout::lane(request.level, writes));
            lane(false).max(lane(true))
        } else {
            latest(self.layout.list(request))
        }
    }

    /// A slot for a new request, in no list yet.
    pub(crate) fn allocate(&mut self, now_ns: u64, request: Request, terms: Terms) -> u32 {
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
            terms,
            group: request.level,
            generation: entry.generation,
            sequence,
            enqueued_ns: now_ns,
            dispatched_ns: 0,
            member_next: NIL,
            transfer: NIL,
            blockers: 0,
            is_blocker: false,
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
            terms: Terms::default(),
            group: request.level,
            generation: 0,
            sequence: 0,
            enqueued_ns: 0,
            dispatched_ns: 0,
            member_next: NIL,
            transfer: NIL,
            blockers: 0,
            is_blocker: false,
        };
        self.slots.resize(count as usize, unused);
        self.entries.grow(count as usize);
        self.positions.grow(count as usize);
        // What overlaps is at most everything.
        self.found.reserve(count as usize);
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

    /// Removes a request that has not gone to the device.
    pub(crate) fn withdraw(&mut self, slot: u32, deadline: impl Fn(&Slot) -> u64) {
        match self.slot(slot).place {
            Place::Queued => self.unqueue(slot),
            Place::Held => self.unhold(slot),
            place => unreachable!("withdrawing a request that is {place:?}"),
        }
        self.finish(slot, &deadline);
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
            requests: 1,
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

    /// Notes of how many requests the transfer of `head` is made.
    pub(crate) fn set_requests(&mut self, head: u32, requests: u32) {
        let transfer = self.slot(head).transfer as usize;
        self.transfers[transfer].requests = requests;
    }

    /// Requests that the transfer of `head` is made of.
    pub(crate) fn requests(&self, head: u32) -> u32 {
        self.transfers[self.slot(head).transfer as usize].requests
    }

    /// Notes that somebody waits for the transfer of `head`, which goes after
    /// `before` transfers that nobody waits for.
    pub(crate) fn watch(&mut self, head: u32, before: u64) {
        // `before` never falls, so that it belongs at the end.
        self.watched
            .insert(&mut self.entries, head, before, u64::MAX);
    }

    /// Ends what [`watch`](Queue::watch) began.
    pub(crate) fn unwatch(&mut self, head: u32) {
        self.watched.remove(&mut self.entries, head);
    }

    /// Of the watched transfers, the one that went first: how many that nobody
    /// waits for went before it.
    pub(crate) fn before_oldest_watched(&self) -> Option<u64> {
        let head = self.watched.head();
        (head != NIL).then(|| self.deadline_ns(head))
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

    /// Frees `slot`, which is nowhere any more, and queues those that waited
    /// for it and wait for nothing else.
    fn finish(&mut self, slot: u32, deadline: &impl Fn(&Slot) -> u64) {
        self.unblock(slot, deadline);
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
