//! Requests that overlap: which one must wait for which, and that a waiting
//! one makes those it waits for as urgent as itself.

use super::{Place, Queue, Slot, direction, end};
use crate::position::NIL;
use crate::request::{Direction, Kind, Level, Request};

/// What a new request must wait for.
#[derive(Clone, Copy)]
pub(crate) struct Blockers {
    pub count: u32,
    /// Whether one of them is less urgent than the new one. Spares the search
    /// for those to hurry in a storm of writes to one block.
    pub less_urgent: bool,
}

impl Queue {
    /// Whether an outstanding request must go before `request`, which comes
    /// now.
    pub(crate) fn is_blocked(&self, request: &Request) -> bool {
        self.may_be_blocked(request) && self.any_blocker(request, |_| true)
    }

    /// Finds the outstanding requests that must go before `request`, which
    /// comes now and is held back if there are any.
    pub(crate) fn mark_blockers(&mut self, request: &Request) -> Blockers {
        let mut blockers = Blockers {
            count: 0,
            less_urgent: false,
        };
        if !self.may_be_blocked(request) {
            return blockers;
        }
        let mut found = std::mem::take(&mut self.found);
        self.any_blocker(request, |at| {
            found.push(at);
            false
        });
        blockers.count = found.len() as u32;
        for blocker in found.drain(..) {
            let entry = self.slot_mut(blocker);
            entry.is_blocker = true;
            blockers.less_urgent |= entry.request.level > request.level;
        }
        self.found = found;
        blockers
    }

    /// The cheap half of the search: nearly always, nothing may.
    fn may_be_blocked(&self, request: &Request) -> bool {
        direction(request.kind)
            .is_some_and(|direction| self.footprint.may_conflict(request, direction))
    }

    /// Calls `accept` for each outstanding request that `request` overlaps,
    /// where either writes, until it says `true`; whether it did.
    fn any_blocker(&self, request: &Request, mut accept: impl FnMut(u32) -> bool) -> bool {
        self.any_blocker_in_flight(request, &mut accept)
            || self.any_blocker_waiting(request, accept)
    }

    /// The part of [`any_blocker`](Queue::any_blocker) that looks at what has
    /// gone to the device.
    fn any_blocker_in_flight(
        &self,
        request: &Request,
        accept: &mut impl FnMut(u32) -> bool,
    ) -> bool {
        let (start, stop) = (request.offset, end(request));
        if request.kind == Kind::Read && self.writes_in_flight == 0 {
            return false;
        }
        self.transfers
            .iter()
            .filter(|transfer| {
                transfer.file == request.file
                    && transfer.offset < stop
                    && transfer.end > start
                    && (transfer.kind == Kind::Write || request.kind == Kind::Write)
                    && transfer.kind != Kind::Sync
            })
            .any(|transfer| self.any_member_overlapping(transfer.head, start, stop, accept))
    }

    /// Calls `accept` for each request of the transfer of `head` that overlaps
    /// `start..stop`, until it says `true`. What is read in a gap is thrown
    /// away, so a write there need not wait: it would do so for ever behind a
    /// stream of reads that read through it.
    fn any_member_overlapping(
        &self,
        head: u32,
        start: u64,
        stop: u64,
        accept: &mut impl FnMut(u32) -> bool,
    ) -> bool {
        let mut at = head;
        while at != NIL {
            let Slot {
                request,
                member_next,
                ..
            } = self.slot(at);
            if request.offset < stop && end(request) > start && accept(at) {
                return true;
            }
            at = *member_next;
        }
        false
    }

    /// The part of [`any_blocker`](Queue::any_blocker) that looks at what has
    /// not gone to the device.
    fn any_blocker_waiting(&self, request: &Request, mut accept: impl FnMut(u32) -> bool) -> bool {
        let writes_only = request.kind == Kind::Read;
        let first = if writes_only { 1 } else { 0 };
        let step = if writes_only { 2 } else { 1 };
        let queued = self.trees.iter().skip(first).step_by(step);
        let held = self.held.iter().skip(first);
        queued
            .chain(held)
            .filter(|tree| !tree.is_empty())
            .any(|tree| {
                let (start, stop) = (request.offset, end(request));
                tree.overlapping(&self.positions, request.file, start, stop, &mut accept)
                    .is_some()
            })
    }

