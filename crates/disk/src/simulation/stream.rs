//! A stream under way.

use super::Operation;
use super::addresses::Addresses;
use super::engine::Engine;
use super::events::Action;
use super::random::Random;
use super::workload::{Arrival, Stream, Time};
use crate::elevator::Elevator;
use crate::model::Model;
use iolane_sched::Level;
use std::ops::Range;

pub struct StreamSource {
    index: u32,
    gate: u32,
    process: u32,
    arrival: Arrival,
    batch: u32,
    durable: bool,
    sync: bool,
    level: Level,
    addresses: Addresses,
    random: Random,
    /// Operations of a closed loop that ended since the last submission.
    ended: u32,
}

impl StreamSource {
    pub fn new(
        stream: &Stream,
        region: Range<u64>,
        index: u32,
        gate: u32,
        seed: u64,
    ) -> StreamSource {
        StreamSource {
            index,
            gate,
            process: stream.process,
            arrival: stream.arrival,
            batch: stream.batch,
            durable: stream.durable,
            sync: stream.sync,
            level: stream.level,
            addresses: Addresses::new(stream, region),
            random: Random::new(seed, u64::from(index)),
            ended: 0,
        }
    }

    pub fn start<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        match self.arrival {
            Arrival::Closed { outstanding, .. } => {
                for _ in 0..outstanding / self.batch {
                    self.call(engine);
                }
            }
            Arrival::Open { .. } => self.plan_arrival(engine),
        }
    }

    pub fn finished<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        let Arrival::Closed { think, .. } = self.arrival else {
            return;
        };
        self.ended += 1;
        if self.ended < self.batch {
            return;
        }
        self.ended = 0;
        if think == Time::Fixed(0) {
            self.call(engine);
        } else {
            let at_ns = engine.now_ns + think.draw(&mut self.random);
            let source = self.index;
            engine.events.plan(at_ns, Action::Wake { source });
        }
    }

    /// The think time of a closed loop has passed, or operations of an open
    /// one arrive.
    pub fn wake<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        if let Arrival::Open {
            outstanding_max, ..
        } = self.arrival
        {
            self.plan_arrival(engine);
            let meter = &mut engine.meters[self.index as usize];
            if meter.outstanding.value() + u64::from(self.batch) > u64::from(outstanding_max) {
                meter.refused += u64::from(self.batch);
                return;
            }
        }
        self.call(engine);
    }

    fn plan_arrival<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        if let Arrival::Open {
            per_second,
            poisson,
            ..
        } = self.arrival
        {
            let mean_ns = f64::from(self.batch) * 1e9 / per_second;
            let gap_ns = if poisson {
                self.random.exponential(mean_ns)
            } else {
                mean_ns
            };
            // Never at the same instant for ever, however high the rate.
            let at_ns = engine.now_ns + (gap_ns.round() as u64).max(1);
            let source = self.index;
            engine.events.plan(at_ns, Action::Wake { source });
        }
    }

    fn call<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        engine.meters[self.index as usize].begin(engine.now_ns, self.batch);
        let mut call = engine.begin_call(self.index, 0, self.gate, self.process);
        for _ in 0..self.batch {
            let (kind, offset, length) = self.addresses.next(&mut self.random);
            let operation = Operation {
                kind,
                offset,
                length,
                durable: self.durable && kind == crate::model::Kind::Write,
                sync: self.sync,
                level: self.level,
            };
            engine.add_to_call(&mut call, &operation);
        }
        engine.end_call(call);
    }
}
