//! A thread that waits for a write of others.

use crate::sync::{Condvar, Mutex, lock, wait_briefly};
use std::sync::PoisonError;
use std::time::Duration;

/// Each has a lock of its own: those who are woken together would otherwise
/// come for the log's lock together, and go to sleep again at once.
#[derive(Default)]
pub(super) struct Waiter {
    is_told: Mutex<bool>,
    changed: Condvar,
}

impl Waiter {
    /// The write is over, or it is this thread's turn to write.
    pub(super) fn tell(&self) {
        *lock(&self.is_told) = true;
        self.changed.notify_one();
    }

    pub(super) fn wait(&self) {
        let mut is_told = lock(&self.is_told);
        while !*is_told {
            let waited = self.changed.wait(is_told);
            is_told = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same for not much longer than `patience`; whether it was told.
    pub(super) fn wait_briefly(&self, patience: Duration) -> bool {
        let is_told = lock(&self.is_told);
        *is_told || *wait_briefly(&self.changed, &self.is_told, is_told, patience)
    }
}
