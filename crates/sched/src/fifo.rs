//! Lists of requests in the order of their deadlines.
//!
//! Within a level the deadline is submit time plus a constant, so a new
//! request belongs at the end: the list is a FIFO, as in the paper (section
//! 4.1). Only a request that is older than those of its list, or has a deadline of
//! its own, is inserted further ahead: one that was promoted or held back, or is to
//! go sooner. That takes as many steps as there are earlier deadlines. Links are indexed
//! by slot and shared by all lists.

use crate::position::NIL;

#[derive(Clone, Copy)]
struct Entry {
    deadline_ns: u64,
    sequence: u64,
    prev: u32,
    next: u32,
}

/// The entries of all lists of one scheduler.
pub(crate) struct Entries(Vec<Entry>);

impl Entries {
    pub(crate) fn new() -> Entries {
        Entries(Vec::new())
    }

    /// Makes room for slots up to `slots`.
    pub(crate) fn grow(&mut self, slots: usize) {
        let unlinked = Entry {
            deadline_ns: 0,
            sequence: 0,
            prev: NIL,
            next: NIL,
        };
        if self.0.len() < slots {
            self.0.resize(slots, unlinked);
        }
    }

    /// When `slot` should go to the device at the latest.
    pub(crate) fn deadline_ns(&self, slot: u32) -> u64 {
        self.0[slot as usize].deadline_ns
    }

    /// The slot after `slot` in its list, or [`NIL`].
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.0[slot as usize].next
    }

    /// What the lists are sorted by: the deadline, then the arrival.
    pub(crate) fn key(&self, slot: u32) -> (u64, u64) {
        let entry = &self.0[slot as usize];
        (entry.deadline_ns, entry.sequence)
    }

    fn at(&mut self, slot: u32) -> &mut Entry {
        &mut self.0[slot as usize]
    }
}

/// One list.
#[derive(Clone, Copy)]
pub(crate) struct DeadlineList {
    head: u32,
    tail: u32,
}

impl DeadlineList {
    pub(crate) const fn new() -> DeadlineList {
        DeadlineList {
            head: NIL,
            tail: NIL,
        }
    }

    /// The slot with the earliest deadline, or [`NIL`].
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// The slot with the latest deadline, or [`NIL`].
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }

    /// Adds `slot` behind all whose deadline is earlier, and those of the same
    /// deadline that arrived earlier. `sequence` is the number of its arrival.
    pub(crate) fn insert(
        &mut self,
        entries: &mut Entries,
        slot: u32,
        deadline_ns: u64,
        sequence: u64,
    ) {
        let key = (deadline_ns, sequence);
        let at_end = self.tail == NIL || entries.key(self.tail) <= key;
        let next = if at_end {
            NIL
        } else {
            let mut at = self.head;
            while entries.key(at) <= key {
                at = entries.next(at);
            }
            at
        };
        let prev = if next == NIL {
            self.tail
        } else {
            entries.at(next).prev
        };
        *entries.at(slot) = Entry {
            deadline_ns,
            sequence,
            prev,
            next,
        };
        match prev {
            NIL => self.head = slot,
            prev => entries.at(prev).next = slot,
        }
        match next {
            NIL => self.tail = slot,
            next => entries.at(next).prev = slot,
        }
    }

    /// Takes `slot` out. It must be in this list.
    pub(crate) fn remove(&mut self, entries: &mut Entries, slot: u32) {
        let Entry { prev, next, .. } = *entries.at(slot);
        match prev {
            NIL => self.head = next,
            prev => entries.at(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => entries.at(next).prev = prev,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_deadline_order_and_arrival_order_among_equals() {
        let mut entries = Entries::new();
        entries.grow(6);
        let mut list = DeadlineList::new();
        let arrivals = [(0, 10), (1, 20), (5, 5), (3, 20), (4, 15), (2, 5)];
        for (slot, deadline) in arrivals {
            list.insert(&mut entries, slot, deadline, u64::from(slot));
        }
        let mut order = Vec::new();
        while list.head() != NIL {
            order.push(list.head());
            list.remove(&mut entries, list.head());
        }
        assert_eq!(order, [2, 5, 0, 4, 1, 3]);
    }
}
