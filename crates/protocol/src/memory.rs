//! All of it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::futex;
use crate::{BitSet, Cell, DeviceEntry, Header, RuleTable};

/// Processes at a time: PostgreSQL has one for each connection, and its own
/// default is 100.
pub const CLIENTS_MAX: usize = 1024;
/// Requests of one process at a time: InnoDB's defaults let 1024 asynchronous reads wait and
/// as many writes, of which the latter are fewer in practice, and its threads wait beside.
/// A request beyond goes unscheduled, and is counted.
pub const CELLS_PER_CLIENT: usize = 2048;
/// Device numbers: partitions, and file systems that are on no disk.
pub const DEVICES_MAX: usize = 64;
/// Rules: a process keeps those that match a file in the bits of one word.
pub const RULES_MAX: usize = 64;

const CLIENT_WORDS: usize = CLIENTS_MAX / 64;
const CELL_WORDS: usize = CELLS_PER_CLIENT / 64;

/// What the broker knows of a process, and what the process tells it.
#[repr(C, align(64))]
pub struct ClientEntry {
    /// 0: nobody has it.
    used: AtomicU32,
    /// Grows with every grant to an asynchronous request.
    bell: AtomicU32,
    /// Cells of asynchronous requests that were given leave.
    pub grants: BitSet<CELL_WORDS>,
    /// Cells to look at.
    pub news: BitSet<CELL_WORDS>,
}

impl ClientEntry {
    /// The broker gives the entry to a process, or takes it back.
    pub fn set_used(&self, used: bool) {
        self.used.store(u32::from(used), Ordering::Release);
    }

    /// Tells the process that an asynchronous request may go.
    pub fn grant(&self, index: usize) {
        self.grants.insert(index);
        self.ring();
    }

    /// Wakes the process's thread.
    pub fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.bell, 1);
    }

    /// What the process's thread sleeps on.
    pub fn bell(&self) -> &AtomicU32 {
        &self.bell
    }

    /// Whether a process has it.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire) != 0
    }
}

/// The shared memory. All zeros is a valid beginning.
#[repr(C)]
pub struct Memory {
    /// The broker's life and bell.
    pub header: Header,
    /// What matches what; written by the broker before anybody comes.
    pub rules: RuleTable,
    /// Device numbers.
    pub devices: [DeviceEntry; DEVICES_MAX],
    /// Clients with news.
    pub news: BitSet<CLIENT_WORDS>,
    /// Processes.
    pub clients: [ClientEntry; CLIENTS_MAX],
    /// Requests, those of a client side by side.
    pub cells: [Cell; CLIENTS_MAX * CELLS_PER_CLIENT],
}

impl Memory {
    /// Tells the broker to look at a cell, and wakes it if it must do so now.
    pub fn post(&self, cell: usize, urgent: bool) {
        let client = client_of(cell);
        self.clients[client].news.insert(cell % CELLS_PER_CLIENT);
        self.news.insert(client);
        self.header.ring(urgent);
    }

    /// The cells of a client.
    pub fn cells_of(&self, client: usize) -> &[Cell] {
        &self.cells[client * CELLS_PER_CLIENT..][..CELLS_PER_CLIENT]
    }
}

/// Whose cell it is.
pub const fn client_of(cell: usize) -> usize {
    cell / CELLS_PER_CLIENT
}

/// The number of a client's cell.
pub const fn cell_of(client: usize, index: usize) -> usize {
    client * CELLS_PER_CLIENT + index
}
