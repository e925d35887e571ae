//! Real time: a thread that runs the model and announces what has ended.

use crate::backend::Nudge;
use crate::completion::lock;
use crate::sys;
use crate::sys::clock::now_ns;
use iolane_disk::{Command, Done, Model};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Whom to tell of the end of a job.
pub(super) enum Waiter {
    Thread(Arc<Signal>),
    Backend { done: Arc<DoneList>, slot: u32 },
}

/// Where one thread waits for one job.
#[derive(Default)]
pub(super) struct Signal {
    ended: Mutex<bool>,
    changed: Condvar,
}

/// Jobs of a backend that have ended.
pub(crate) struct DoneList {
    slots: Mutex<Vec<u32>>,
    bell: Arc<dyn Nudge>,
}

impl DoneList {
    pub(crate) fn new(bell: Arc<dyn Nudge>) -> DoneList {
        DoneList {
            slots: Mutex::default(),
            bell,
        }
    }

    /// Appends what has ended.
    pub(crate) fn take(&self, slots: &mut Vec<u32>) {
        slots.append(&mut lock(&self.slots));
    }
}

/// Commands that belong together, and a time after which they are over.
struct Job {
    left: usize,
    stall_ns: u64,
    waiter: Waiter,
}

struct State {
    model: Box<dyn Model>,
    /// Commands that found the disk's queue full: command and job.
    held: VecDeque<(Command, u32)>,
    /// By tag: the job of a command in the disk.
    tags: Vec<u32>,
    free_tags: Vec<u32>,
    jobs: Vec<Option<Job>>,
    free_jobs: Vec<u32>,
    /// Jobs that wait out a stall: when it is over.
    stalled: BinaryHeap<Reverse<(u64, u32)>>,
    done: Vec<Done>,
    closing: bool,
}

struct Shared {
    state: Mutex<State>,
    /// A command came, or the end.
    changed: Condvar,
    /// The model's time 0.
    start_ns: u64,
}

pub(super) struct Clock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    pub(super) fn start(model: Box<dyn Model>) -> io::Result<Clock> {
        let queue_max = model.queue_max().min(u32::MAX as usize) as u32;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                model,
                held: VecDeque::new(),
                tags: vec![0; queue_max as usize],
                free_tags: (0..queue_max).rev().collect(),
                jobs: Vec::new(),
                free_jobs: Vec::new(),
                stalled: BinaryHeap::new(),
                done: Vec::new(),
                closing: false,
            }),
            changed: Condvar::new(),
            start_ns: now_ns(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("iolane-simulated".into())
            .spawn(move || {
                // Whoever waits for the disk would wait for ever.
                if catch_unwind(AssertUnwindSafe(|| own.run())).is_err() {
                    std::process::abort();
                }
            })?;
        Ok(Clock {
            shared,
            thread: Some(thread),
        })
    }

    /// Waits as long as the disk takes.
    pub(super) fn wait(&self, commands: Vec<Command>, stall_ns: u64) {
        let signal = Arc::new(Signal::default());
        self.submit(commands, stall_ns, Waiter::Thread(Arc::clone(&signal)));
        let mut ended = lock(&signal.ended);
        while !*ended {
            ended = signal
                .changed
                .wait(ended)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The waiter is told when the disk is done.
    pub(super) fn submit(&self, commands: Vec<Command>, stall_ns: u64, waiter: Waiter) {
        if commands.is_empty() && stall_ns == 0 {
            waiter.tell();
            return;
        }
        let mut state = lock(&self.shared.state);
        state.add(commands, stall_ns, waiter, self.shared.now_ns());
        drop(state);
        self.shared.changed.notify_one();
    }
}

impl Drop for Clock {
    /// Nobody waits any more: whoever could holds the disk.
    fn drop(&mut self) {
        lock(&self.shared.state).closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn now_ns(&self) -> u64 {
        now_ns() - self.start_ns
    }

    /// The life of the thread.
    fn run(&self) {
        sys::timer_slack::set_smallest();
        let mut state = lock(&self.state);
        while !state.closing {
            let next_ns = state.advance(self.now_ns());
            let Some(next_ns) = next_ns else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left_ns = next_ns.saturating_sub(self.now_ns());
            if left_ns > 0 {
                state = self
                    .changed
                    .wait_timeout(state, Duration::from_nanos(left_ns))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }
}

impl State {
    fn add(&mut self, commands: Vec<Command>, stall_ns: u64, waiter: Waiter, now_ns: u64) {
        let job = Job {
            left: commands.len(),
            stall_ns,
            waiter,
        };
        let number = match self.free_jobs.pop() {
            Some(number) => {
                self.jobs[number as usize] = Some(job);
                number
            }
            None => {
                self.jobs.push(Some(job));
                self.jobs.len() as u32 - 1
            }
        };
        if commands.is_empty() {
            self.stalled.push(Reverse((now_ns + stall_ns, number)));
        }
        self.held
            .extend(commands.into_iter().map(|command| (command, number)));
    }

    /// Lets everything happen until `now_ns`; when to come back.
    fn advance(&mut self, now_ns: u64) -> Option<u64> {
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(now_ns, &mut done);
        for done in done.drain(..) {
            self.free_tags.push(done.tag);
            self.command_ended(self.tags[done.tag as usize], done.at_ns);
        }
        self.done = done;
        while let Some(Reverse((at_ns, job))) = self.stalled.peek().copied()
            && at_ns <= now_ns
        {
            self.stalled.pop();
            self.finish(job);
        }
        while !self.held.is_empty()
            && let Some(tag) = self.free_tags.pop()
            && let Some((command, job)) = self.held.pop_front()
        {
            self.tags[tag as usize] = job;
            self.model.submit(now_ns, Command { tag, ..command });
        }
        let stalled = self.stalled.peek().map(|Reverse((at_ns, _))| *at_ns);
        [self.model.next_event_ns(), stalled]
            .into_iter()
            .flatten()
            .min()
    }

    fn command_ended(&mut self, number: u32, at_ns: u64) {
        let Some(job) = &mut self.jobs[number as usize] else {
            unreachable!("a command in the disk has a job");
        };
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        if job.stall_ns > 0 {
            let over_ns = at_ns.saturating_add(job.stall_ns);
            self.stalled.push(Reverse((over_ns, number)));
        } else {
            self.finish(number);
        }
    }

    fn finish(&mut self, number: u32) {
        if let Some(job) = self.jobs[number as usize].take() {
            self.free_jobs.push(number);
            job.waiter.tell();
        }
    }
}

impl Waiter {
    pub(super) fn tell(self) {
        match self {
            Waiter::Thread(signal) => {
                *lock(&signal.ended) = true;
                signal.changed.notify_one();
            }
            Waiter::Backend { done, slot } => {
                lock(&done.slots).push(slot);
                done.bell.nudge();
            }
        }
    }
}
