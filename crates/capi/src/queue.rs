//! A queue of completions: for whoever polls, waits for many, or has an event
//! loop that watches a descriptor.

use crate::failure::Failure;
use crate::sys::error::iolane_error;
use crate::sys::eventfd::EventFd;
use crate::sys::queue::iolane_completion;
use engine::Process;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More requests than the kernel has files open for a process by far.
pub(crate) const CAPACITY_MAX: usize = 1 << 20;

pub(crate) struct Queue {
    state: Mutex<State>,
    came: Condvar,
    capacity: usize,
    process: Process,
}

struct State {
    completions: VecDeque<iolane_completion>,
    /// Requests that will complete into the queue.
    outstanding: usize,
    /// Readable while there are completions; made when it is asked for.
    event: Option<EventFd>,
    /// The least that any thread waits for, while one does.
    wanted: usize,
    waiting: usize,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Result<Queue, Failure> {
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(Failure::argument(format!(
                "a queue of {capacity} completions: use 1 to {CAPACITY_MAX}"
            )));
        }
        Ok(Queue {
            state: Mutex::new(State {
                completions: VecDeque::new(),
                outstanding: 0,
                event: None,
                wanted: usize::MAX,
                waiting: 0,
            }),
            came: Condvar::new(),
            capacity,
            process: Process::this(),
        })
    }

    /// In a child process, a thread that is not there may hold the lock.
    fn lock(&self) -> Result<MutexGuard<'_, State>, Failure> {
        match self.process.is_this() {
            true => Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner)),
            false => Err(Failure::forked()),
        }
    }

    /// Makes room for one completion more.
    pub(crate) fn reserve(&self) -> Result<(), Failure> {
        let mut state = self.lock()?;
        if state.outstanding + state.completions.len() >= self.capacity {
            return Err(Failure::new(
                iolane_error::IOLANE_ERROR_FULL,
                format!(
                    "the queue has room for {} completions; take some of them first",
                    self.capacity
                ),
            ));
        }
        state.outstanding += 1;
        Ok(())
    }

    /// Gives up what [`reserve`](Queue::reserve) made.
    pub(crate) fn release(&self) {
        if let Ok(mut state) = self.lock() {
            state.outstanding -= 1;
        }
    }

    /// A request for which room was made has completed.
    pub(crate) fn push(&self, completion: iolane_completion) {
        let Ok(mut state) = self.lock() else {
            return;
        };
        state.outstanding -= 1;
        state.completions.push_back(completion);
        if state.completions.len() == 1
            && let Some(event) = &state.event
        {
            event.ring();
        }
        if state.completions.len() >= state.wanted {
            self.came.notify_all();
        }
    }

    /// The descriptor that is readable while there are completions.
    pub(crate) fn descriptor(&self) -> Result<i32, Failure> {
        let mut state = self.lock()?;
        if state.event.is_none() {
            let event = EventFd::new()?;
            if !state.completions.is_empty() {
                event.ring();
            }
            state.event = Some(event);
        }
        Ok(state.event.as_ref().map_or(-1, EventFd::descriptor))
    }

    /// Moves completions to `into`: waits for `least` of them, as long as
    /// `timeout` (`None`: for ever), and takes what there is.
    pub(crate) fn take(
        &self,
        into: &mut Vec<iolane_completion>,
        least: usize,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<(), Failure> {
        // Beyond what an `Instant` can say is for ever.
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock()?;
        while state.completions.len() < least {
            let Some(left) = left_until(end) else {
                break;
            };
            state.waiting += 1;
            state.wanted = state.wanted.min(least);
            state = match left {
                None => self
                    .came
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.came.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.waiting -= 1;
            if state.waiting == 0 {
                state.wanted = usize::MAX;
            }
        }
        let count = state.completions.len().min(most);
        into.extend(state.completions.drain(..count));
        if state.completions.is_empty()
            && count > 0
            && let Some(event) = &state.event
        {
            event.clear();
        }
        Ok(())
    }
}

/// `None`: nothing is left. `Some(None)`: there is no end.
fn left_until(end: Option<Instant>) -> Option<Option<Duration>> {
    match end {
        None => Some(None),
        Some(end) => {
            let left = end.saturating_duration_since(Instant::now());
            (!left.is_zero()).then_some(Some(left))
        }
    }
}
