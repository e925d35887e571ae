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
//! 60 us an answer. What is due before it could be woken is answered by the
//! thread that submitted. Where that is allowed (root), it and the transports'
//! threads go before all ordinary ones: a disk is not slower when its host is
//! busy. And processors are kept from sleeping while requests come to a disk
//! of less than 2 ms: several threads are woken on a request's way.
//!
//! A client sees the model's latency and the transport's round trip on top.
//! That is made up for by a [`Lead`]: answers are sent so much before the
//! model's time as a request with an answer spends on its way, which depends on
//! what was before it ([`Company`]). It is measured at the start
//! ([`RoundTrip`]) and can be set, to zero as well. Where the disk is faster
//! than the transport, the answer goes out at once, and the rest of the lead
//! counts as lateness.
//!
//! What the machine takes for that changes from one second to the next. Where the
//! kernel keeps accounts of what clients see, as it does of a loop device, the
//! lead follows them ([`Server::correct_lead`]): their mean is the model's. Of an
//! NBD client it is seen when it takes an answer off its socket ([`Client`]), and
//! the lead follows that.
//!
//! So an answer must be known before its time. Models foresee the ends of
//! commands where they can ([`Model::foreseen_ns`](crate::Model::foreseen_ns)),
//! and their time is the clock's. One that cannot, as it decides on the way, is
//! run ahead of the clock by the lead: commands that come meanwhile begin at
//! its time, a little late. Such models have moving heads or full buffers, and
//! take milliseconds.
//!
//! # Its end
//!
//! A disk ends as by a power cut ([`Server::power_cut`]), also while it is used:
//! from one moment on nothing is moved and nothing answered but errors, and
//! only then is taken away what the plan's faults left in the disk's cache.

pub mod backing;
mod contents;
mod correction;
mod expected;
pub mod fuse;
mod lead;
mod lone_timer;
pub mod nbd;
mod power;
mod queue;
mod server;
mod state;
mod statistics;
mod waking;

pub use correction::Accounted;
pub use expected::{Arrival, Loop, Taken, closed_loop, latencies_ns, usual_latency_ns};
pub use lead::{Company, Follows, Lead, NotMeasured, RoundTrip};
pub use lone_timer::{AlarmsLate, LoneTimer};
pub use queue::{Queue, Said};
pub use server::{Client, Reply, Request, Server, ServerOptions};
pub use statistics::Statistics;

pub use crate::sys::{go_first, now_ns};
