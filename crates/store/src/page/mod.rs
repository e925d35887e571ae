//! What stands in a page, and the only ways in which it changes.

pub mod header;
mod op;

pub use op::{Op, OpError};
