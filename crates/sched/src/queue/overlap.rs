//! Requests that overlap: which one must wait for which, and that a waiting
//! one makes those it waits for as urgent as itself.

use super::{Place, Queue, Slot, direction, end};
use crate::position::NIL;
use crate::request::{Kind, Level, Request};

impl Queue {
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

    /// Takes a held `slot` out. What waits for it stays chained to it.
    pub(super) fn unhold(&mut self, slot: u32) {
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
}
