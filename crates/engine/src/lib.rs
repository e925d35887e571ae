//! Asynchronous I/O with priorities for databases on Linux.
#![deny(unsafe_code)]

pub mod arena;
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        unused_imports,
        reason = "the device layer is to drive the backends"
    )
)]
mod backend;
#[allow(unsafe_code)]
mod sys;

pub use arena::Arena;
pub use backend::{BackendChoice, BackendError, BackendKind, BackendReport};
pub use sys::buffers::{Buffer, IoBuf, IoBufMut};
