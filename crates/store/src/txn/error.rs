//! What can go wrong with tables, rows and transactions.

use super::XID_BYTES_MAX;
use super::locks::LockError;
use crate::access::PagesError;
use crate::data::SchemaError;
use crate::error::StoreError;
use crate::overflow::OverflowError;
use crate::tree::TreeError;
use std::time::Duration;

/// What can go wrong with tables, rows and transactions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is a row with this key. The transaction can go on.
    #[error("table {table}: there is a row with the same {key}")]
    Duplicate {
        /// The table.
        table: String,
        /// `primary key`, or the unique index.
        key: String,
    },
    /// Somebody else has changed the row since the transaction's first read.
    /// Its writes to this row cannot succeed any more: roll back and try again.
    #[error(
        "table {table}: the row was changed by another transaction since this one began to read: \
         roll back and try again"
    )]
    WriteConflict {
        /// The table.
        table: String,
    },
    /// A row of a range was to get another primary key.
    #[error(
        "table {table}: a row was to get another primary key: delete it and insert the new one \
         when the range is over"
    )]
    KeyChanged {
        /// The table.
        table: String,
    },
    /// A lock was not given. After a deadlock the transaction has been rolled
    /// back.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// As many transactions write as there are undo slots, and none ended.
    #[error(
        "{slots} transactions write already and none of them ended for {waited:?}: try again, or \
         open the store with more undo slots"
    )]
    TooManyWriters {
        /// Undo slots.
        slots: u32,
        /// How long it has waited.
        waited: Duration,
    },
    /// A prepared transaction has this name already.
    #[error("there is already a prepared transaction {}", name_of(.0))]
    PreparedExists(Vec<u8>),
    /// No prepared transaction has this name.
    #[error("there is no prepared transaction {}", name_of(.0))]
    UnknownPrepared(Vec<u8>),
    /// No name for a prepared transaction.
    #[error("the name of a prepared transaction has 1 to {XID_BYTES_MAX} bytes, not {0}")]
    XidLength(usize),
    /// No such table.
    #[error("there is no table {0:?}")]
    UnknownTable(String),
    /// No such index.
    #[error("table {table} has no index {index:?}")]
    UnknownIndex {
        /// The table.
        table: String,
        /// What was asked for.
        index: String,
    },
    /// There is one of this name.
    #[error("there is already a table {0:?}")]
    TableExists(String),
    /// Transactions have read or changed the table and have not ended.
    #[error("table {0:?} is in use: end the transactions that have read or changed it first")]
    TableInUse(String),
    /// Rows can be loaded in bulk only where there are none.
    #[error("table {0:?} is not empty: bulk loading is for empty tables")]
    NotEmpty(String),
    /// A schema, or a row that is not of its table.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// More or fewer values than a key has columns.
    #[error("{key}: {found} values, it has {expected} columns")]
    KeyLength {
        /// `primary key`, or the index.
        key: String,
        /// Values given.
        found: usize,
        /// Columns.
        expected: usize,
    },
    /// Longer than can be stored.
    #[error("table {table}: {what} of {bytes} bytes, at most {bytes_max} are possible")]
    TooLarge {
        /// The table.
        table: String,
        /// What is too large.
        what: String,
        /// Its bytes.
        bytes: usize,
        /// The most.
        bytes_max: usize,
    },
    /// The transaction has been rolled back, after a deadlock or a failure.
    #[error("the transaction has been rolled back: begin another one")]
    Ended,
    /// Somebody wanted it to end before it had.
    #[error("stopped before the end")]
    Stopped,
    /// A savepoint of another transaction, or one that a rollback to an earlier
    /// one has removed.
    #[error("there is no such savepoint in this transaction")]
    UnknownSavepoint,
    /// A row or an entry that nothing can have written.
    #[error("table {table} is damaged: {reason}; run a check")]
    DamagedRow {
        /// The table.
        table: String,
        /// What is wrong.
        reason: String,
    },
    /// The table is there, but what describes it cannot be read. All other
    /// tables can be used.
    #[error(
        "table {table} is damaged and cannot be used: {reason}; put back what is missing, or drop \
         it and load it from a backup or a dump"
    )]
    DamagedTable {
        /// The table.
        table: String,
        /// What is wrong.
        reason: String,
    },
    /// The row was changed by a transaction that was not rolled back when the
    /// store was opened, as a damaged table would have been needed for that.
    #[error(
        "table {table}: the row was changed by a transaction that can be rolled back only without \
         the damaged tables: drop them, and open the store again"
    )]
    Unfinished {
        /// The table of the row.
        table: String,
    },
    /// The catalogue cannot be read.
    #[error("the catalogue is damaged: {0}")]
    DamagedCatalogue(String),
    /// Files cannot be made, opened or removed.
    #[error(transparent)]
    Files(StoreError),
    /// Pages cannot be had; [`PagesError::Failed`]: the store must be reopened.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A long value is damaged.
    #[error(transparent)]
    Overflow(OverflowError),
    /// A tree is damaged.
    #[error(transparent)]
    Tree(TreeError),
}

impl Error {
    /// Whether what was to be read is damaged, or lost: not to be had by trying
    /// again, and no reason why anything else could not be read.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::DamagedRow { .. }
                | Error::DamagedTable { .. }
                | Error::Pages(PagesError::Unreadable { .. })
                | Error::Overflow(OverflowError::Damaged { .. })
                | Error::Tree(TreeError::Damaged { .. })
        )
    }
}

/// Bytes of any kind, for whoever reads messages.
fn name_of(xid: &[u8]) -> String {
    format!("\"{}\"", xid.escape_ascii())
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Pages(error) => Error::Pages(error),
            error => Error::Files(error),
        }
    }
}

impl From<OverflowError> for Error {
    fn from(error: OverflowError) -> Error {
        match error {
            OverflowError::Pages(error) => Error::Pages(error),
            error => Error::Overflow(error),
        }
    }
}

impl From<TreeError> for Error {
    fn from(error: TreeError) -> Error {
        match error {
            TreeError::Pages(error) => Error::Pages(error),
            TreeError::Stopped => Error::Stopped,
            error => Error::Tree(error),
        }
    }
}
