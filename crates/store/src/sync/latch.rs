//! Locks that no panic poisons: those of `parking_lot`, or in `shuttle`'s tests
//! its own with the same faces.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(all(test, feature = "shuttle"))]
pub(crate) use seen::Condvar;
#[cfg(feature = "shuttle")]
pub(crate) use seen::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(feature = "shuttle")]
mod seen {
    use shuttle::sync as shuttle;
    pub(crate) use shuttle::{RwLockReadGuard, RwLockWriteGuard};
    use std::ops::{Deref, DerefMut};

    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::Mutex<T>);
    pub(crate) struct Guard<'a, T>(Option<shuttle::MutexGuard<'a, T>>);
    #[derive(Default)]
    pub(crate) struct RwLock<T>(shuttle::RwLock<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().unwrap()))
        }

        #[cfg(test)]
        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            self.0.try_lock().ok().map(|guard| Guard(Some(guard)))
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("given back by wait")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("given back by wait")
        }
    }

    impl<T> RwLock<T> {
        #[cfg(test)]
        pub(crate) fn new(value: T) -> Self {
            RwLock(shuttle::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap()
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap()
        }
    }

    #[cfg(test)]
    pub(crate) struct Condvar(shuttle::Condvar);

    #[cfg(test)]
    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(shuttle::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            let taken = guard.0.take().expect("held");
            guard.0 = Some(self.0.wait(taken).unwrap());
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
