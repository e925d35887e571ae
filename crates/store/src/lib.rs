//! An embeddable storage manager in InnoDB's structure, all of whose I/O goes
//! through [`iolane`] with a priority.
#![deny(unsafe_code)]
// `pool::model` runs two modules a second time, on other locks.
#![cfg_attr(all(test, feature = "shuttle"), allow(clippy::duplicate_mod))]

pub mod access;
mod core;
pub mod data;
mod error;
mod failure;
mod files;
mod flush;
pub mod ids;
pub mod log;
mod mini;
pub mod overflow;
pub mod page;
mod page_store;
mod pool;
mod recovery;
mod space;
mod sync;
pub mod tree;
pub mod txn;

pub use error::StoreError;
pub use flush::FlushStatistics;
pub use mini::Mini;
pub use page_store::{
    DOUBLEWRITE_FILE, LOG_FILE, PageStore, PageStoreOptions, PageStoreStatistics,
};
pub use pool::{POOL_PAGES_MIN, PoolError, PoolStatistics, SharedPage};
pub use recovery::{RecoveryProgress, RecoveryReport};
pub use space::SpaceStatistics;
