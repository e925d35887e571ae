//! The functions of the C library that this one stands in for. Each is as in its
//! manual page; what is the same for several is in `around`.
//!
//! `C-unwind`: a thread that is cancelled unwinds through them. None holds anything
//! that would have to be dropped.

mod aio;
mod around;
mod change;
mod control;
mod end;
mod jump;
mod lock;
mod network;
mod pacing;
mod pieces;
mod process;
mod read;
mod scan;
mod spawn;
mod sync;
mod uring;
mod write;

pub use aio::events_of;
