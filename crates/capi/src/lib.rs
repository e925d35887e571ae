//! `libiolane`: the engine's interface for C, and for whatever calls C.
//!
//! | module | subject |
//! |---|---|
//! | `failure` | errors as codes and sentences |
//! | `queue` | completions for whoever polls or waits for many |
//! | `request` | one submitted request, and who learns of its end |
//! | `sys` | the functions of `include/iolane.h`, which is made of it, and all unsafe code |
#![deny(unsafe_code)]

mod failure;
mod queue;
mod request;
#[allow(unsafe_code)]
pub mod sys;
