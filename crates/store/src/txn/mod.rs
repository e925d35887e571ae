//! Transactions: snapshot isolation over [trees](crate::tree) of versions.
//!
//! A row of a table is its newest version, in the leaf of its primary key;
//! older ones are found by roll pointers in undo. A transaction reads what its
//! view sees, and its own changes. Before it changes a row it locks it; if
//! somebody else has committed a change of it since the view was opened, that
//! is a conflict: the first updater wins.
//!
//! A secondary index has an entry (its columns, then the primary key) for each
//! version of a row that anybody may see, and no more information: whether an
//! entry is true for a reader, the reader's version of the row says, unless the row
//! has no unsettled change. So entries
//! are inserted after a change of the row, and removed when the last version
//! with these columns has gone, by a rollback or by purge.
//!
//! | file | subject |
//! |---|---|
//! | `transaction` | a transaction's life: begin, savepoints, commit, rollback |
//! | `views` | who sees what: numbers, views |
//! | `version`, `change` | a version's bytes; how one replaces another |
//! | `read`, `range` | rows, and ranges of rows, as a view sees them |
//! | `cursor` | ranges that leave their transaction free between two rows |
//! | `write`, `change_range` | insert, update, delete; the rows of a range |
//! | `many` | rows whose keys are known beforehand |
//! | `secondary` | entries of secondary indexes |
//! | `unsettled` | which rows have changes that are not settled: the entries of all others are true for everybody |
//! | `rollback`, `purge` | undoing; taking away what nobody sees |
//! | `level` | how urgent its requests are |
//! | `lag` | how far purge is behind, and what writers pay for that |
//! | `locks`, `locking` | row locks, deadlocks; reads that lock |
//! | `prepared` | transactions that are told later whether they commit |

mod change;
mod change_range;
mod cursor;
mod error;
mod lag;
mod level;
mod locking;
pub mod locks;
mod many;
mod many_ranges;
mod prepared;
mod purge;
mod range;
mod read;
mod rollback;
mod secondary;
#[cfg(test)]
mod tests;
mod transaction;
mod unsettled;
pub(crate) mod version;
mod views;
mod write;

pub use change_range::RowChange;
pub use cursor::Cursor;
pub use error::Error;
pub use locking::{LockedRows, WhenLocked};
pub use locks::{LockError, LockMode};
pub use many_ranges::ManyRows;
pub use prepared::XID_BYTES_MAX;
pub use range::Rows;
pub use transaction::{Durability, Isolation, Savepoint, Transaction, TransactionOptions};

pub(crate) use prepared::PreparedTransactions;
pub(crate) use purge::{PURGE_RECORDS, Purge};
pub(crate) use range::encode_bounds;
pub(crate) use secondary::EntryLocks;
pub(crate) use unsettled::Unsettled;
pub(crate) use views::{OpenView, View, Views};