    /// Keeps `slot` back until `blockers` requests have finished.
    pub(crate) fn hold(&mut self, slot: u32, blockers: u32) {
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
        let entry = self.slot_mut(slot);
        entry.place = Place::Held;
        entry.blockers = blockers;
    }

    /// Takes a held `slot` out.
    pub(super) fn unhold(&mut self, slot: u32) {
        let request = self.slot(slot).request;
        let direction = direction(request.kind).expect("a sync is never held");
        self.held[direction as usize].remove(&mut self.positions, slot);
        self.held_count -= 1;
        self.uncount(slot);
    }

    /// Tells those that wait for `slot`, which is nowhere any more, and queues
    /// the ones that wait for nothing else. They are found by their range, as
    /// a request may wait for any number of others. Each is looked at once:
    /// what it still waits for it knows by number.
    pub(super) fn unblock(&mut self, slot: u32, deadline: &impl Fn(&Slot) -> u64) {
        let Slot {
            request,
            sequence,
            is_blocker,
            ..
        } = *self.slot(slot);
        if !is_blocker {
            return;
        }
        let first = match request.kind {
            // A read keeps only writes back.
            Kind::Read => Direction::Write,
            Kind::Write | Kind::Sync => Direction::Read,
        };
        let mut free = std::mem::take(&mut self.found);
        let slots = &mut self.slots;
        for tree in &self.held[first as usize..] {
            let (start, stop) = (request.offset, end(&request));
            tree.overlapping(&self.positions, request.file, start, stop, |at| {
                let waiter = &mut slots[at as usize];
                // A withdrawn request may have waited for others itself.
                if waiter.sequence > sequence {
                    waiter.blockers -= 1;
                    if waiter.blockers == 0 {
                        free.push(at);
                    }
                }
                false
            });
        }
        for waiter in free.drain(..) {
            self.unhold(waiter);
            let deadline_ns = deadline(self.slot(waiter));
            self.queue(waiter, deadline_ns);
        }
        self.found = free;
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
    /// inheritance).
    pub(crate) fn raise_blockers(&mut self, slot: u32, deadline: impl Fn(&Slot) -> u64) {
        let level = self.slot(slot).request.level;
        let mut todo = std::mem::take(&mut self.found);
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
        self.found = todo;
    }

    /// Appends the requests that `slot` waits for, that have not gone to the
    /// device and are less urgent than `level`.
    fn lower_blockers(&self, slot: u32, level: Level, blockers: &mut Vec<u32>) {
        let Slot {
            request, sequence, ..
        } = *self.slot(slot);
        self.any_blocker_waiting(&request, |at| {
            let entry = self.slot(at);
            if entry.sequence < sequence && entry.request.level > level {
                blockers.push(at);
            }
            false
        });
    }

    /// Makes the level of `slot` more urgent. Under a policy with levels it
    /// goes into the list of the new level, by `deadline_ns` or the deadline it
    /// has, whichever is earlier; under the others it stays where it is.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Layout;
    use crate::request::Terms;

    /// Writes one block `count` times, in the order of arrival. Returns the
    /// most nodes looked at in one completion.
    fn looks_max(count: u64) -> u64 {
        let mut queue = Queue::new(Layout::Arrival);
        let request = Request {
            kind: Kind::Write,
            file: 0,
            offset: 1 << 20,
            length: 4096,
            level: Level::Normal,
            durable: false,
        };
        for _ in 0..count {
            let blockers = queue.mark_blockers(&request);
            let slot = queue.allocate(0, request, Terms::default());
            match blockers.count {
                0 => queue.queue(slot, 0),
                count => queue.hold(slot, count),
            }
        }
        let mut looks_max = 0;
        for done in 1..=count {
            let slot = queue.list_head(0);
            assert_eq!(queue.slot(slot).sequence, done);
            queue.unqueue(slot);
            queue.depart(0, slot, end(&request));
            let before = queue.positions.looks.get();
            queue.arrive(slot, |_| 0);
            looks_max = looks_max.max(queue.positions.looks.get() - before);
        }
        assert_eq!(queue.outstanding(), 0);
        looks_max
    }

    #[test]
    fn a_completion_looks_at_each_that_waits_once() {
        let waiting = if cfg!(miri) { 400 } else { 2000 };
        let looks = looks_max(waiting);
        // Besides, a descent and one request that leaves one tree for another.
        assert!(looks < waiting + 200, "{looks} looks for {waiting}");
    }
}
