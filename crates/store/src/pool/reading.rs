//! One page on its way into memory: who waits for it, and who brings it home.
//!
//! A request that was submitted ahead of need completes without anybody
//! looking. The first thread that comes to the page takes the request over,
//! hurries and awaits it, checks the page and puts it into its frame; all
//! others wait for that thread. So checksums are computed by those who need
//! the page, not by the one thread that serves the device.

use super::primitives::{Condvar, Mutex};

/// A page's read. `R` is the request, `E` why it failed.
pub(crate) struct Reading<R, E> {
    /// The frame that it will stand in.
    pub(crate) frame: u32,
    state: Mutex<State<R, E>>,
    changed: Condvar,
}

enum State<R, E> {
    /// Not yet with the engine.
    Submitting,
    /// With the engine; nobody waits.
    Flying(R),
    /// A thread awaits it or reads itself.
    Taken,
    Ended(Result<(), E>),
}

/// What a thread that needs the page has to do.
pub(crate) enum Turn<R, E> {
    /// Await the request and [`end`](Reading::end) the reading.
    Finish(R),
    /// Nothing: another thread did it.
    Ended(Result<(), E>),
}

impl<R, E: Clone> Reading<R, E> {
    /// A read that will be [`fly`](Self::fly)ing.
    pub(crate) fn submitting(frame: u32) -> Reading<R, E> {
        Reading::new(frame, State::Submitting)
    }

    /// A read that its maker carries out itself.
    pub(crate) fn taken(frame: u32) -> Reading<R, E> {
        Reading::new(frame, State::Taken)
    }

    fn new(frame: u32, state: State<R, E>) -> Reading<R, E> {
        Reading {
            frame,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// The request is with the engine.
    pub(crate) fn fly(&self, request: R) {
        *self.state.lock() = State::Flying(request);
        // Who came meanwhile takes it over and hurries it.
        self.changed.notify_all();
    }

    /// Takes the request over if nobody has and `when` says so. Never waits.
    pub(crate) fn take_if(&self, when: impl FnOnce(&R) -> bool) -> Option<R> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Flying(request) if when(&request) => Some(request),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Takes the request over, or waits for the thread that has.
    pub(crate) fn take_or_wait(&self) -> Turn<R, E> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Flying(request) => return Turn::Finish(request),
                State::Ended(result) => {
                    *state = State::Ended(result.clone());
                    return Turn::Ended(result);
                }
                other => *state = other,
            }
            self.changed.wait(&mut state);
        }
    }

    /// Is it over?
    pub(crate) fn is_ended(&self) -> bool {
        matches!(*self.state.lock(), State::Ended(_))
    }

    /// The page is in its frame, or cannot be had.
    pub(crate) fn end(&self, result: Result<(), E>) {
        *self.state.lock() = State::Ended(result);
        self.changed.notify_all();
    }
}
