//! The C interface, and all unsafe code of the crate.
//!
//! What C promises by the documentation of each function, and Rust cannot
//! check, is in the `SAFETY` comments: pointers are NULL or from the function
//! that makes such objects and not freed, and memory is as long as is said.
#![allow(
    non_camel_case_types,
    clippy::missing_safety_doc,
    reason = "names and contracts as C has them: a pointer is NULL or valid"
)]

pub mod backup;
pub mod cursor;
pub mod error;
pub mod load;
pub mod options;
pub(crate) mod pointers;
pub mod row;
pub mod statistics;
pub mod store;
pub mod transaction;
pub mod waits;
