//! Waits for rows: who is told of them, who ends them, and the last deadlock.

use super::Store;
use crate::catalog::IndexName;
use crate::txn::LockMode;
use crate::txn::locks::{Deadlock, TrxId};
use std::fmt;
use std::time::SystemTime;

/// Bytes of a key that a report shows.
const KEY_BYTES_SHOWN: usize = 64;

/// A transaction of a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockMember {
    /// Its number.
    pub transaction: u64,
    /// Whose it was, as [`Transaction::set_owner`](crate::Transaction::set_owner) says.
    pub owner: u64,
}

/// A deadlock that there was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadlockReport {
    /// When.
    pub at: SystemTime,
    /// Who was rolled back.
    pub victim: DeadlockMember,
    /// How that wanted to lock a row ...
    pub mode: LockMode,
    /// ... of which table and index; `None`: it has been dropped.
    pub index: Option<IndexName>,
    /// The row's key there, as it is stored.
    pub key: Vec<u8>,
    /// The others. The victim waited for the first of them, each of them for the next,
    /// and the last for the victim.
    pub others: Vec<DeadlockMember>,
}

impl fmt::Display for DeadlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            LockMode::Shared => "shared",
            LockMode::Exclusive => "exclusive",
        };
        let shown = &self.key[..self.key.len().min(KEY_BYTES_SHOWN)];
        let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
        let dots = if shown.len() < self.key.len() {
            "..."
        } else {
            ""
        };
        write!(f, "transaction {} ", self.victim.transaction)?;
        write!(
            f,
            "(owner {}) wanted {mode} key {hex}{dots} of ",
            self.victim.owner
        )?;
        match &self.index {
            None => write!(f, "a table that has been dropped")?,
            Some(name) => match &name.index {
                None => write!(f, "table {}", name.table)?,
                Some(index) => write!(f, "table {}, index {index}", name.table)?,
            },
        }
        for other in &self.others {
            write!(f, ", waiting for transaction {} ", other.transaction)?;
            write!(f, "(owner {})", other.owner)?;
        }
        write!(f, ", waiting for it: it was rolled back")
    }
}

impl Store {
    /// Has `observer` called before a transaction waits for a lock, with its owner and
    /// that of each one that it waits for, as
    /// [`Transaction::set_owner`](crate::Transaction::set_owner) says; 0 for one that is
    /// nobody's. Transactions that are nobody's wait without being told of. Where it
    /// returns `false` for one of them, the wait is over:
    /// [`LockError::Cancelled`](crate::LockError::Cancelled). Those that are waited for do
    /// not end meanwhile; so it should be quick, and must not use the store. Only the
    /// first observer stays.
    pub fn observe_waits(&self, observer: impl Fn(u64, u64) -> bool + Send + Sync + 'static) {
        self.system.locks.observe(Box::new(observer));
    }

    /// Ends the wait for a lock of an owner's transaction, if it waits:
    /// [`LockError::Cancelled`](crate::LockError::Cancelled). It can go on, and wait
    /// again. Returns whether it waited. One that is about to wait is not told:
    /// it asks [who observes](Self::observe_waits) after it can be found here.
    pub fn cancel_wait(&self, owner: u64) -> bool {
        self.system.locks.cancel(owner)
    }

    /// The last deadlock since the store was opened.
    pub fn last_deadlock(&self) -> Option<DeadlockReport> {
        let Deadlock {
            at,
            victim,
            wanted,
            mode,
            others,
        } = self.system.locks.last_deadlock()?;
        let member = |(TrxId(transaction), owner)| DeadlockMember { transaction, owner };
        Some(DeadlockReport {
            at,
            victim: member(victim),
            mode,
            index: self.system.catalog.index_name(wanted.index),
            key: wanted.key.to_vec(),
            others: others.into_iter().map(member).collect(),
        })
    }
}
