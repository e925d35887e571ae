//! One disk of the array, with the commands that wait for a place in its
//! queue.

use std::collections::VecDeque;

use super::super::{Command, Done, Model, Rotating};

/// A disk and what the controller keeps for it.
pub(super) struct Member {
    disk: Rotating,
    /// The disk's next event, so as not to ask it each time.
    event_ns: Option<u64>,
    queue: VecDeque<Command>,
    /// Commands queued here or in the disk.
    pub(super) outstanding: usize,
    inside: usize,
    /// Where the last command ends that it was given.
    last_end: u64,
}

impl Member {
    pub(super) fn new(disk: Rotating) -> Member {
        Member {
            disk,
            event_ns: None,
            queue: VecDeque::new(),
            outstanding: 0,
            inside: 0,
            last_end: 0,
        }
    }

    pub(super) fn event_ns(&self) -> Option<u64> {
        self.event_ns
    }

    /// How far the last command given lies from `offset`.
    pub(super) fn distance(&self, offset: u64) -> u64 {
        self.last_end.abs_diff(offset)
    }

    pub(super) fn push(&mut self, now_ns: u64, command: Command) {
        self.outstanding += 1;
        self.last_end = command.offset + u64::from(command.length);
        self.queue.push_back(command);
        self.feed(now_ns);
    }

    pub(super) fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        let before = done.len();
        self.disk.advance(now_ns, done);
        let ended = done.len() - before;
        self.inside -= ended;
        self.outstanding -= ended;
        self.feed(now_ns);
    }

    fn feed(&mut self, now_ns: u64) {
        while self.inside < self.disk.queue_max()
            && let Some(command) = self.queue.pop_front()
        {
            self.inside += 1;
            self.disk.submit(now_ns, command);
        }
        self.event_ns = self.disk.next_event_ns();
    }
}
