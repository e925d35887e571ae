//! The functions of libaio, and all unsafe code of the crate.

pub mod abi;
pub(crate) mod descriptor;
pub mod exports;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod ring;
pub(crate) mod runtime;
pub(crate) mod wait;
