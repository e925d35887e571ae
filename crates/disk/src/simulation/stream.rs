//! A stream under way.

use super::Operation;
use super::addresses::Addresses;
use super::engine::{Engine, Finished};
use super::events::Action;
use super::random::Random;
use super::workload::{Activity, Arrival, Stream, Time};
use crate::elevator::Elevator;
use crate::model::{Kind, Model};
use iolane_sched::Level;
use std::ops::Range;

/// Whose operations are a stream's reads and writes.
const TRANSFERS: u32 = 0;
/// Whose are its flushes; what wakes it when a pause has ended.
const FLUSHES: u32 = 1;

pub struct StreamSource {
    index: u32,
    gate: u32,
    process: u32,
    arrival: Arrival,
    batch: u32,
    durable: bool,
    sync: bool,
    level: Level,
    flush_every: u32,
    activity: Activity,
    addresses: Addresses,
    random: Random,
    /// Operations of a closed loop that ended since the last submission.
    ended: u32,
    /// Writes that ended since the last flush.
    unflushed: u32,
    /// Calls of a closed loop that wait for the end of a pause.
    parked: u32,
    /// How long it had been at work when the last operations of an open loop
    /// arrived.
    worked_ns: u64,
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
            flush_every: stream.flush_every,
            activity: stream.activity,
            addresses: Addresses::new(stream, region),
            random: Random::new(seed, u64::from(index)),
            ended: 0,
            unflushed: 0,
            parked: 0,
            worked_ns: 0,
        }
    }

    pub fn start<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        match self.arrival {
            Arrival::Closed { outstanding, .. } => {
                for _ in 0..outstanding / self.batch {
                    self.call_or_park(engine);
                }
            }
            Arrival::Open { .. } => self.plan_arrival(engine),
        }
    }

    pub fn finished<M: Model, E: Elevator>(
        &mut self,
        engine: &mut Engine<M, E>,
        finished: Finished,
    ) {
        if self.flush_every > 0 && finished.kind == Kind::Write {
            self.unflushed += 1;
            if self.unflushed == self.flush_every {
                self.unflushed = 0;
                self.flush(engine);
                return;
            }
        }
        let Arrival::Closed { think, .. } = self.arrival else {
            return;
        };
        self.ended += 1;
        if self.ended < self.batch {
            return;
        }
        self.ended = 0;
        if think == Time::Fixed(0) {
            self.call_or_park(engine);
        } else {
            let at_ns = engine.now_ns + think.draw(&mut self.random);
            let source = self.index;
            engine.events.plan(at_ns, Action::Wake { source });
        }
    }

    /// The think time of a closed loop has passed, or a pause of it, or
    /// operations of an open one arrive.
    pub fn wake<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, thread: u32) {
        if thread == FLUSHES {
            for _ in 0..std::mem::take(&mut self.parked) {
                self.call_or_park(engine);
            }
            return;
        }
        let Arrival::Open {
            outstanding_max, ..
        } = self.arrival
        else {
            self.call_or_park(engine);
            return;
        };
        self.plan_arrival(engine);
        let meter = &mut engine.meters[self.index as usize];
        if meter.outstanding.value() + u64::from(self.batch) > u64::from(outstanding_max) {
            meter.refused += u64::from(self.batch);
            return;
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
            self.worked_ns += (gap_ns.round() as u64).max(1);
            let source = self.index;
            if let Some(at_ns) = self.activity.after_ns(self.worked_ns) {
                engine.events.plan(at_ns, Action::Wake { source });
            }
        }
    }

    /// In a pause, the next call of a closed loop waits for its end.
    fn call_or_park<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        let Some(on_ns) = self.activity.next_on_ns(engine.now_ns) else {
            return;
        };
        if on_ns <= engine.now_ns {
            self.call(engine);
            return;
        }
        if self.parked == 0 {
            let wake = Action::Thread {
                source: self.index,
                thread: FLUSHES,
            };
            engine.events.plan(on_ns, wake);
        }
        self.parked += 1;
    }

    fn flush<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        engine.meters[self.index as usize].begin(engine.now_ns, 1);
        let mut call = engine.begin_call(self.index, FLUSHES, self.gate, self.process);
        let operation = Operation {
            kind: Kind::Flush,
            offset: 0,
            length: 0,
            durable: false,
            sync: self.sync,
            level: self.level,
        };
        engine.add_to_call(&mut call, &operation);
        engine.end_call(call);
    }

    fn call<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        engine.meters[self.index as usize].begin(engine.now_ns, self.batch);
        let mut call = engine.begin_call(self.index, TRANSFERS, self.gate, self.process);
        for _ in 0..self.batch {
            let (kind, offset, length) = self.addresses.next(&mut self.random);
            let operation = Operation {
                kind,
                offset,
                length,
                durable: self.durable && kind == Kind::Write,
                sync: self.sync,
                level: self.level,
            };
            engine.add_to_call(&mut call, &operation);
        }
        engine.end_call(call);
    }
}
