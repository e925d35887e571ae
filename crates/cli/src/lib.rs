//! The `iolane` command: what is behind its sub-commands.
#![deny(unsafe_code)]

pub mod bench;
#[allow(unsafe_code)]
pub mod sys;
