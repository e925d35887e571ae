//! A disk whose commands all take the same time: the yardstick for what
//! stands around a model.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Command, Done, Model, ParameterError, assert_valid};

/// Parameters of [`Constant`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantParameters {
    /// Bytes that the disk holds.
    pub capacity_bytes: u64,
    /// Commands that it takes at once.
    pub queue_max: usize,
    /// From submission to completion, in nanoseconds, however many are
    /// outstanding.
    pub latency_ns: u64,
}

/// Every command ends `latency_ns` after it was submitted; a flush too.
pub struct Constant {
    parameters: ConstantParameters,
    outstanding: VecDeque<Done>,
}

impl Constant {
    /// # Errors
    /// [`ParameterError`] for a capacity or queue of nothing.
    pub fn new(parameters: ConstantParameters) -> Result<Constant, ParameterError> {
        if parameters.capacity_bytes == 0 || !parameters.capacity_bytes.is_multiple_of(512) {
            return Err(ParameterError::new(
                "capacity_bytes",
                parameters.capacity_bytes,
                "must be a multiple of 512 above 0",
            ));
        }
        if parameters.queue_max == 0 {
            return Err(ParameterError::new("queue_max", 0, "must be at least 1"));
        }
        Ok(Constant {
            parameters,
            outstanding: VecDeque::new(),
        })
    }
}

impl Model for Constant {
    fn capacity_bytes(&self) -> u64 {
        self.parameters.capacity_bytes
    }

    fn queue_max(&self) -> usize {
        self.parameters.queue_max
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        assert_valid(self, self.outstanding.len(), &command);
        self.outstanding.push_back(Done {
            tag: command.tag,
            at_ns: now_ns + self.parameters.latency_ns,
        });
    }

    fn foreseen_ns(&self) -> Option<u64> {
        self.outstanding.back().map(|done| done.at_ns)
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.outstanding.front().map(|done| done.at_ns)
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some(first) = self.outstanding.front()
            && first.at_ns <= now_ns
        {
            done.push(*first);
            self.outstanding.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn command(tag: u32) -> Command {
        Command {
            tag,
            kind: Kind::Read,
            offset: 0,
            length: 512,
            durable: false,
        }
    }

    fn disk(queue_max: usize) -> Constant {
        Constant::new(ConstantParameters {
            capacity_bytes: 1 << 20,
            queue_max,
            latency_ns: 100,
        })
        .unwrap()
    }

    #[test]
    fn every_command_takes_the_same_time() {
        let mut disk = disk(2);
        let mut done = Vec::new();
        disk.submit(10, command(0));
        disk.submit(30, command(1));
        assert_eq!(disk.next_event_ns(), Some(110));
        disk.advance(109, &mut done);
        assert_eq!(done, []);
        disk.advance(130, &mut done);
        assert_eq!(
            done,
            [Done { tag: 0, at_ns: 110 }, Done { tag: 1, at_ns: 130 }]
        );
        assert_eq!(disk.next_event_ns(), None);
    }

    #[test]
    #[should_panic(expected = "queue of 1 commands is full")]
    fn more_than_the_queue_takes_is_an_error_of_the_host() {
        let mut disk = disk(1);
        disk.submit(0, command(0));
        disk.submit(0, command(1));
    }
}
