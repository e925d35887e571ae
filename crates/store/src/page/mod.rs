//! What stands in a page, and the only ways in which it changes.

mod codec;
pub mod header;
mod op;
pub mod slotted;

pub use codec::DecodeError;
pub use op::{Op, OpError};
