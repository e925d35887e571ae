//! Asynchronous reads of lower levels that wait for leave, by place: somebody may come who needs what
//! they read.

use std::collections::BTreeMap;
use std::ops::Range;

use iolane_protocol::{Asked, GATE_URGENT, KIND_READ};

/// A longer one is found by nobody: it would have to be looked for far before the place.
const BYTES_MAX: u32 = 1 << 20;

/// An entry in the table of devices, a file there, the first byte, and the cell.
type Place = (u8, u32, u64, usize);

/// Those of all disks, no more than there are cells.
#[derive(Default)]
pub struct Waiting {
    /// With the byte behind the last.
    ends: BTreeMap<Place, u64>,
}

impl Waiting {
    /// A request waits for leave.
    pub fn note(&mut self, cell: usize, asked: &Asked) {
        let is_it = asked.asynchronous && asked.kind == KIND_READ && !is_urgent(asked);
        if is_it && asked.length <= BYTES_MAX {
            let Range { end, .. } = range(asked);
            self.ends.insert(place(cell, asked), end);
        }
    }

    /// It does not wait any more, or is urgent by now.
    pub fn forget(&mut self, cell: usize, asked: &Asked) {
        if !self.ends.is_empty() {
            self.ends.remove(&place(cell, asked));
        }
    }

    /// Cells of those that read something of what this urgent read wants.
    pub fn wanted_by(&self, asked: &Asked) -> Vec<usize> {
        if self.ends.is_empty() || asked.kind != KIND_READ || !is_urgent(asked) {
            return Vec::new();
        }
        let Range { start, end } = range(asked);
        let first = start.saturating_sub(u64::from(BYTES_MAX));
        let near = (asked.device, asked.file, first, 0)..(asked.device, asked.file, end, 0);
        let overlapping = self.ends.range(near).filter(|entry| *entry.1 > start);
        overlapping.map(|(place, _)| place.3).collect()
    }
}

fn is_urgent(asked: &Asked) -> bool {
    u32::from(asked.level) < GATE_URGENT
}

fn range(asked: &Asked) -> Range<u64> {
    asked.offset..asked.offset.saturating_add(u64::from(asked.length))
}

fn place(cell: usize, asked: &Asked) -> Place {
    (asked.device, asked.file, asked.offset, cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(level: u8, offset: u64, length: u32) -> Asked {
        Asked {
            device: 1,
            kind: KIND_READ,
            level,
            ruled_level: level,
            rule: 0,
            durable: false,
            asynchronous: level > 1,
            file: 9,
            length,
            offset,
            asked_ns: 0,
        }
    }

    #[test]
    fn what_an_urgent_read_wants_is_found() {
        let mut waiting = Waiting::default();
        waiting.note(7, &read(3, 0, 1 << 20));
        waiting.note(8, &read(4, 1 << 20, 4096));
        waiting.note(9, &read(4, 1 << 20, BYTES_MAX + 1));
        assert_eq!(waiting.wanted_by(&read(1, (1 << 20) - 1, 1)), [7]);
        assert_eq!(waiting.wanted_by(&read(1, (1 << 20) - 1, 2)), [7, 8]);
        assert_eq!(waiting.wanted_by(&read(0, 1 << 20, 4096)), [8]);
        assert!(waiting.wanted_by(&read(1, (1 << 20) + 4096, 9)).is_empty());
        assert!(waiting.wanted_by(&read(2, 0, 4096)).is_empty(), "a scan");
        let elsewhere = Asked {
            file: 10,
            ..read(1, 0, 4096)
        };
        assert!(waiting.wanted_by(&elsewhere).is_empty());
        waiting.forget(7, &read(3, 0, 1 << 20));
        assert!(waiting.wanted_by(&read(1, 0, 4096)).is_empty());
    }
}
