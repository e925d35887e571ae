//! The driver's table of transfers in flight: one flight per operation in the
//! backend, its index the operation's token.

use super::flight::{Flight, Target};
use crate::sys::span::Junk;

pub(crate) struct Flights {
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// What the backend can hold.
    capacity: u32,
    junk: Option<Junk>,
    gap_bytes_max: u32,
}

impl Flights {
    pub(crate) fn new(capacity: u32, gap_bytes_max: u32) -> Flights {
        Flights {
            flights: Vec::new(),
            free: Vec::new(),
            capacity,
            junk: None,
            gap_bytes_max,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.flights.len() < self.capacity as usize
    }

    /// An empty flight and its token. Grows by need; memory that ended flights
    /// had is used again.
    pub(crate) fn take(&mut self, target: Target) -> (u32, &mut Flight) {
        let token = match self.free.pop() {
            Some(token) => {
                self.flights[token as usize].reset(target);
                token
            }
            None => {
                assert!(self.flights.len() < self.capacity as usize);
                self.flights.push(Flight::new(target));
                self.flights.len() as u32 - 1
            }
        };
        (token, &mut self.flights[token as usize])
    }

    /// How many are with the backend, or about to be.
    pub(crate) fn in_use(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    pub(crate) fn prepare(&mut self, token: u32) {
        self.flights[token as usize].prepare(&mut self.junk, self.gap_bytes_max);
    }

    pub(crate) fn get(&self, token: u32) -> &Flight {
        &self.flights[token as usize]
    }

    pub(crate) fn get_mut(&mut self, token: u32) -> &mut Flight {
        &mut self.flights[token as usize]
    }

    /// Takes back the flight of `token`, which is done.
    pub(crate) fn give_back(&mut self, token: u32) {
        self.free.push(token);
    }
}
