//! Modelled disks in real time.
//!
//! ```text
//!  kernel --FUSE--> fuse  \            /-> Queue(Model)   when
//!                          -> Server --
//!  client --NBD---> nbd   /            \-> Medium         what
//! ```
//!
//! A transport's thread hands an operation to the [`Server`], which stamps it,
//! gives it to the model, and transfers the data at once, on that same thread:
//! several threads take turns at reading requests, so that one that waits for
//! the backing file holds up nobody else. The answer waits until the model
//! says that the disk has it: one timing thread sends all answers.
//!
//! # Whose time it is
//!
//! The model's clock is the machine's, but never suffers from its delays: a
//! command that the host held back goes to the disk at the instant at which
//! the model made room, not when the timing thread woke up for it. What is
//! late is late once, and counted ([`Statistics`]).
//!
//! The timing thread sleeps on a timer of the kernel. What the kernel takes to
//! wake it, some 20 us on a virtual machine that was idle, it learns, sets the
//! alarm that much earlier, and spins for the rest: never for longer than
//! 60 us an answer. Where that is allowed (root), it and the transports'
//! threads go before all ordinary ones: a disk is not slower when its host is
//! busy.
//!
//! A client sees the model's latency and the transport's round trip on top.
//! That is made up for by a [`Lead`]: answers are sent so much before the
//! model's time as a request with an answer spends on its way. It is measured
//! at the start ([`measure_lead`]) and can be set, to zero as well. Where the
//! disk is faster than the transport, the answer goes out at once, and the
//! rest of the lead counts as lateness.

pub mod backing;
mod contents;
mod expected;
pub mod fuse;
mod lead;
mod lone_timer;
pub mod nbd;
mod queue;
mod server;
mod statistics;
mod waking;

pub use expected::{Arrival, Loop, Taken, closed_loop, latencies_ns};
pub use lead::{Lead, NotMeasured, measure_lead, round_trip_server};
pub use lone_timer::{AlarmsLate, LoneTimer};
pub use queue::Queue;
pub use server::{Reply, Request, Server, ServerOptions};
pub use statistics::Statistics;

pub use crate::sys::{go_first, now_ns};
