//! Row locks: who may change a row, who waits for whom, and who must give up.
//!
//! A lock is named by an index and a key. Requests of one name are served in
//! their order, but for an upgrade from shared to exclusive, which nothing else
//! can precede. Before a transaction waits it notes whom it waits for; if that
//! closes a circle it is refused at once: the deadlock's last link is its
//! victim, as it has waited least.

mod graph;
mod queue;
#[cfg(test)]
mod tests;

use crate::sync::{Arc, Mutex, lock};
use foldhash::fast::RandomState;
use graph::WaitGraph;
use queue::{Queue, Waiter};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;

/// Names a transaction: given in the order in which they began to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrxId(pub u64);

/// What a lock lets its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Keep others from changing the row.
    Shared,
    /// Change it.
    Exclusive,
}

/// A lock's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockName {
    /// Which index.
    pub index: u64,
    /// Which key in it.
    pub key: Arc<[u8]>,
}

/// Why a lock was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Waiting would never have ended. The transaction must be rolled back:
    /// others wait for it.
    #[error("deadlock with {with} other transactions: roll back and try again")]
    Deadlock {
        /// How many others are in the circle.
        with: usize,
    },
    /// Another transaction kept the row for too long.
    #[error("the row was locked by another transaction for {0:?}: try again, or wait longer")]
    Timeout(Duration),
    /// The table is full.
    #[error("{0} row locks are held: commit in smaller steps, or allow more")]
    TooMany(usize),
}

/// Found by hashes, of which each lock takes several.
type ByName<V> = HashMap<LockName, V, RandomState>;

/// The row locks of a store. Shared by threads.
pub struct LockTable {
    shards: Vec<Mutex<ByName<Queue>>>,
    hasher: RandomState,
    graph: Mutex<WaitGraph>,
    held: AtomicUsize,
    held_max: usize,
}

/// The locks of one transaction. Given back when it is dropped.
pub struct TrxLocks<'a> {
    table: &'a LockTable,
    trx: TrxId,
    held: ByName<LockMode>,
}

impl LockTable {
    /// A table for at most `held_max` locks at a time.
    pub fn new(held_max: usize) -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Mutex::new(ByName::default())).collect(),
            hasher: RandomState::default(),
            graph: Mutex::new(WaitGraph::default()),
            held: AtomicUsize::new(0),
            held_max,
        }
    }

    /// No locks yet, for a transaction.
    pub fn locks(&self, trx: TrxId) -> TrxLocks<'_> {
        TrxLocks {
            table: self,
            trx,
            held: ByName::default(),
        }
    }

    /// How many locks are held, over all transactions.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn shard(&self, name: &LockName) -> &Mutex<ByName<Queue>> {
        let hash = self.hasher.hash_one(name);
        &self.shards[hash as usize % SHARDS]
    }

    /// After somebody has left a queue: lets those go on who can, and notes
    /// whom the others still wait for.
    fn go_on(&self, queues: &mut ByName<Queue>, name: &LockName) {
        let Some(queue) = queues.get_mut(name) else {
            return;
        };
        if queue.is_empty() {
            queues.remove(name);
            return;
        }
        if queue.nobody_waits() {
            return;
        }
        let mut graph = lock(&self.graph);
        queue.grant_waiting(|trx| graph.done(trx));
        for (trx, blockers) in queue.waits() {
            graph.still_waits(trx, blockers);
        }
    }

    fn count_one(&self) -> Result<(), LockError> {
        if self.held.fetch_add(1, Ordering::Relaxed) >= self.held_max {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return Err(LockError::TooMany(self.held_max));
        }
        Ok(())
    }
}

impl TrxLocks<'_> {
    /// Locks a row, and waits `patience` at the most for those who hold it.
    /// Says whether it waited: what was read before may have changed then.
    /// The caller holds no latch.
    ///
    /// # Errors
    /// [`LockError`]. What was held before is still held.
    pub fn lock(
        &mut self,
        name: LockName,
        mode: LockMode,
        patience: Duration,
    ) -> Result<bool, LockError> {
        let before = self.held.get(&name).copied();
        if before.is_some_and(|held| held >= mode) {
            return Ok(false);
        }
        if before.is_none() {
            self.table.count_one()?;
        }
        let result = self.acquire(&name, mode, patience);
        match result {
            Ok(_) => {
                self.held.insert(name, mode);
            }
            Err(_) if before.is_none() => {
                self.table.held.fetch_sub(1, Ordering::Relaxed);
            }
            Err(_) => {}
        }
        result
    }

    fn acquire(
        &self,
        name: &LockName,
        mode: LockMode,
        patience: Duration,
    ) -> Result<bool, LockError> {
        let shard = self.table.shard(name);
        let waiter = {
            let mut queues = lock(shard);
            let queue = queues.entry(name.clone()).or_default();
            if queue.try_grant(self.trx, mode) {
                return Ok(false);
            }
            let (blockers, behind) = (queue.blockers(self.trx, mode), queue.overtaken(self.trx));
            // Under the shard's lock, so that nobody it waits for can be done
            // before this is noted.
            let noted = lock(&self.table.graph).wait(self.trx, &blockers, &behind);
            noted.map_err(|with| LockError::Deadlock { with })?;
            let waiter = Arc::new(Waiter::default());
            queue.enqueue(self.trx, mode, Arc::clone(&waiter));
            waiter
        };
        if !waiter.wait(Instant::now() + patience) {
            let mut queues = lock(shard);
            // It may have been granted since.
            if !waiter.is_granted() {
                let queue = queues.get_mut(name).expect("a queue with a waiter stays");
                queue.withdraw(self.trx);
                lock(&self.table.graph).done(self.trx);
                self.table.go_on(&mut queues, name);
                return Err(LockError::Timeout(patience));
            }
        }
        Ok(true)
    }

    /// Whether this transaction holds a lock at least as strong.
    pub fn holds(&self, name: &LockName, mode: LockMode) -> bool {
        self.held.get(name).is_some_and(|&held| held >= mode)
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Gives all back, and lets those go on who waited.
    pub fn release_all(&mut self) {
        let count = self.held.len();
        for (name, _) in self.held.drain() {
            let mut queues = lock(self.table.shard(&name));
            let queue = queues.get_mut(&name).expect("what is held has a queue");
            queue.release(self.trx);
            self.table.go_on(&mut queues, &name);
        }
        self.table.held.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for TrxLocks<'_> {
    fn drop(&mut self) {
        self.release_all();
    }
}
