//! Waits that others look at: whose they are, who is told of them, and who ends them.

use super::queue::Waiter;
use super::{LockMode, LockName, TrxId};
use crate::sync::{Arc, Mutex, lock};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Parts of the owners, each with a lock of its own: every transaction that writes
/// enters its owner.
const PARTS: usize = 16;

/// Is told which owner waits for which before it does, and says whether it may.
/// Meanwhile the row's queue is latched.
pub(crate) type Observer = Box<dyn Fn(u64, u64) -> bool + Send + Sync>;

/// What a program calls those that its transactions belong to, a connection perhaps; 0:
/// nobody.
#[derive(Default)]
pub(super) struct Owners {
    of: [Mutex<HashMap<TrxId, u64, RandomState>>; PARTS],
    waiting: Mutex<HashMap<u64, Arc<Waiter>>>,
    observer: OnceLock<Observer>,
}

/// A wait that is noted as its owner's, until it is dropped.
pub(super) struct Noted<'a> {
    owners: &'a Owners,
    owner: u64,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        lock(&self.owners.waiting).remove(&self.owner);
    }
}

impl Owners {
    fn part(&self, trx: TrxId) -> &Mutex<HashMap<TrxId, u64, RandomState>> {
        &self.of[trx.0 as usize % PARTS]
    }

    pub(super) fn enter(&self, trx: TrxId, owner: u64) {
        lock(self.part(trx)).insert(trx, owner);
    }

    pub(super) fn forget(&self, trx: TrxId) {
        lock(self.part(trx)).remove(&trx);
    }

    pub(super) fn of(&self, trx: TrxId) -> u64 {
        lock(self.part(trx)).get(&trx).copied().unwrap_or(0)
    }

    /// Only the first one stays.
    pub(super) fn observe(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    /// From now on the wait can be ended.
    pub(super) fn note(&self, owner: u64, waiter: &Arc<Waiter>) -> Option<Noted<'_>> {
        (owner != 0).then(|| {
            lock(&self.waiting).insert(owner, Arc::clone(waiter));
            Noted {
                owners: self,
                owner,
            }
        })
    }

    /// Tells of a wait for `blockers`, and of those that wait for `trx` from now on.
    /// Whether it may wait.
    pub(super) fn tell(&self, owner: u64, blockers: &[TrxId], behind: &[TrxId]) -> bool {
        let Some(observer) = self.observer.get().filter(|_| owner != 0) else {
            return true;
        };
        for other in behind {
            let waiter = self.of(*other);
            if waiter != 0 {
                observer(waiter, owner);
            }
        }
        // All are told of, also behind one for which it may not wait.
        let may = blockers
            .iter()
            .map(|&other| observer(owner, self.of(other)));
        may.fold(true, |all, this| all & this)
    }

    /// Ends the wait of an owner, if there is one.
    pub(super) fn cancel(&self, owner: u64) -> bool {
        match lock(&self.waiting).get(&owner) {
            Some(waiter) => {
                waiter.cancel();
                true
            }
            None => false,
        }
    }
}

/// A deadlock that there was.
#[derive(Clone, Debug)]
pub(crate) struct Deadlock {
    pub(crate) at: SystemTime,
    /// Who was refused, with its owner.
    pub(crate) victim: (TrxId, u64),
    /// What that wanted.
    pub(crate) wanted: LockName,
    pub(crate) mode: LockMode,
    /// The others: the victim would have waited for the first, each of them waits for
    /// the next, and the last for the victim.
    pub(crate) others: Vec<(TrxId, u64)>,
}
