//! `libiolane-aio`: libaio's functions on the engine, for programs that use
//! Linux AIO and cannot be changed. To be preloaded, or linked in libaio's
//! place. A request's level is what `aio_reqprio` says, as Hall and Bonnet
//! proposed (2005, section 4.3).
//!
//! | module | subject |
//! |---|---|
//! | `level` | which level an `aio_reqprio` stands for |
//! | `files` | descriptors of the program, as files of the engine |
//! | `context` | what `io_setup` makes: outstanding requests, and their events |
//! | `direct` | requests that go to the kernel at once |
//! | `submit` | control blocks into requests |
//! | `parts` | requests that are carried out in several pieces |
//! | `sys` | the functions, the event ring, and all other unsafe code |
#![deny(unsafe_code)]

mod context;
mod direct;
mod files;
mod level;
mod parts;
mod submit;
#[allow(unsafe_code)]
pub mod sys;
