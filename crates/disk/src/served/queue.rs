//! A model behind the queue of its host.

use std::collections::VecDeque;

use crate::model::{Command, Done, Model};

/// What a model says of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has begun, and will end then, if nothing comes between.
    WillEnd(Done),
    /// It has ended.
    Ended(Done),
}

impl Said {
    /// What has ended, of what was said.
    pub fn ended(self) -> Option<Done> {
        match self {
            Said::Ended(done) => Some(done),
            Said::WillEnd(_) => None,
        }
    }
}

/// Gives a model no more commands than it takes at once; the others wait
/// their turn, first come, first served. The same for the disk that is served
/// and for the calculation of what it should have done.
pub struct Queue {
    model: Box<dyn Model>,
    held_back: VecDeque<Command>,
    in_model: usize,
    now_ns: u64,
    ended: Vec<Done>,
}

impl Queue {
    /// A queue with nothing in it.
    pub fn new(model: Box<dyn Model>) -> Queue {
        Queue {
            model,
            held_back: VecDeque::new(),
            in_model: 0,
            now_ns: 0,
            ended: Vec::new(),
        }
    }

    /// The disk itself.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// Nothing is outstanding.
    pub fn is_idle(&self) -> bool {
        self.in_model == 0
    }

    /// Up to where time has gone.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Takes a command at `at_ns`, or now if that has passed. What is said
    /// until then, and of it, is appended to `said`.
    ///
    /// # Panics
    /// As [`Model::submit`], but for the length of the queue.
    pub fn submit(&mut self, at_ns: u64, command: Command, said: &mut Vec<Said>) {
        self.advance(at_ns, said);
        if self.in_model < self.model.queue_max() {
            self.begin(command, said);
        } else {
            self.held_back.push_back(command);
        }
    }

    /// As [`Model::next_event_ns`].
    pub fn next_event_ns(&self) -> Option<u64> {
        self.model.next_event_ns()
    }

    /// Lets everything happen that is due until `until_ns`, event by event: a
    /// command that was held back goes to the disk at the very instant at
    /// which another made room, however late the caller is.
    pub fn advance(&mut self, until_ns: u64, said: &mut Vec<Said>) {
        self.run_events(until_ns, said);
        if self.now_ns < until_ns {
            self.step(until_ns, said);
        }
    }

    /// The same, but time goes on only to the last event: commands can still
    /// come after it, however far `until_ns` is ahead.
    pub fn run_events(&mut self, until_ns: u64, said: &mut Vec<Said>) {
        while let Some(event_ns) = self.model.next_event_ns()
            && event_ns <= until_ns
        {
            self.step(event_ns, said);
        }
    }

    fn begin(&mut self, command: Command, said: &mut Vec<Said>) {
        self.in_model += 1;
        self.model.submit(self.now_ns, command);
        if let Some(at_ns) = self.model.foreseen_ns() {
            let tag = command.tag;
            said.push(Said::WillEnd(Done { tag, at_ns }));
        }
    }

    fn step(&mut self, to_ns: u64, said: &mut Vec<Said>) {
        self.now_ns = self.now_ns.max(to_ns);
        self.model.advance(self.now_ns, &mut self.ended);
        self.in_model -= self.ended.len();
        said.extend(self.ended.drain(..).map(Said::Ended));
        while self.in_model < self.model.queue_max()
            && let Some(command) = self.held_back.pop_front()
        {
            self.begin(command, said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Constant, ConstantParameters, Kind};

    fn queue(queue_max: usize) -> Queue {
        let parameters = ConstantParameters {
            capacity_bytes: 1 << 20,
            queue_max,
            latency_ns: 100,
        };
        Queue::new(Box::new(Constant::new(parameters).unwrap()))
    }

    fn command(tag: u32) -> Command {
        Command {
            tag,
            kind: Kind::Read,
            offset: 0,
            length: 512,
            durable: false,
        }
    }

    fn ends(said: &[Said]) -> Vec<(u32, u64)> {
        let ended = said.iter().filter_map(|said| said.ended());
        ended.map(|done| (done.tag, done.at_ns)).collect()
    }

    #[test]
    fn what_was_held_back_begins_when_room_was_made_not_when_it_was_noticed() {
        let mut queue = queue(1);
        let mut said = Vec::new();
        for tag in 0..3 {
            queue.submit(10, command(tag), &mut said);
        }
        queue.advance(1000, &mut said);
        assert_eq!(ends(&said), [(0, 110), (1, 210), (2, 310)]);
        assert!(queue.is_idle());
        assert_eq!(queue.now_ns(), 1000);
    }

    #[test]
    fn events_ahead_leave_room_for_commands_after_them() {
        let mut queue = queue(4);
        let mut said = Vec::new();
        queue.submit(0, command(0), &mut said);
        queue.run_events(1000, &mut said);
        queue.submit(150, command(1), &mut said);
        queue.advance(1000, &mut said);
        assert_eq!(ends(&said), [(0, 100), (1, 250)]);
    }

    #[test]
    fn the_end_is_said_when_a_command_begins() {
        let mut queue = queue(1);
        let mut said = Vec::new();
        queue.submit(10, command(0), &mut said);
        queue.submit(20, command(1), &mut said);
        let will_end = |tag, at_ns| Said::WillEnd(Done { tag, at_ns });
        assert_eq!(said, [will_end(0, 110)]);
        queue.advance(110, &mut said);
        assert_eq!(said[2..], [will_end(1, 210)]);
    }

    #[test]
    fn a_command_from_the_past_begins_now() {
        let mut queue = queue(4);
        let mut said = Vec::new();
        queue.advance(500, &mut said);
        queue.submit(400, command(7), &mut said);
        queue.advance(600, &mut said);
        assert_eq!(ends(&said), [(7, 600)]);
    }
}
