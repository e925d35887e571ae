//! One submitted request, and who learns of its end.

use crate::failure::Failure;
use crate::queue::Queue;
use crate::sys::callback::{Callback, User};
use crate::sys::error::iolane_error;
use crate::sys::queue::iolane_completion;
use engine::{Completion, Level, Process, Ticket};
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// Who learns of it beside those who wait for the request itself.
pub(crate) enum Then {
    Nobody,
    Callback(Callback),
    Queue(Arc<Queue>, User),
}

/// What the caller's handle and the engine have in common.
pub(crate) struct Request {
    outcome: Mutex<Option<Result<u64, Failure>>>,
    done: Condvar,
    then: Then,
    ticket: OnceLock<Ticket>,
    process: Process,
}

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

impl Request {
    pub(crate) fn new(then: Then) -> Arc<Request> {
        Arc::new(Request {
            outcome: Mutex::new(None),
            done: Condvar::new(),
            then,
            ticket: OnceLock::new(),
            process: Process::this(),
        })
    }

    /// Set before the request is submitted.
    pub(crate) fn set_ticket(&self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            // Set once: a request is submitted once.
            let _ = self.ticket.set(ticket);
        }
    }

    /// Does anyone but the holder of the handle learn of the end?
    pub(crate) fn is_announced(&self) -> bool {
        !matches!(self.then, Then::Nobody)
    }

    /// It was not accepted after all.
    pub(crate) fn refused(&self) {
        if let Then::Queue(queue, _) = &self.then {
            queue.release();
        }
    }

    /// The engine is done with it.
    pub(crate) fn completed<B>(&self, completion: Completion<B>) {
        let result = completion.result;
        self.finish(result.map(|bytes| bytes as u64).map_err(Failure::from));
    }

    fn finish(&self, outcome: Result<u64, Failure>) {
        // First, so that it is there when a wait for the request has ended.
        if let Then::Queue(queue, user) = &self.then {
            queue.push(completion_of(*user, &outcome));
        }
        let told = match &self.then {
            Then::Callback(callback) => Some((callback, outcome.clone())),
            _ => None,
        };
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.done.notify_all();
        if let Some((callback, outcome)) = told {
            let result = crate::failure::number_of(outcome);
            let outer = IN_CALLBACK.replace(true);
            callback.call(result);
            IN_CALLBACK.set(outer);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        !self.process.is_this()
            || self
                .outcome
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some()
    }

    pub(crate) fn wait(&self) -> Result<u64, Failure> {
        if !self.process.is_this() {
            return Err(Failure::forked());
        }
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            if IN_CALLBACK.get() {
                return Err(Failure::new(
                    iolane_error::IOLANE_ERROR_IN_CALLBACK,
                    "a callback cannot wait for a request: it runs on the thread that completes them",
                ));
            }
            outcome = self
                .done
                .wait(outcome)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn promote(&self, level: Level) -> bool {
        self.ticket
            .get()
            .is_some_and(|ticket| ticket.promote(level))
    }

    /// Withdraws it; then it has completed.
    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.ticket.get().is_some_and(Ticket::cancel);
        if cancelled {
            self.finish(Err(Failure::new(
                iolane_error::IOLANE_ERROR_CANCELLED,
                "the request was withdrawn before it went to the device",
            )));
        }
        cancelled
    }
}

fn completion_of(user: User, outcome: &Result<u64, Failure>) -> iolane_completion {
    let (result, os_error) = match outcome {
        Ok(bytes) => (*bytes as i64, 0),
        Err(failure) => (i64::from(failure.code as i32), failure.os_error),
    };
    iolane_completion {
        user: user.pointer(),
        result,
        os_error,
    }
}
