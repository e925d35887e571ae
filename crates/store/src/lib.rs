//! An embeddable storage manager in InnoDB's structure, all of whose I/O goes
//! through [`iolane`] with a priority.
#![deny(unsafe_code)]

pub mod access;
pub mod ids;
pub mod overflow;
pub mod page;
pub mod tree;
