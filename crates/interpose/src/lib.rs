//! The library that `iolane run` preloads (`LD_PRELOAD`).
//!
//! It stands in for the calls with which databases read, write and sync, asks
//! the broker for leave where that is needed (`ticket`), and lets the process do
//! its own system call. What is asked goes by rules on the file, the operation
//! and the thread (`descriptor`, `thread`). Where it is asked for, it reads ahead for
//! InnoDB (`ahead`).
//!
//! Without its environment variable it does nothing. When the broker is gone
//! it does nothing any more. A hook allocates nothing, takes no lock, changes
//! `errno` only as the call itself does, and keeps nothing that a fork would
//! break: who the process is lies in a page that the kernel empties in a child.
//!
//! | module | subject |
//! |---|---|
//! | `sys/hooks` | the functions that are replaced; `around` is what they share: what passes, read-ahead of scans, paced write-back |
//! | `ticket` | leave for one request: judge, take a cell, wait, give back |
//! | `unfinished` | calls that a signal's handler jumped out of |
//! | `asynchronous`, `contexts` | Linux AIO: what has to wait is parked, and submitted by a thread of the library; how much a context has room for |
//! | `rings` | io_uring by liburing: requests are taken out of the program's ring, go by Linux AIO, and end in the ring |
//! | `gather` | asynchronous reads that nobody waits for: neighbours go as one request, and end each by itself |
//! | `latch` | threads that sleep on a lock until a page was written make that write more urgent |
//! | `ahead` | logical read-ahead for InnoDB: what a page says (`page`), the order of leaves and who follows it (`order`), pages that were read ahead (`shelf`), what is being written (`writing`), which files nobody else can change unseen (`custody`), what threads tell (`mailbox`) the one that reads (`reader`) |
//! | `descriptor`, `thread`, `client` | what is remembered of a descriptor, a thread, the process |
#![deny(unsafe_code)]

mod ahead;
mod asynchronous;
mod client;
mod contexts;
mod descriptor;
mod gather;
mod latch;
mod rings;
#[allow(unsafe_code)]
mod sys;
mod thread;
mod ticket;
mod unfinished;
