//! A disk that is not there, as a backend.
//!
//! An operation has its effect on the disk's contents when it is flushed, and
//! ends when the disk says so: after the model's time, or in an order that a
//! seed gives. Nobody sees the difference, as overlapping operations are never
//! in flight together; a power cut between the two finds it in flight.

use std::io;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

use super::bell::{Bell, Nudge};
use super::countdown::Countdown;
use super::{Backend, BackendKind, Completed, OpCode, PinnedOp, Wake};
use crate::simulated::{Disk, DoneList, Started, Tearing, Work};

pub(crate) struct SimulatedBackend {
    disk: Arc<Disk>,
    capacity: u32,
    bell: Arc<Bell<Thread>>,
    /// Not flushed.
    pushed: Vec<PinnedOp>,
    /// With their tokens.
    in_flight: Vec<Option<(u64, Started)>>,
    free: Vec<u32>,
    ends: Ends,
    /// One operation's bytes, in one piece.
    memory: Vec<u8>,
}

/// How operations end. Slots of `in_flight`.
enum Ends {
    Shuffled {
        random: Random,
        slots: Vec<u32>,
    },
    Modelled {
        done: Arc<DoneList>,
        taken: Vec<u32>,
    },
}

impl SimulatedBackend {
    /// To be driven by the calling thread.
    pub fn new(disk: Arc<Disk>, capacity: u32) -> SimulatedBackend {
        let bell = Arc::new(Bell::new(thread::current()));
        let ends = match disk.seed() {
            Some(seed) => Ends::Shuffled {
                random: Random::new(seed),
                slots: Vec::new(),
            },
            None => Ends::Modelled {
                done: Arc::new(DoneList::new(Arc::clone(&bell) as Arc<dyn Nudge>)),
                taken: Vec::new(),
            },
        };
        SimulatedBackend {
            disk,
            capacity,
            bell,
            pushed: Vec::new(),
            in_flight: Vec::new(),
            free: Vec::new(),
            ends,
            memory: Vec::new(),
        }
    }

    pub fn detail(&self) -> String {
        match &self.ends {
            Ends::Shuffled { .. } => "no time, order by seed".into(),
            Ends::Modelled { .. } => "in the time of its model".into(),
        }
    }

    fn used(&self) -> usize {
        self.pushed.len() + self.in_flight.len() - self.free.len()
    }

    fn start(&mut self, op: &PinnedOp) -> Started {
        let (code, fd, offset) = (op.op().code, op.op().fd, op.op().offset);
        match code {
            OpCode::Read => {
                self.memory.clear();
                self.memory.resize(op.length() as usize, 0);
                let work = Work::Read(&mut self.memory);
                let started = self.disk.start(fd, offset, work);
                op.scatter(&self.memory[..started.bytes()]);
                started
            }
            OpCode::Write => {
                op.gather(&mut self.memory);
                let tearing = match op.op().atomic {
                    true => Tearing::Never,
                    false => Tearing::Possible,
                };
                self.disk
                    .start(fd, offset, Work::Write(&self.memory, tearing))
            }
            OpCode::SyncData | OpCode::SyncAll => self.disk.start(fd, 0, Work::Sync),
        }
    }

    fn start_pushed(&mut self) {
        let mut pushed = std::mem::take(&mut self.pushed);
        for op in pushed.drain(..) {
            let mut started = self.start(&op);
            let slot = self.free.pop().unwrap_or_else(|| {
                self.in_flight.push(None);
                self.in_flight.len() as u32 - 1
            });
            match &mut self.ends {
                Ends::Shuffled { slots, .. } => slots.push(slot),
                Ends::Modelled { done, .. } => self.disk.submit(&mut started, done, slot),
            }
            self.in_flight[slot as usize] = Some((op.op().token, started));
        }
        self.pushed = pushed;
    }

    /// Appends what has ended.
    fn drain(&mut self, out: &mut Vec<Completed>) {
        let mut taken = match &mut self.ends {
            Ends::Shuffled { random, slots } => random.take_some(slots),
            Ends::Modelled { done, taken } => {
                done.take(taken);
                std::mem::take(taken)
            }
        };
        for slot in taken.drain(..) {
            let Some((token, started)) = self.in_flight[slot as usize].take() else {
                unreachable!("an operation ends once");
            };
            self.free.push(slot);
            let result = self.disk.finish(started);
            out.push(Completed { token, result });
        }
        if let Ends::Modelled { taken: memory, .. } = &mut self.ends {
            *memory = taken;
        }
    }
}

impl Backend for SimulatedBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Simulated
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn push(&mut self, op: PinnedOp) {
        assert!(
            self.used() < self.capacity as usize,
            "no more operations in flight than the backend's capacity"
        );
        self.pushed.push(op);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.start_pushed();
        Ok(())
    }

    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()> {
        self.start_pushed();
        let before = out.len();
        self.drain(out);
        if out.len() > before || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let countdown = Countdown::new(timeout);
        loop {
            if !self.bell.begin_sleep() {
                self.drain(out);
                return Ok(());
            }
            self.drain(out);
            if out.len() == before {
                match countdown.left() {
                    None => thread::park(),
                    Some(left) => thread::park_timeout(left),
                }
            }
            let woken = self.bell.end_sleep();
            self.drain(out);
            if woken || out.len() > before || countdown.is_over() {
                return Ok(());
            }
        }
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }
}

impl Drop for SimulatedBackend {
    fn drop(&mut self) {
        self.pushed.clear();
        let mut done = Vec::new();
        while self.used() > 0 {
            // This backend's cannot fail.
            let _ = self.reap(None, &mut done);
        }
    }
}

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
/// generators, scrambled", 2016).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    /// One or more of `slots`, if there are any, in any order; the others stay
    /// in flight.
    fn take_some(&mut self, slots: &mut Vec<u32>) -> Vec<u32> {
        if slots.is_empty() {
            return Vec::new();
        }
        let count = 1 + self.below(slots.len());
        (0..count)
            .map(|_| {
                let at = self.below(slots.len());
                slots.swap_remove(at)
            })
            .collect()
    }
}
