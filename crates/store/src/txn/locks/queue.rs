//! Holders and waiters of one lock.

use super::{LockMode, TrxId};
use crate::sync::{Arc, Condvar, Mutex, lock};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Instant;

/// How far a wait has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    #[default]
    Under,
    Granted,
    /// Somebody has ended it.
    Cancelled,
}

/// A thread that waits for a lock.
#[derive(Default)]
pub(super) struct Waiter {
    state: Mutex<Wait>,
    changed: Condvar,
}

impl Waiter {
    /// Waits until the lock is granted, somebody ends the wait, or it is `until`.
    pub(super) fn wait(&self, until: Instant) -> Wait {
        let mut state = lock(&self.state);
        while *state == Wait::Under {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let result = self.changed.wait_timeout(state, left);
            state = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        *state
    }

    pub(super) fn is_granted(&self) -> bool {
        *lock(&self.state) == Wait::Granted
    }

    fn grant(&self) {
        *lock(&self.state) = Wait::Granted;
        self.changed.notify_one();
    }

    /// Whoever waits gives up, unless the lock is granted before it does.
    pub(super) fn cancel(&self) {
        let mut state = lock(&self.state);
        if *state == Wait::Under {
            *state = Wait::Cancelled;
            self.changed.notify_one();
        }
    }
}

struct Waiting {
    trx: TrxId,
    mode: LockMode,
    waiter: Arc<Waiter>,
}

/// One lock that somebody holds.
#[derive(Default)]
pub(super) struct Queue {
    /// Mostly there is one, who needs no more memory.
    holder: Option<(TrxId, LockMode)>,
    /// Only beside that.
    others: Vec<(TrxId, LockMode)>,
    /// Upgrades first, then the others by arrival.
    waiting: VecDeque<Waiting>,
}

fn compatible(a: LockMode, b: LockMode) -> bool {
    a == LockMode::Shared && b == LockMode::Shared
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.holder.is_none() && self.waiting.is_empty()
    }

    fn holders(&self) -> impl Iterator<Item = (TrxId, LockMode)> {
        self.holder.iter().chain(&self.others).copied()
    }

    pub(super) fn nobody_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    fn holds(&self, trx: TrxId) -> bool {
        self.holders().any(|(holder, _)| holder == trx)
    }

    /// Whether all other holders can bear `trx` in `mode`.
    fn fits(&self, trx: TrxId, mode: LockMode) -> bool {
        self.holders()
            .all(|(holder, held)| holder == trx || compatible(held, mode))
    }

    fn hold(&mut self, trx: TrxId, mode: LockMode) {
        let mut holders = self.holder.iter_mut().chain(&mut self.others);
        match holders.find(|(holder, _)| *holder == trx) {
            Some((_, held)) => *held = mode,
            None => match &self.holder {
                None => self.holder = Some((trx, mode)),
                Some(_) => self.others.push((trx, mode)),
            },
        }
    }

    /// Grants the lock if nobody has to be waited for. A holder overtakes
    /// those who wait: they wait for it in any case.
    pub(super) fn try_grant(&mut self, trx: TrxId, mode: LockMode) -> bool {
        let first = self.waiting.is_empty() || self.holds(trx);
        let granted = first && self.fits(trx, mode);
        if granted {
            self.hold(trx, mode);
        }
        granted
    }

    /// Whom `trx` must wait for if it comes now: holders, and those in front
    /// of it. Every one in front counts, as it is served first even where it
    /// would be compatible.
    pub(super) fn blockers(&self, trx: TrxId, mode: LockMode) -> Vec<TrxId> {
        let upgrade = self.holds(trx);
        let in_front = self.waiting.iter().map(|waiting| waiting.trx);
        self.blockers_with(
            trx,
            mode,
            in_front.filter(|&other| !upgrade || self.holds(other)),
        )
    }

    fn blockers_with(
        &self,
        trx: TrxId,
        mode: LockMode,
        in_front: impl Iterator<Item = TrxId>,
    ) -> Vec<TrxId> {
        self.holders()
            .filter(|&(holder, held)| holder != trx && !compatible(held, mode))
            .map(|(holder, _)| holder)
            .chain(in_front)
            .collect()
    }

    /// Everyone who waits, with whom it waits for.
    pub(super) fn waits(&self) -> impl Iterator<Item = (TrxId, Vec<TrxId>)> {
        self.waiting.iter().enumerate().map(|(at, waiting)| {
            let in_front = self.waiting.iter().take(at).map(|other| other.trx);
            let blockers = self.blockers_with(waiting.trx, waiting.mode, in_front);
            (waiting.trx, blockers)
        })
    }

    /// Who has to wait for `trx` from now on and did not before: those behind
    /// an upgrade.
    pub(super) fn overtaken(&self, trx: TrxId) -> Vec<TrxId> {
        if !self.holds(trx) {
            return Vec::new();
        }
        let waiting = self.waiting.iter().map(|waiting| waiting.trx);
        waiting.filter(|&other| !self.holds(other)).collect()
    }

    pub(super) fn enqueue(&mut self, trx: TrxId, mode: LockMode, waiter: Arc<Waiter>) {
        let waiting = Waiting { trx, mode, waiter };
        if self.holds(trx) {
            let upgrades = self.waiting.iter().take_while(|w| self.holds(w.trx));
            let at = upgrades.count();
            self.waiting.insert(at, waiting);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    pub(super) fn withdraw(&mut self, trx: TrxId) {
        self.waiting.retain(|waiting| waiting.trx != trx);
    }

    pub(super) fn release(&mut self, trx: TrxId) {
        if self.holder.is_some_and(|(holder, _)| holder == trx) {
            self.holder = self.others.pop();
        } else {
            self.others.retain(|&(holder, _)| holder != trx);
        }
    }

    /// Grants to those in front as long as it fits, after telling `granted`.
    pub(super) fn grant_waiting(&mut self, mut granted: impl FnMut(TrxId)) {
        while let Some(first) = self.waiting.front()
            && self.fits(first.trx, first.mode)
        {
            let (trx, mode) = (first.trx, first.mode);
            self.hold(trx, mode);
            granted(trx);
            if let Some(first) = self.waiting.pop_front() {
                first.waiter.grant();
            }
        }
    }
}
