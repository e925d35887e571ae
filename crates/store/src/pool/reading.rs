//! One page on its way into memory: who waits for it, and who brings it home.
//!
//! A request that was submitted ahead of need completes without anybody
//! looking. The first thread that comes to the page takes the request over,
//! hurries and awaits it, checks the page and puts it into its frame; all
//! others wait for that thread. So checksums are computed by those who need
//! the page, not by the one thread that serves the device.

use super::primitives::{Condvar, Mutex};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A page's read. `R` is the request, `E` why it failed.
pub(crate) struct Reading<R, E> {
    /// The frame that it will stand in.
    pub(crate) frame: u32,
    /// Somebody will come for the page: its frame is in no queue, so that it
    /// does not leave before.
    held: AtomicBool,
    /// It was when it began: a stream reads it for its consumer.
    ahead: bool,
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

/// Tells those who wait for a reading that its request is done.
struct Done<R, E>(Arc<Reading<R, E>>);

impl<R: Send, E: Send> Wake for Done<R, E> {
    fn wake(self: Arc<Self>) {
        self.0.look_again();
    }
}

impl<R, E> Reading<R, E> {
    /// Lets those who wait look whether they still should.
    pub(crate) fn look_again(&self) {
        // Not between their look and their sleep.
        let _state = self.state.lock();
        self.changed.notify_all();
    }
}

impl<R, E: Clone> Reading<R, E> {
    /// A read that will be [`fly`](Self::fly)ing. If it is `held`, its holder must
    /// [`let_go`](Self::let_go), or whoever ends it without a page.
    pub(crate) fn submitting(frame: u32, held: bool) -> Reading<R, E> {
        Reading {
            held: AtomicBool::new(held),
            ahead: held,
            ..Reading::new(frame, State::Submitting)
        }
    }

    /// A read that its maker carries out itself.
    pub(crate) fn taken(frame: u32) -> Reading<R, E> {
        Reading::new(frame, State::Taken)
    }

    fn new(frame: u32, state: State<R, E>) -> Reading<R, E> {
        Reading {
            frame,
            held: AtomicBool::new(false),
            ahead: false,
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

    /// Does a stream read it for its consumer?
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// Is its frame in no queue?
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Ends that; tells one thread only that it was so.
    pub(crate) fn let_go(&self) -> bool {
        self.held.swap(false, Ordering::Relaxed)
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

    /// As [`take_or_wait`](Self::take_or_wait) for a thread that is in no hurry:
    /// until the request is done it stays where one who is can take it over.
    /// `None` as soon as it `hurries`, of which [`look_again`](Self::look_again)
    /// tells it.
    pub(crate) fn take_when_done(
        self: &Arc<Self>,
        hurries: impl Fn() -> bool,
    ) -> Option<Turn<R::Output, E>>
    where
        R: Future + Unpin + Send + 'static,
        E: Send + 'static,
    {
        let waker = Waker::from(Arc::new(Done(Arc::clone(self))));
        let mut context = Context::from_waker(&waker);
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Flying(mut request) => match Pin::new(&mut request).poll(&mut context) {
                    Poll::Ready(done) => return Some(Turn::Finish(done)),
                    Poll::Pending => *state = State::Flying(request),
                },
                State::Ended(result) => {
                    *state = State::Ended(result.clone());
                    return Some(Turn::Ended(result));
                }
                other => *state = other,
            }
            if hurries() {
                return None;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_without_hurry_leaves_the_request_when_it_hurries() {
        let reading = Arc::new(Reading::<std::future::Pending<()>, ()>::submitting(
            0, false,
        ));
        reading.fly(std::future::pending());
        let hurries = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reading.take_when_done(|| hurries.load(Ordering::SeqCst)));
            hurries.store(true, Ordering::SeqCst);
            reading.look_again();
            assert!(waiting.join().unwrap().is_none());
        });
        assert!(matches!(reading.take_or_wait(), Turn::Finish(_)));
    }
}
