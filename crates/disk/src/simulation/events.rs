//! What happens outside of the disk and the elevator, in order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A stream has thought, or operations arrive: it submits.
    Wake { source: u32 },
    /// A thread of transactions goes on.
    Thread { source: u32, thread: u32 },
    /// A call's CPU time has passed: its requests, chained from `first`, enter.
    Enter { gate: u32, first: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    at_ns: u64,
    /// Events of one instant happen in the order in which they were planned.
    number: u64,
    action: Action,
}

impl Ord for Event {
    /// The heap gives the greatest first: the earliest must be that.
    fn cmp(&self, other: &Event) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Event>,
    planned: u64,
}

impl Events {
    pub fn plan(&mut self, at_ns: u64, action: Action) {
        let number = self.planned;
        self.planned += 1;
        self.heap.push(Event {
            at_ns,
            number,
            action,
        });
    }

    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |event| event.at_ns)
    }

    pub fn take_due(&mut self, now_ns: u64) -> Option<Action> {
        if self.next_ns() > now_ns {
            return None;
        }
        self.heap.pop().map(|event| event.action)
    }
}
