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
mod watch;

use crate::stream::Hurry;
use crate::sync::{Arc, Mutex, lock};
use foldhash::fast::RandomState;
use graph::WaitGraph;
use queue::{Queue, Wait, Waiter};
use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use watch::Owners;
pub(crate) use watch::{Deadlock, Observer};

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
#[non_exhaustive]
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
    /// Another transaction has the row locked, and nobody was to be waited for.
    #[error("the row is locked by another transaction")]
    Busy,
    /// Somebody has ended the wait.
    #[error("the wait for a row that another transaction has locked was ended")]
    Cancelled,
    /// The table is full.
    #[error("{0} row locks are held: commit in smaller steps, or allow more")]
    TooMany(usize),
}

/// A name with its hash: each lock is looked for a few times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hashed {
    hash: u64,
    name: LockName,
}

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes the hash that a name brings.
#[derive(Default)]
struct Brought(u64);

impl Hasher for Brought {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a hash is written as a number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type ByName<V> = HashMap<Hashed, V, BuildHasherDefault<Brought>>;

/// The row locks of a store. Shared by threads.
pub struct LockTable {
    shards: Vec<Mutex<ByName<Queue>>>,
    hasher: RandomState,
    graph: Mutex<WaitGraph>,
    /// Of transactions that are in no hurry of their own.
    hurries: Mutex<HashMap<TrxId, Hurry>>,
    owners: Owners,
    last_deadlock: Mutex<Option<Deadlock>>,
    held: AtomicUsize,
    held_max: usize,
}

/// The locks of one transaction. Given back when it is dropped.
pub struct TrxLocks<'a> {
    table: &'a LockTable,
    trx: TrxId,
    /// The table has to be told of its end.
    hurries: bool,
    /// Whose it is, as the program says; 0: nobody's.
    owner: u64,
    held: ByName<LockMode>,
}

/// Locks that are held by nobody's transaction object.
pub(crate) struct DetachedLocks {
    trx: TrxId,
    owner: u64,
    held: ByName<LockMode>,
}

impl LockTable {
    /// Gives locks back to whoever goes on with their transaction.
    pub(crate) fn attach(&self, locks: DetachedLocks) -> TrxLocks<'_> {
        let mut attached = self.locks(locks.trx);
        attached.held = locks.held;
        attached.owner = locks.owner;
        attached
    }

    /// A table for at most `held_max` locks at a time.
    pub fn new(held_max: usize) -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Mutex::new(ByName::default())).collect(),
            hasher: RandomState::default(),
            graph: Mutex::new(WaitGraph::default()),
            hurries: Mutex::default(),
            owners: Owners::default(),
            last_deadlock: Mutex::default(),
            held: AtomicUsize::new(0),
            held_max,
        }
    }

    /// No locks yet, for a transaction.
    pub fn locks(&self, trx: TrxId) -> TrxLocks<'_> {
        self.locks_of(trx, None, 0)
    }

    /// The same; `hurry` is raised when somebody waits for them, and they are the
    /// `owner`'s.
    pub(crate) fn locks_of(&self, trx: TrxId, hurry: Option<Hurry>, owner: u64) -> TrxLocks<'_> {
        if owner != 0 {
            self.owners.enter(trx, owner);
        }
        let hurries = hurry.is_some();
        if let Some(hurry) = hurry {
            lock(&self.hurries).insert(trx, hurry);
        }
        TrxLocks {
            hurries,
            owner,
            table: self,
            trx,
            held: ByName::default(),
        }
    }

    /// How many locks are held, over all transactions.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn hashed(&self, name: LockName) -> Hashed {
        let hash = self.hasher.hash_one(&name);
        Hashed { hash, name }
    }

    fn shard(&self, name: &Hashed) -> &Mutex<ByName<Queue>> {
        // Not by the bits that the maps of the shards go by: the lowest, and
        // the seven highest.
        &self.shards[(name.hash >> 48) as usize % SHARDS]
    }

    /// After somebody has left a queue: lets those go on who can, and notes
    /// whom the others still wait for.
    fn go_on(&self, mut entry: OccupiedEntry<'_, Hashed, Queue>) {
        let queue = entry.get_mut();
        if queue.is_empty() {
            entry.remove();
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

    /// Has somebody told of waits between owners. Only the first one stays.
    pub(crate) fn observe(&self, observer: Observer) {
        self.owners.observe(observer);
    }

    /// Ends the wait of an owner. Returns whether it waited.
    pub(crate) fn cancel(&self, owner: u64) -> bool {
        self.owners.cancel(owner)
    }

    pub(crate) fn last_deadlock(&self) -> Option<Deadlock> {
        lock(&self.last_deadlock).clone()
    }

    fn note_deadlock(&self, victim: TrxId, wanted: LockName, mode: LockMode, others: &[TrxId]) {
        let with_owner = |&trx: &TrxId| (trx, self.owners.of(trx));
        let deadlock = Deadlock {
            at: SystemTime::now(),
            victim: with_owner(&victim),
            wanted,
            mode,
            others: others.iter().map(with_owner).collect(),
        };
        *lock(&self.last_deadlock) = Some(deadlock);
    }

    /// Somebody is going to wait for them.
    fn hurry(&self, blockers: &[TrxId]) {
        let hurries = lock(&self.hurries);
        for hurry in blockers.iter().filter_map(|trx| hurries.get(trx)) {
            hurry.raise();
        }
    }

    fn count_one(&self) -> Result<(), LockError> {
        if self.held.fetch_add(1, Ordering::Relaxed) >= self.held_max {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return Err(LockError::TooMany(self.held_max));
        }
        Ok(())
    }

    /// Says whether it waited.
    fn acquire(
        &self,
        (trx, owner): (TrxId, u64),
        name: &Hashed,
        mode: LockMode,
        patience: Duration,
    ) -> Result<bool, LockError> {
        let shard = self.shard(name);
        let (waiter, noted, may_wait) = {
            let mut queues = lock(shard);
            let queue = queues.entry(name.clone()).or_default();
            if queue.try_grant(trx, mode) {
                return Ok(false);
            }
            if patience.is_zero() {
                return Err(LockError::Busy);
            }
            let (blockers, behind) = (queue.blockers(trx, mode), queue.overtaken(trx));
            // Under the shard's lock, so that nobody it waits for can be done
            // before this is noted.
            let noted = lock(&self.graph).wait(trx, &blockers, &behind);
            if let Err(others) = noted {
                self.note_deadlock(trx, name.name.clone(), mode, &others);
                return Err(LockError::Deadlock { with: others.len() });
            }
            self.hurry(&blockers);
            let waiter = Arc::new(Waiter::default());
            queue.enqueue(trx, mode, Arc::clone(&waiter));
            // Whoever wants to end it finds it from here on, or is asked now, while
            // those it waits for cannot end.
            let noted = self.owners.note(owner, &waiter);
            let may_wait = self.owners.tell(owner, &blockers, &behind);
            (waiter, noted, may_wait)
        };
        let waited = match may_wait {
            true => waiter.wait(Instant::now() + patience),
            false => Wait::Cancelled,
        };
        drop(noted);
        if waited != Wait::Granted {
            let mut queues = lock(shard);
            // It may have been granted since.
            if !waiter.is_granted() {
                let mut entry = queue_of(&mut queues, name.clone());
                entry.get_mut().withdraw(trx);
                lock(&self.graph).done(trx);
                self.go_on(entry);
                return Err(match waited {
                    Wait::Cancelled => LockError::Cancelled,
                    _ => LockError::Timeout(patience),
                });
            }
        }
        Ok(true)
    }
}

/// The queue of a lock that somebody holds or waits for.
fn queue_of(queues: &mut ByName<Queue>, name: Hashed) -> OccupiedEntry<'_, Hashed, Queue> {
    match queues.entry(name) {
        Entry::Occupied(entry) => entry,
        Entry::Vacant(_) => panic!("a lock that is held or waited for has a queue"),
    }
}

