//! The `iolane` command: what is behind its sub-commands.
//!
//! A program, not a library to build on: it is split off from `main` so that
//! tests can drive every part of it, and it gives no promise to other crates.
#![allow(missing_docs)]
#![deny(unsafe_code)]

pub mod app;
pub mod args;
pub mod bench;
pub mod cleanup;
pub mod commands;
pub mod demo;
pub mod disk;
pub mod environment;
pub mod error;
pub mod figures;
pub mod inflight;
pub mod kernel_scheduler;
pub mod output;
pub mod processors;
pub mod run;
pub mod session;
pub mod store;
pub mod survivor;
#[allow(unsafe_code)]
pub mod sys;
pub mod system;
pub mod target;
pub mod workload;
