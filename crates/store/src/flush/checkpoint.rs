//! Checkpoints that somebody has asked for, and waits for.
//!
//! Who asks notes the end of the log as it is then, and waits until the log's
//! checkpoint is there. The flusher writes all pages whose changes begin before
//! it, somewhat more urgently than it would; nobody else notices.

use crate::access::PagesError;
use crate::core::Core;
use crate::ids::Lsn;
use parking_lot::{Condvar, Mutex};

/// What [`Store::checkpoint`](crate::Store::checkpoint) found and did.
///
/// Pages are counted while it waited, whoever made it necessary to write them:
/// the flusher does not write one page for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Where redo would have begun before.
    pub from: Lsn,
    /// The end of the log when it was asked for.
    pub target: Lsn,
    /// Where redo would begin now: at `target` or behind it.
    pub to: Lsn,
    /// Pages that reached their places meanwhile.
    pub pages: u64,
    /// Bytes of these pages, without their copies in the doublewrite area.
    pub bytes: u64,
}

/// Those who wait for a checkpoint.
#[derive(Default)]
pub(crate) struct Asked {
    /// The end of the log when each of them asked.
    targets: Mutex<Vec<Lsn>>,
    /// The checkpoint has moved, or never will again.
    changed: Condvar,
}

/// What they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// With a checkpoint here the first of them is served ...
    pub(super) nearest: Lsn,
    /// ... and here all are.
    pub(super) farthest: Lsn,
}

impl Asked {
    /// What is waited for, with a checkpoint at `now`.
    pub(super) fn wanted(&self, now: Lsn) -> Option<Wanted> {
        let targets = self.targets.lock();
        // Who has what he wants may not have woken yet.
        let open = || targets.iter().copied().filter(|&target| target > now);
        Some(Wanted {
            nearest: open().min()?,
            farthest: open().max()?,
        })
    }

    /// Whoever waits looks again.
    pub(crate) fn look_again(&self) {
        // Under the lock: nobody is between his look and his sleep.
        let _targets = self.targets.lock();
        self.changed.notify_all();
    }

    /// Waits until `done` says so, or fails. Calls `wake` once it is noted what
    /// is waited for.
    fn wait<E>(
        &self,
        target: Lsn,
        wake: impl FnOnce(),
        mut done: impl FnMut() -> Result<bool, E>,
    ) -> Result<(), E> {
        self.targets.lock().push(target);
        wake();
        let mut targets = self.targets.lock();
        let result = loop {
            match done() {
                Ok(true) => break Ok(()),
                Ok(false) => self.changed.wait(&mut targets),
                Err(error) => break Err(error),
            }
        };
        let own = targets.iter().position(|&other| other == target);
        targets.swap_remove(own.expect("noted above"));
        result
    }
}

impl Core {
    /// Waits until the log's checkpoint is where its end is now.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport, PagesError> {
        self.pool.failure.check()?;
        let from = self.log.checkpoint_lsn();
        let target = self.log.end();
        let before = self.flushed.read().pages;
        self.asked.wait(
            target,
            || self.bell.ring(),
            || {
                self.pool.failure.check()?;
                Ok::<_, PagesError>(self.log.checkpoint_lsn() >= target)
            },
        )?;
        self.flushed.asked();
        let pages = self.flushed.read().pages - before;
        Ok(CheckpointReport {
            from,
            target,
            to: self.log.checkpoint_lsn(),
            pages,
            bytes: pages * self.pool.page_bytes() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_served_is_no_longer_wanted() {
        let asked = Asked::default();
        assert_eq!(asked.wanted(Lsn(0)), None);
        *asked.targets.lock() = vec![Lsn(30), Lsn(10), Lsn(20)];
        let wanted = |now| {
            let wanted = asked.wanted(Lsn(now))?;
            Some((wanted.nearest.0, wanted.farthest.0))
        };
        assert_eq!(wanted(0), Some((10, 30)));
        assert_eq!(wanted(10), Some((20, 30)));
        assert_eq!(wanted(29), Some((30, 30)));
        assert_eq!(wanted(30), None);
    }

    #[test]
    fn each_waits_for_its_own_and_leaves_nothing() {
        let asked = Asked::default();
        let reached = Mutex::new(0);
        std::thread::scope(|scope| {
            let waits = [20, 10].map(|target| {
                let (asked, reached) = (&asked, &reached);
                scope.spawn(move || {
                    asked.wait(
                        Lsn(target),
                        || (),
                        || Ok::<_, ()>(*reached.lock() >= target),
                    )
                })
            });
            while asked.targets.lock().len() < 2 {
                std::thread::yield_now();
            }
            for now in [10, 20] {
                *reached.lock() = now;
                asked.look_again();
            }
            for wait in waits {
                assert_eq!(wait.join().unwrap(), Ok(()));
            }
        });
        assert_eq!(asked.wait(Lsn(5), || (), || Err("failed")), Err("failed"));
        assert!(asked.targets.lock().is_empty());
    }
}
