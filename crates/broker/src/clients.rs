//! Where the requests of processes stand, as the broker knows it.

use iolane_protocol::{Asked, CELLS_PER_CLIENT, CLIENTS_MAX};
use iolane_sched::RequestId;

/// Of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known of a request in it.
    #[default]
    Unknown,
    /// It waits.
    Queued(RequestId, Asked),
    /// It is with the device.
    Flying(RequestId, Asked),
    /// It is with the device, or has ended, and not in the scheduler's account.
    Loose(Asked),
    /// It has ended, and all is noted; its process will free its cell.
    Landed,
}

/// Of all cells; those of a client take memory once it has come.
pub struct Standings {
    clients: Vec<Option<Box<[Standing]>>>,
}

impl Standings {
    pub fn new() -> Standings {
        Standings {
            clients: vec![None; CLIENTS_MAX],
        }
    }

    pub fn of(&mut self, cell: usize) -> &mut Standing {
        let client = iolane_protocol::client_of(cell);
        let cells = self.clients[client]
            .get_or_insert_with(|| vec![Standing::Unknown; CELLS_PER_CLIENT].into());
        &mut cells[cell % CELLS_PER_CLIENT]
    }

    /// Takes out what is known of a client.
    pub fn take(&mut self, client: usize) -> Vec<Standing> {
        self.clients[client]
            .take()
            .map_or_else(Vec::new, <[Standing]>::into_vec)
    }
}
