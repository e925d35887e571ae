//! A table that a transaction makes and fills.

use super::{Expected, Loader};
use crate::backing::Backing;
use crate::catalog::NewTable;
use crate::data::{Row, TableSchema};
use crate::page_store::PageStore;
use crate::system::System;
use crate::txn::{Error, Transaction};

/// A table that is being made and filled, which nobody sees before it is
/// [finished](Self::finish). Dropped before that, nothing is left of it.
///
/// Its rows are the transaction's: others see them when that has committed. The
/// table itself is no part of the transaction: whoever rolls back drops it, too.
/// It is for whoever leads others to a table by a row that the transaction changes,
/// as a dictionary of names does.
pub struct Load<'s, B: Backing = PageStore> {
    system: &'s System<B>,
    trx: u64,
    loader: Loader<'s, B>,
    /// Until it is finished.
    new: Option<NewTable>,
}

impl<'s, B: Backing> Transaction<'s, B> {
    /// Begins to make a table, and to fill it with rows: much faster than inserting
    /// them, and fastest in the order of the primary key.
    ///
    /// ```
    /// # use iolane_store::data::{ColumnType, TableSchema};
    /// # use iolane_store::{Store, StoreOptions};
    /// # let directory = tempfile::tempdir_in("/var/tmp")?;
    /// # let mut options = StoreOptions::default();
    /// # options.pages.pool_bytes = 16 << 20;
    /// # let store = Store::create(directory.path().join("numbers"), &options)?;
    /// let schema = TableSchema::new("squares")
    ///     .column("number", ColumnType::Integer)
    ///     .column("square", ColumnType::Integer)
    ///     .primary_key(["number"]);
    /// let mut transaction = store.begin();
    /// let mut load = transaction.load(&schema)?;
    /// for number in 0..1000 {
    ///     load.push(&transaction, vec![number.into(), (number * number).into()])?;
    /// }
    /// assert_eq!(load.finish(&transaction)?, 1000);
    /// assert!(transaction.get("squares", &[999.into()])?.is_some());
    /// assert!(store.begin().get("squares", &[999.into()])?.is_none());
    /// transaction.commit()?;
    /// # drop(load);
    /// # drop(store);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Schema`], [`Error::Ended`],
    /// [`Error::TooManyWriters`], and those of files and pages.
    pub fn load(&mut self, schema: &TableSchema) -> Result<Load<'s, B>, Error> {
        self.check_open()?;
        schema.validate()?;
        let (system, trx) = (self.system(), self.number()?);
        let _acting = self.acting();
        system.expect_no_table(&schema.name)?;
        let new = system.begin_table(schema)?;
        Ok(Load {
            system,
            trx,
            loader: Loader::new(system, &new.table, trx, Expected::Pages(0)),
            new: Some(new),
        })
    }
}

impl<'s, B: Backing> Load<'s, B> {
    /// # Errors
    /// [`Error::Ended`], also when it is another transaction's.
    fn check(&self, transaction: &Transaction<'s, B>) -> Result<(), Error> {
        transaction.check_open()?;
        match transaction.own() == Some(self.trx) && self.new.is_some() {
            true => Ok(()),
            false => Err(Error::Ended),
        }
    }

    /// Adds a row, for the transaction that has begun it. After an error it can only
    /// be dropped.
    ///
    /// # Errors
    /// Those of rows that do not fit the table, of files and pages.
    pub fn push(&mut self, transaction: &Transaction<'s, B>, row: Row) -> Result<(), Error> {
        self.check(transaction)?;
        let _acting = transaction.acting();
        let new = self.new.as_ref().expect("checked above");
        self.loader.push(&new.table, &row)
    }

    /// The same if all rows came in the order of their keys, and that of `row` is behind
    /// them: there is no other one with it. Otherwise returns false, and nothing has
    /// happened.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_ascending(
        &mut self,
        transaction: &Transaction<'s, B>,
        row: Row,
    ) -> Result<bool, Error> {
        self.check(transaction)?;
        let _acting = transaction.acting();
        let new = self.new.as_ref().expect("checked above");
        let ascends = self.loader.would_ascend(&new.table, &row)?;
        if ascends {
            self.loader.push(&new.table, &row)?;
        }
        Ok(ascends)
    }

    /// Makes the table, for good when this returns, with all rows. Returns how many.
    /// After an error nothing of it is there.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::TableExists`], and those of files and pages.
    pub fn finish(&mut self, transaction: &Transaction<'s, B>) -> Result<u64, Error> {
        self.check(transaction)?;
        let _acting = transaction.acting();
        let new = self.new.as_ref().expect("checked above");
        let rows = self.loader.finish(&new.table)?;
        self.system.add_table(&mut self.new)?;
        Ok(rows)
    }

    /// After [`Error::Duplicate`]: one of the rows of the same key, if it can still
    /// be had.
    ///
    /// # Errors
    /// Those of pages.
    pub fn refused(&self) -> Result<Option<Row>, Error> {
        match &self.new {
            Some(new) => self.loader.refused(&new.table),
            None => Ok(None),
        }
    }
}

impl<B: Backing> Drop for Load<'_, B> {
    fn drop(&mut self) {
        if let Some(new) = self.new.take() {
            // What is under way to its file ends before that goes.
            self.loader.end();
            // What cannot be dropped now is when the store is opened next.
            let _ = self.system.backing.drop_space(new.table.space);
        }
    }
}
