//! Asynchronous I/O with priorities for databases on Linux.
#![deny(unsafe_code)]

pub mod arena;
#[allow(unsafe_code)]
mod sys;

pub use arena::Arena;
pub use sys::buffers::{Buffer, IoBuf, IoBufMut};
