//! The C interface, and all unsafe code of the crate.
//!
//! What C promises by the documentation of each function, and Rust cannot
//! check, is in the `SAFETY` comments: pointers are NULL or from the function
//! that makes such objects and not freed, memory of a request stays until it
//! has completed.
#![allow(
    non_camel_case_types,
    clippy::missing_safety_doc,
    reason = "names and contracts as C has them: a pointer is NULL or valid"
)]

pub mod buffer;
pub(crate) mod callback;
pub mod engine;
pub mod error;
pub(crate) mod eventfd;
pub mod file;
pub mod io;
pub(crate) mod pointers;
pub mod queue;
pub mod request;
pub mod statistics;
