//! Locks and condition variables: those of the standard library, or those of
//! `shuttle` in its tests, which runs every thread's steps in many orders.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread::yield_now;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread::yield_now;

use std::sync::PoisonError;

/// A lock that a panicking thread held is as good as any: what it protects is
/// consistent whenever code that may panic runs.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
