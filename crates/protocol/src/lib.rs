//! The memory that the broker of `iolane run` shares with the processes under
//! it.
//!
//! A request of a process is a [`Cell`]. What may go to the device at once takes
//! a free cell with one atomic operation and asks nobody; the rest posts the
//! cell and sleeps on its word until the broker grants it. A cell is also the
//! place that a request has: the cells of a process that was killed are all that
//! it had, so the broker gives back exactly those.
//!
//! Every word is atomic, nothing here allocates, and no state depends on more
//! than one store: a process may be killed between any two of them. [`sys`]
//! holds what is not safe: mapping the memory, futexes, the life line.
//!
//! | module | subject |
//! |---|---|
//! | `memory`, `header` | the shared memory; the broker's life line, pulse and bell |
//! | `cell` | one request, which is also its place with the device: who may store which state |
//! | `device` | the gate: what may start without asking |
//! | `rule`, `bits` | compiled rules; sets of news |
//! | `call`, `handshake` | the calls that are caught; how a process gets the memory |
#![deny(unsafe_code)]

mod bits;
mod call;
mod cell;
mod device;
mod handshake;
mod header;
mod memory;
mod rule;
#[allow(unsafe_code)]
pub mod sys;

pub use bits::BitSet;
pub use call::Call;
pub use cell::{Asked, Cell, CellState, KIND_READ, KIND_SYNC, KIND_WRITE};
pub use device::{
    DeviceEntry, DeviceState, GATE_ALL, GATE_NONE, GATE_URGENT, URGENT_RECENT_NS, is_urgent_lately,
};
pub use handshake::{Address, ENVIRONMENT, TOKEN_BYTES, WELCOME_BYTES, Welcome};
pub use header::{CALLS_MAX, Header, MAGIC, ReadAhead, Rings, STOPPED_NS, VERSION};
pub use memory::{
    CELLS_PER_CLIENT, CLIENTS_MAX, ClientEntry, DEVICES_MAX, Memory, RULES_MAX, cell_of, client_of,
};
pub use rule::{
    LEVELS, Operation, PATTERN_BYTES_MAX, Patterns, RuleEntry, RuleTable, UNRULED, glob_matches,
};
