//! The disk over the NBD protocol, on a Unix socket: for virtual machines,
//! `nbd-client`, libnbd.
//!
//! Fixed newstyle handshake, simple replies, `READ`, `WRITE`, `FLUSH`, forced
//! unit access; many requests in flight, several connections. After the
//! specification, `doc/proto.md` of the `NetworkBlockDevice/nbd` repository.
//!
//! | file | subject |
//! |---|---|
//! | `protocol` | numbers, and messages to and from bytes |
//! | `handshake` | options until a client has chosen the disk |
//! | `connection` | requests of one client, and answers to it |
//! | `outbox` | answers that the client's socket does not take yet |
//! | `listener` | the socket, and all clients |
//! | `client` | the other side, for measurements and tests |

mod client;
mod connection;
mod handshake;
mod listener;
mod outbox;
mod protocol;

pub use client::{Answer, Receiver, Sender, connect, connect_within, cut_power};
pub use listener::{Nbd, NbdError};
pub use protocol::EXPORT_NAME;
