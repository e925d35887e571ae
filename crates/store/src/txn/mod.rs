//! Transactions.

pub mod locks;
