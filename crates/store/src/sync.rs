//! Locks and condition variables: those of the standard library, or those of
//! `shuttle` in its tests, which runs every thread's steps in many orders.

pub(crate) mod latch;

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
use std::thread::yield_now;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
use shuttle::thread::yield_now;

use std::sync::PoisonError;
use std::time::Duration;

/// A lock that a panicking thread held is as good as any: what it protects is
/// consistent whenever code that may panic runs.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until it is notified, but not much longer than `patience`: the kernel
/// may add its timer slack, by default 50 us. No time passes for `shuttle`: there
/// it is over when others have come any distance.
pub(crate) fn wait_briefly<'a, T>(
    condition: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    patience: Duration,
) -> MutexGuard<'a, T> {
    if cfg!(feature = "shuttle") {
        drop(guard);
        yield_now();
        return lock(mutex);
    }
    let waited = condition.wait_timeout(guard, patience);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