impl TrxLocks<'_> {
    /// Locks a row, and waits `patience` at the most for those who hold it; not at
    /// all if that is zero.
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
        let name = self.table.hashed(name);
        let held = self.held.entry(name.clone());
        let is_new = match &held {
            Entry::Occupied(held) if *held.get() >= mode => return Ok(false),
            Entry::Occupied(_) => false,
            Entry::Vacant(_) => true,
        };
        if is_new {
            self.table.count_one()?;
        }
        let result = self
            .table
            .acquire((self.trx, self.owner), &name, mode, patience);
        if result.is_ok() {
            held.insert_entry(mode);
        } else if is_new {
            self.table.held.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Whether this transaction holds a lock at least as strong.
    pub fn holds(&self, name: &LockName, mode: LockMode) -> bool {
        let name = self.table.hashed(name.clone());
        self.held.get(&name).is_some_and(|&held| held >= mode)
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Lets them outlive the borrow of their table, to which they come back with
    /// [`LockTable::attach`].
    pub(crate) fn detach(mut self) -> DetachedLocks {
        DetachedLocks {
            trx: self.trx,
            // They stay the owner's.
            owner: std::mem::take(&mut self.owner),
            held: std::mem::take(&mut self.held),
        }
    }

    /// `hurry` is raised when somebody begins to wait for them.
    pub(super) fn hurry_with(&mut self, hurry: Hurry) {
        self.hurries = true;
        lock(&self.table.hurries).insert(self.trx, hurry);
    }

    /// Whether somebody waits for them.
    pub(super) fn is_waited_for(&self) -> bool {
        lock(&self.table.graph).is_waited_for(self.trx)
    }

    /// Gives all back, and lets those go on who waited.
    pub fn release_all(&mut self) {
        let count = self.held.len();
        for (name, _) in self.held.drain() {
            let mut queues = lock(self.table.shard(&name));
            let mut entry = queue_of(&mut queues, name);
            entry.get_mut().release(self.trx);
            self.table.go_on(entry);
        }
        self.table.held.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for TrxLocks<'_> {
    fn drop(&mut self) {
        self.release_all();
        if self.hurries {
            lock(&self.table.hurries).remove(&self.trx);
        }
        if self.owner != 0 {
            self.table.owners.forget(self.trx);
        }
    }
}
