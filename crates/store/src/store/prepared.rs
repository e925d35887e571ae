//! Commits in two phases.

use super::Store;
use crate::txn::{Durability, Error};

impl Store {
    /// The names of the [prepared](crate::Transaction::prepare) transactions that wait to
    /// be committed or rolled back, in their order. After an opening these are all
    /// that were prepared and not ended before.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.system.prepared.names()
    }

    /// Whether a prepared transaction has changed a table, which cannot be dropped then. Where
    /// one is just being ended, perhaps not.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::DamagedTable`], and those of files and pages.
    pub fn is_changed_by_prepared(&self, table: &str) -> Result<bool, Error> {
        self.system.is_changed_by_prepared(table)
    }

    /// Commits a prepared transaction, as durably as the store's options say.
    ///
    /// # Errors
    /// [`Error::UnknownPrepared`]. [`Error::Pages`]: before its record was in the
    /// log, it stays prepared; after that the store has failed, and it shows when it
    /// is opened again whether the commit is in it.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<(), Error> {
        self.commit_prepared_with(xid, self.system.options.durability)
    }

    /// The same, with a durability of its own.
    ///
    /// # Errors
    /// As [`commit_prepared`](Self::commit_prepared).
    pub fn commit_prepared_with(&self, xid: &[u8], durability: Durability) -> Result<(), Error> {
        self.system.commit_prepared(xid, durability)
    }

    /// Undoes all that a prepared transaction has changed, as durably as the store's
    /// options say.
    ///
    /// # Errors
    /// [`Error::UnknownPrepared`]. [`Error::Pages`]: it stays prepared, and what is
    /// left of it can be undone again, or the store has failed.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<(), Error> {
        self.system.rollback_prepared(xid)
    }
}
