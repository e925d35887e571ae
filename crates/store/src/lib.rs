//! An embeddable storage manager in InnoDB's structure, all of whose I/O goes
//! through [`iolane`] with a priority.
#![deny(unsafe_code)]

pub mod access;
mod attempt;
mod backing;
mod catalog;
pub mod data;
pub mod ids;
pub mod log;
mod long;
mod master;
pub mod overflow;
pub mod page;
mod sync;
mod system;
mod table;
pub mod tree;
pub mod txn;
mod undo;
