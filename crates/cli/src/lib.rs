//! The `iolane` command: what is behind its sub-commands.
//!
//! A program, not a library to build on: it is split off from `main` so that
//! tests can drive every part of it, and it gives no promise to other crates.
//!
//! | module | subject |
//! |---|---|
//! | `commands`, `app` | the list of sub-commands; from the command line to the exit code; completions, manual pages |
//! | `args` | one definition per option, from which parser and help are made |
//! | `bench` | the contract [`bench::Bench`] and one module per measurement |
//! | `demo` | three runs of `bench store` on the disk and three on a modelled volume in memory |
//! | `figures` | the documents' figures, on modelled disks or measured |
//! | `workload` | streams of requests through an engine: closed loops, waiting threads, an open loop |
//! | `target` | what is measured on; refuses what would destroy data |
//! | `kernel_scheduler`, `cleanup`, `survivor` | what a run changes and mounts, and that it is put back however the run ends |
//! | `environment`, `inflight`, `processors` | what is recorded of the machine, and whether other programs used it |
//! | `run` | `iolane run`: the command as a child (`child`), its report (`report`) and page (`page`), the drop-in for a service (`unit`), the mode without a library (`kernel`) |
//! | `disk` | modelled disks: list, show, serve, cut, verify |
//! | `store` | tables from the shell |
//! | `output` | tables, JSON, SVG plots, the HTML page, progress, standard output |
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
