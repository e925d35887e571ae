//! `libiolane_store`: the store's interface for C, and for whatever calls C.
//!
//! | module | subject |
//! |---|---|
//! | `failure` | errors as codes and sentences; no panic crosses |
//! | `sys` | the functions of `include/iolane_store.h`, which is made of it, and all unsafe code |
#![deny(unsafe_code)]

mod failure;
#[allow(unsafe_code)]
pub mod sys;
