//! Transactions under way.

use super::Operation;
use super::engine::Engine;
use super::events::Action;
use super::meter::{Meter, Spent};
use super::random::Random;
use super::workload::{Commit, Transactions};
use crate::elevator::Elevator;
use crate::model::{Kind, Model};
use iolane_sched::Level;
use std::ops::Range;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for one of its reads; so many are left after it.
    Reads(u32),
    /// Computes in parallel with others.
    Computes,
    /// Computes under the lock, or waits for it.
    Locked,
    /// Waits for a log write.
    Commits,
    /// Writes the log for itself and its group.
    WritesLog,
    /// Flushes it.
    Flushes,
    /// Is woken, as another thread wrote the log for it.
    Wakes,
}

#[derive(Clone, Copy)]
struct Thread {
    gate: u32,
    begun_ns: u64,
    phase: Phase,
}

/// The log that all threads share.
struct Log {
    /// Bytes written since the beginning, to each of its places.
    ends: [u64; 2],
    /// Which of them is written next.
    place: usize,
    busy: bool,
    /// Threads whose records are being written.
    group: Vec<u32>,
    /// Threads that came after.
    waiting: Vec<u32>,
}

pub struct TransactionsSource {
    pub work: Transactions,
    /// Of the transactions; the engine's is of their operations.
    pub meter: Meter,
    index: u32,
    data: Range<u64>,
    threads: Vec<Thread>,
    lock_free_ns: u64,
    log: Log,
    random: Random,
}

impl TransactionsSource {
    pub fn new(
        work: Transactions,
        data: Range<u64>,
        index: u32,
        gates: Vec<u32>,
        seed: u64,
    ) -> TransactionsSource {
        let thread = |gate| Thread {
            gate,
            begun_ns: 0,
            phase: Phase::Computes,
        };
        TransactionsSource {
            meter: Meter::new(),
            index,
            data,
            threads: gates.into_iter().map(thread).collect(),
            lock_free_ns: 0,
            log: Log {
                ends: [0; 2],
                place: 0,
                busy: false,
                group: Vec::new(),
                waiting: Vec::new(),
            },
            random: Random::new(seed, u64::from(index)),
            work,
        }
    }

