//! An embeddable storage manager in InnoDB's structure, all of whose I/O goes
//! through [`iolane`] with a priority.
#![deny(unsafe_code)]

pub mod access;
pub mod data;
pub mod ids;
pub mod log;
pub mod overflow;
pub mod page;
mod sync;
pub mod tree;
pub mod txn;
