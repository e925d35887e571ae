//! An embeddable storage manager in InnoDB's structure, all of whose I/O goes
//! through [`iolane`] with a priority.
//!
//! A program works with a [`Store`]: tables of typed columns with a primary key
//! and secondary indexes, and [`Transaction`]s that see snapshots. Below that:
//!
//! | module | subject |
//! |---|---|
//! | `store`, `backup`, `load`, `check` | the store as a whole |
//! | [`txn`], `undo`, `catalog` | transactions, old versions, which tables there are, each read when it is needed first |
//! | [`tree`], [`overflow`], [`data`] | records by key, long values; values, keys and rows as bytes |
//! | [`access`] | the contract between what is above and below: latches, mini-transactions |
//! | [`PageStore`], `pool`, `mini`, `space`, `files`, `flush`, `recovery` | pages in memory and in files, and which of these are open |
//! | `stream` | reading pages ahead of whoever knows which come next |
//! | `policy`, `ledger` | who does I/O, how urgently and how eagerly; what came of it |
//! | [`log`] | the redo log |
//! | [`page`] | what stands in a page, and how it changes |
#![deny(unsafe_code)]
// `pool::model` runs two modules a second time, on other locks.
#![cfg_attr(all(test, feature = "shuttle"), allow(clippy::duplicate_mod))]

pub mod access;
mod attempt;
mod backing;
mod backup;
mod catalog;
mod check;
mod core;
pub mod data;
mod error;
mod failure;
mod files;
mod flush;
pub mod ids;
mod ledger;
mod load;
pub mod log;
mod master;
mod mini;
mod names;
pub mod overflow;
pub mod page;
mod page_store;
mod policy;
mod pool;
mod recovery;
mod space;
mod store;
mod stream;
mod sync;
mod system;
mod table;
mod table_statistics;
mod torn;
pub mod tree;
pub mod txn;
mod undo;
mod unlogged;
mod waits;

pub use backup::Backup;
pub use catalog::{DamagedTable, IndexName};
pub use check::{CheckReport, Finding};
pub use error::StoreError;
pub use flush::{CheckpointReport, FlushStatistics};
pub use ledger::{FileClass, Ledger};
pub use load::Load;
pub use mini::Mini;
#[cfg(feature = "simulated")]
pub use names::SimulatedNames;
pub use names::{DirectoryLock, Names, SystemNames};
pub use page_store::{
    DOUBLEWRITE_FILE, LOG_FILE, PageStore, PageStoreOptions, PageStoreStatistics,
};
pub use policy::{IndexReadAhead, IoPolicy, Preflush, Role, ScanReadAhead};
pub use pool::{POOL_PAGES_MIN, PoolError, PoolStatistics, SharedPage, Stamp};
pub use recovery::{RecoveryProgress, RecoveryReport};
pub use space::SpaceStatistics;
pub use store::{DeadlockMember, DeadlockReport, Store, StoreOptions, StoreStatistics};
pub use stream::{ReadAhead, StreamStatistics, pages_awaited};
pub use table::ROW_BYTES_MAX;
pub use table_statistics::{IndexStatistics, KeyStatistics, TableStatistics};
pub use torn::{TornPages, TornProtection};
pub use tree::Direction;
pub use txn::{
    Cursor, Durability, Error, Isolation, LockError, LockMode, LockedRows, ManyRows, RowChange,
    Rows, Savepoint, Transaction, TransactionOptions, WhenLocked, XID_BYTES_MAX,
};
pub use waits::WaitStatistics;

/// Compiles the example of the page on stores.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/store.md")]
struct StorePage;
