//! What a disk should have done: the same load on the model, in virtual time.

use super::queue::Queue;
use crate::model::{Command, Kind, Model};

/// One operation of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the client sent it.
    pub at_ns: u64,
    /// What it does.
    pub kind: Kind,
    /// First byte, a multiple of the model's block.
    pub offset: u64,
    /// Bytes, a multiple of the model's block.
    pub length: u32,
}

impl Arrival {
    fn command(&self, tag: u32) -> Command {
        Command {
            tag,
            kind: self.kind,
            offset: self.offset,
            length: self.length,
            durable: false,
        }
    }
}

/// The latency of each operation of an open loop, in nanoseconds: `arrivals`
/// in the order of their times, at most 2^32.
pub fn latencies_ns(model: Box<dyn Model>, arrivals: &[Arrival]) -> Vec<u64> {
    let mut queue = Queue::new(model);
    let mut done = Vec::new();
    for (tag, arrival) in (0..).zip(arrivals) {
        queue.submit(arrival.at_ns, arrival.command(tag), &mut done);
    }
    while done.len() < arrivals.len()
        && let Some(event_ns) = queue.next_event_ns()
    {
        queue.advance(event_ns, &mut done);
    }
    let mut latencies = vec![0; arrivals.len()];
    for done in done {
        let tag = done.tag as usize;
        latencies[tag] = done.at_ns - arrivals[tag].at_ns;
    }
    latencies
}

/// A closed loop: each operation, when it ends, is followed by the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Outstanding at once.
    pub depth: u32,
    /// Until when operations begin.
    pub until_ns: u64,
}

/// The arrivals of a closed loop, in the order of their ends, each with its
/// latency in nanoseconds; `next` says what comes, and its time is ignored.
pub fn closed_loop(
    model: Box<dyn Model>,
    shape: Loop,
    mut next: impl FnMut() -> Arrival,
) -> Vec<(Arrival, u64)> {
    let mut queue = Queue::new(model);
    let mut done = Vec::new();
    let mut ended = Vec::new();
    let mut outstanding: Vec<Arrival> = Vec::new();
    for tag in 0..shape.depth {
        let arrival = Arrival { at_ns: 0, ..next() };
        outstanding.push(arrival);
        queue.submit(0, arrival.command(tag), &mut done);
    }
    while let Some(event_ns) = queue.next_event_ns()
        && event_ns < shape.until_ns
    {
        queue.advance(event_ns, &mut done);
        for done in std::mem::take(&mut done) {
            let before = outstanding[done.tag as usize];
            ended.push((before, done.at_ns - before.at_ns));
            let arrival = Arrival {
                at_ns: done.at_ns,
                ..next()
            };
            outstanding[done.tag as usize] = arrival;
            // Ends nothing: the model is there already.
            queue.submit(done.at_ns, arrival.command(done.tag), &mut Vec::new());
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Constant, ConstantParameters};

    fn disk(queue_max: usize) -> Box<dyn Model> {
        Box::new(
            Constant::new(ConstantParameters {
                capacity_bytes: 1 << 20,
                queue_max,
                latency_ns: 100,
            })
            .unwrap(),
        )
    }

    fn arrival(at_ns: u64) -> Arrival {
        Arrival {
            at_ns,
            kind: Kind::Read,
            offset: 0,
            length: 512,
        }
    }

    #[test]
    fn an_open_loop_waits_for_room_in_the_disks_queue() {
        let arrivals = [arrival(0), arrival(10), arrival(500)];
        assert_eq!(latencies_ns(disk(1), &arrivals), [100, 190, 100]);
        assert_eq!(latencies_ns(disk(2), &arrivals), [100, 100, 100]);
    }

    #[test]
    fn a_closed_loop_keeps_its_depth() {
        let shape = Loop {
            depth: 2,
            until_ns: 1001,
        };
        let ended = closed_loop(disk(2), shape, || arrival(0));
        assert_eq!(ended.len(), 20);
        assert!(ended.iter().all(|&(_, latency_ns)| latency_ns == 100));
    }
}
