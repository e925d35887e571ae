//! The crate's unsafe code: system calls and raw memory behind safe types.

pub(crate) mod buffers;
pub(crate) mod memory;