    pub fn start<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        for thread in 0..self.work.threads {
            self.begin(engine, thread);
        }
    }

    fn begin<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, thread: u32) {
        self.threads[thread as usize].begun_ns = engine.now_ns;
        self.meter.begin(engine.now_ns, 1);
        self.read_or_compute(engine, thread, self.work.reads);
    }

    fn read_or_compute<M: Model, E: Elevator>(
        &mut self,
        engine: &mut Engine<M, E>,
        thread: u32,
        reads_left: u32,
    ) {
        if reads_left > 0 {
            let length = u64::from(self.work.read_bytes);
            let places = (self.data.end - self.data.start) / length;
            let offset = self.data.start + self.random.below(places) * length;
            let read = operation(
                Kind::Read,
                offset,
                self.work.read_bytes,
                self.work.read_level,
            );
            self.submit(engine, thread, Phase::Reads(reads_left - 1), &read);
        } else {
            self.threads[thread as usize].phase = Phase::Computes;
            let cpu_ns = self.work.cpu.draw(&mut self.random);
            self.plan(engine, thread, engine.now_ns + cpu_ns);
        }
    }

    fn plan<M: Model, E: Elevator>(&self, engine: &mut Engine<M, E>, thread: u32, at_ns: u64) {
        let source = self.index;
        engine.events.plan(at_ns, Action::Thread { source, thread });
    }

    /// The thread has computed.
    pub fn wake<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if state.phase == Phase::Wakes {
            self.end(engine, thread);
            return;
        }
        if state.phase == Phase::Computes && self.work.serial_ns > 0 {
            state.phase = Phase::Locked;
            self.lock(engine, thread, self.work.serial_ns);
            return;
        }
        if self.work.commit == Commit::Never {
            self.end(engine, thread);
            return;
        }
        state.phase = Phase::Commits;
        self.log.waiting.push(thread);
        if !self.log.busy {
            self.write_log(engine);
        }
    }

    /// First come, first served: the lock is free when all before have had it.
    fn lock<M: Model, E: Elevator>(
        &mut self,
        engine: &mut Engine<M, E>,
        thread: u32,
        held_ns: u64,
    ) {
        self.lock_free_ns = self.lock_free_ns.max(engine.now_ns) + held_ns;
        self.plan(engine, thread, self.lock_free_ns);
    }

    /// The first who waits writes: its own records, or those of all who wait.
    fn write_log<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        let count = match self.work.commit {
            Commit::Group => self.log.waiting.len(),
            Commit::Each | Commit::Never => 1,
        };
        self.log.busy = true;
        self.log.group.clear();
        self.log.group.extend(self.log.waiting.drain(..count));
        let leader = self.log.group[0];
        let (offset, length) = self.append(count as u64 * u64::from(self.work.log_bytes));
        let write = operation(Kind::Write, offset, length, self.work.log_level);
        self.submit(engine, leader, Phase::WritesLog, &write);
    }

    /// Where the next `bytes` of the log go: the blocks that they touch.
    fn append(&mut self, bytes: u64) -> (u64, u32) {
        let block = u64::from(self.work.log_block_bytes);
        let place = self.log.place;
        if !self.work.second_log.is_empty() {
            self.log.place = 1 - place;
        }
        let range = [&self.work.log, &self.work.second_log][place];
        let end = &mut self.log.ends[place];
        let size = (range.end - range.start) / block * block;
        let mut begin = *end % size;
        if (begin + bytes).next_multiple_of(block) > size {
            // The rest at the end is left empty.
            *end = end.next_multiple_of(size);
            begin = 0;
        }
        *end += bytes;
        let first = begin / block * block;
        let end = (begin + bytes).next_multiple_of(block);
        (range.start + first, (end - first) as u32)
    }

    fn submit<M: Model, E: Elevator>(
        &mut self,
        engine: &mut Engine<M, E>,
        thread: u32,
        phase: Phase,
        operation: &Operation,
    ) {
        let state = &mut self.threads[thread as usize];
        state.phase = phase;
        let process = self.work.process_first + thread;
        engine.meters[self.index as usize].begin(engine.now_ns, 1);
        let mut call = engine.begin_call(self.index, thread, state.gate, process);
        engine.add_to_call(&mut call, operation);
        engine.end_call(call);
    }

    /// An operation of the thread has ended.
    pub fn finished<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, thread: u32) {
        match self.threads[thread as usize].phase {
            Phase::Reads(left) => self.read_or_compute(engine, thread, left),
            Phase::WritesLog if self.work.flush => {
                let flush = operation(Kind::Flush, 0, 0, self.work.log_level);
                self.submit(engine, thread, Phase::Flushes, &flush);
            }
            Phase::WritesLog | Phase::Flushes => self.end_group(engine),
            Phase::Computes | Phase::Locked | Phase::Commits | Phase::Wakes => {
                unreachable!("no operation of the thread is under way")
            }
        }
    }

    fn end_group<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        let mut group = std::mem::take(&mut self.log.group);
        self.log.busy = false;
        if !self.log.waiting.is_empty() {
            self.write_log(engine);
        }
        for (place, thread) in group.drain(..).enumerate() {
            // The first one wrote, and sleeps no more.
            if place > 0 && self.work.wake_ns > 0 {
                self.threads[thread as usize].phase = Phase::Wakes;
                self.lock(engine, thread, self.work.wake_ns);
            } else {
                self.end(engine, thread);
            }
        }
        if self.log.group.is_empty() {
            self.log.group = group;
        }
    }

    fn end<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, thread: u32) {
        let latency_ns = engine.now_ns - self.threads[thread as usize].begun_ns;
        let spent = Spent {
            latency_ns,
            queued_ns: 0,
            disk_ns: 0,
        };
        self.meter.end(engine.now_ns, self.work.log_bytes, spent);
        self.begin(engine, thread);
    }
}

fn operation(kind: Kind, offset: u64, length: u32, level: Level) -> Operation {
    Operation {
        kind,
        offset,
        length,
        durable: false,
        sync: true,
        level,
    }
}
