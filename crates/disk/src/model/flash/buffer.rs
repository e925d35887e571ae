//! Written data on their way to the flash.
//!
//! Data are counted, not kept: positions in the stream of all that was ever
//! written. What lies below [`durable`](Buffer::durable) is programmed.

use std::collections::VecDeque;

/// Data that one die programs in one go.
struct Unit {
    end: u64,
    bytes: u64,
    programmed: bool,
}

pub(super) struct Buffer {
    size_bytes: u64,
    unit_bytes: u64,
    used_bytes: u64,
    /// Positions: what has found room, what went to a die, what is programmed
    /// with all before it.
    accepted: u64,
    dispatched: u64,
    durable: u64,
    /// Up to here a unit goes to a die even if it is not full.
    forced: u64,
    /// Units on dies, in order of position; the first has number
    /// `first_unit`.
    units: VecDeque<Unit>,
    first_unit: u32,
}

impl Buffer {
    pub(super) fn new(size_bytes: u64, unit_bytes: u64, units_max: usize) -> Buffer {
        Buffer {
            size_bytes,
            unit_bytes,
            used_bytes: 0,
            accepted: 0,
            dispatched: 0,
            durable: 0,
            forced: 0,
            units: VecDeque::with_capacity(units_max),
            first_unit: 0,
        }
    }

    /// Takes as much of `bytes` as there is room for.
    pub(super) fn accept(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.size_bytes - self.used_bytes);
        self.used_bytes += taken;
        self.accepted += taken;
        taken
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Lets everything that was accepted go to the flash.
    pub(super) fn force(&mut self) {
        self.forced = self.accepted;
    }

    pub(super) fn has_unit(&self) -> bool {
        self.accepted - self.dispatched >= self.unit_bytes || self.dispatched < self.forced
    }

    /// The next unit, for a die; returns its number.
    pub(super) fn dispatch(&mut self) -> u32 {
        let bytes = (self.accepted - self.dispatched).min(self.unit_bytes);
        self.dispatched += bytes;
        self.units.push_back(Unit {
            end: self.dispatched,
            bytes,
            programmed: false,
        });
        self.first_unit
            .wrapping_add(self.units.len() as u32)
            .wrapping_sub(1)
    }

    /// A unit is programmed: its room is free. Dies finish in any order.
    pub(super) fn programmed(&mut self, unit: u32) {
        let index = unit.wrapping_sub(self.first_unit) as usize;
        self.units[index].programmed = true;
        self.used_bytes -= self.units[index].bytes;
        while let Some(first) = self.units.front()
            && first.programmed
        {
            self.durable = first.end;
            self.first_unit = self.first_unit.wrapping_add(1);
            self.units.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_durable_only_with_all_before_them() {
        let mut buffer = Buffer::new(100, 10, 4);
        assert_eq!(buffer.accept(25), 25);
        let first = buffer.dispatch();
        let second = buffer.dispatch();
        assert!(!buffer.has_unit());
        buffer.programmed(second);
        assert_eq!(buffer.durable(), 0);
        buffer.programmed(first);
        assert_eq!(buffer.durable(), 20);
        buffer.force();
        assert!(buffer.has_unit());
        let rest = buffer.dispatch();
        buffer.programmed(rest);
        assert_eq!(buffer.durable(), buffer.accepted());
        assert!(!buffer.has_unit());
    }

    #[test]
    fn what_finds_no_room_is_left_to_the_caller() {
        let mut buffer = Buffer::new(100, 10, 4);
        assert_eq!(buffer.accept(130), 100);
        assert_eq!(buffer.accept(1), 0);
        let unit = buffer.dispatch();
        assert_eq!(buffer.accept(1), 0);
        buffer.programmed(unit);
        assert_eq!(buffer.accept(30), 10);
    }
}
