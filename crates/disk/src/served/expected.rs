//! What a disk should have done: the same commands at the same moments on a
//! model of its own, in virtual time; and what the model can do.

use super::queue::{Queue, Said};
use crate::model::{Command, Kind, Model};
use crate::simulation::Random;

/// Of the reads that show what is usual.
const USUAL_BYTES: u32 = 4 << 10;
/// How long they go on, in virtual time.
const USUAL_IN_NS: u64 = 1_000_000_000;

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

/// One operation as a served disk's model was given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When it reached the server.
    pub arrived_ns: u64,
    /// When the model had it: later where the model had been run ahead, so
    /// that an answer could leave early.
    pub taken_ns: u64,
    /// What it was; its tag is the server's.
    pub command: Command,
}

/// The latency of each operation since the model had it, in nanoseconds:
/// `taken` in the order in which the server had them, at most 2^32.
pub fn latencies_ns(model: Box<dyn Model>, taken: &[Taken]) -> Vec<u64> {
    let mut queue = Queue::new(model);
    let mut said = Vec::new();
    let mut latencies = vec![0; taken.len()];
    let mut left = taken.len();
    let mut note = |said: &mut Vec<Said>| {
        for done in said.drain(..).filter_map(Said::ended) {
            let tag = done.tag as usize;
            latencies[tag] = done.at_ns - taken[tag].taken_ns;
            left -= 1;
        }
        left > 0
    };
    for (tag, taken) in (0..).zip(taken) {
        let command = Command {
            tag,
            ..taken.command
        };
        queue.submit(taken.taken_ns, command, &mut said);
        note(&mut said);
    }
    while note(&mut said)
        && let Some(event_ns) = queue.next_event_ns()
    {
        queue.advance(event_ns, &mut said);
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
    let mut said = Vec::new();
    let mut ended = Vec::new();
    let mut outstanding: Vec<Arrival> = Vec::new();
    for tag in 0..shape.depth {
        let arrival = Arrival { at_ns: 0, ..next() };
        outstanding.push(arrival);
        queue.submit(0, arrival.command(tag), &mut said);
    }
    while let Some(event_ns) = queue.next_event_ns()
        && event_ns < shape.until_ns
    {
        queue.advance(event_ns, &mut said);
        for done in std::mem::take(&mut said)
            .into_iter()
            .filter_map(Said::ended)
        {
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

/// The median latency of short random reads, one after the other; that of a
/// disk that ends none in a second is `u64::MAX`.
pub fn usual_latency_ns(model: Box<dyn Model>) -> u64 {
    let length = USUAL_BYTES.max(model.block_bytes());
    let places = (model.capacity_bytes() / u64::from(length)).max(1);
    let length = u64::from(length).min(model.capacity_bytes()) as u32;
    let shape = Loop {
        depth: 1,
        until_ns: USUAL_IN_NS,
    };
    let mut random = Random::new(0, 0);
    let next = || Arrival {
        at_ns: 0,
        kind: Kind::Read,
        offset: random.below(places) * u64::from(length),
        length,
    };
    let ended = closed_loop(model, shape, next);
    let mut latencies: Vec<u64> = ended.iter().map(|&(_, latency_ns)| latency_ns).collect();
    latencies.sort_unstable();
    latencies
        .get(latencies.len() / 2)
        .map_or(u64::MAX, |&middle| middle)
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

    fn taken(arrived_ns: u64, taken_ns: u64) -> Taken {
        Taken {
            arrived_ns,
            taken_ns,
            command: arrival(arrived_ns).command(7),
        }
    }

    #[test]
    fn operations_wait_for_room_in_the_disks_queue() {
        let all = [taken(0, 0), taken(10, 10), taken(500, 500)];
        assert_eq!(latencies_ns(disk(1), &all), [100, 190, 100]);
        assert_eq!(latencies_ns(disk(2), &all), [100, 100, 100]);
    }

    #[test]
    fn what_a_command_waited_for_the_model_is_not_the_models() {
        assert_eq!(latencies_ns(disk(1), &[taken(60, 90)]), [100]);
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

    #[test]
    fn the_usual_latency_is_the_models() {
        let usual = |latency_ns| {
            let parameters = ConstantParameters {
                capacity_bytes: 512,
                queue_max: 1,
                latency_ns,
            };
            usual_latency_ns(Box::new(Constant::new(parameters).unwrap()))
        };
        assert_eq!(usual(85_000), 85_000);
        assert_eq!(usual(10_000_000), 10_000_000);
        assert_eq!(usual(10_000_000_000), u64::MAX);
    }
}
