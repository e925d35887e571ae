//! Where on the disk the bytes of a file lie: a filesystem as small as it can
//! be.

use crate::completion::lock;
use iolane_disk::{Command, Kind, Model};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;

/// Space is given to files in pieces of this size, on disks of a GiB and up.
const EXTENT_BYTES_MAX: u64 = 1 << 20;

/// And of at least this size.
const EXTENT_BYTES_MIN: u64 = 4096;

/// A disk has at least this many extents, if they need not be smaller than
/// the minimum for it.
const EXTENTS_WANTED: u64 = 1024;

/// Longest command. Longer transfers become several.
const COMMAND_BYTES_MAX: u64 = 1 << 30;

/// The space of one disk.
pub(super) struct Space {
    extent_bytes: u64,
    block_bytes: u64,
    extents: u64,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// Never given out, from here on.
    next: u64,
    given_back: BTreeSet<u64>,
}

/// Extents of one file: number in the file, number on the disk. What was
/// never written has none.
#[derive(Default)]
pub(super) struct Extents(BTreeMap<u64, u64>);

impl Space {
    pub(super) fn new(capacity_bytes: u64, model: Option<&dyn Model>) -> Space {
        let block_bytes = model.map_or(512, |model| u64::from(model.block_bytes()));
        let extent_bytes = (capacity_bytes / EXTENTS_WANTED)
            .clamp(
                EXTENT_BYTES_MIN.max(block_bytes),
                EXTENT_BYTES_MAX.max(block_bytes),
            )
            .next_power_of_two();
        Space {
            extent_bytes,
            block_bytes,
            extents: capacity_bytes / extent_bytes,
            free: Mutex::default(),
        }
    }

    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn numbers(&self, range: &Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.extent_bytes..range.end.div_ceil(self.extent_bytes)
    }

    /// Gives `file` space for `range`, from its beginning as far as there is
    /// any. Returns the end of what it has.
    pub(super) fn allocate(&self, file: &mut Extents, range: Range<u64>) -> u64 {
        let mut free = lock(&self.free);
        for number in self.numbers(&range) {
            if file.0.contains_key(&number) {
                continue;
            }
            let extent = match free.given_back.pop_first() {
                Some(extent) => extent,
                None if free.next < self.extents => {
                    free.next += 1;
                    free.next - 1
                }
                None => return (number * self.extent_bytes).max(range.start),
            };
            file.0.insert(number, extent);
        }
        range.end
    }

    /// Takes back what lies behind `size_bytes`.
    pub(super) fn cut(&self, file: &mut Extents, size_bytes: u64) {
        let behind = file.0.split_off(&size_bytes.div_ceil(self.extent_bytes));
        lock(&self.free).given_back.extend(behind.into_values());
    }

    /// The commands that transfer `range`: whole blocks, neighbours joined.
    /// What has no space needs none.
    pub(super) fn commands(
        &self,
        file: &Extents,
        kind: Kind,
        range: Range<u64>,
        durable: bool,
    ) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let start = range.start / self.block_bytes * self.block_bytes;
        let end = range.end.next_multiple_of(self.block_bytes);
        for number in self.numbers(&range) {
            let Some(extent) = file.0.get(&number) else {
                continue;
            };
            let first = number * self.extent_bytes;
            let from = start.max(first) - first;
            let to = end.min(first + self.extent_bytes) - first;
            let offset = extent * self.extent_bytes + from;
            match commands.last_mut() {
                Some(last)
                    if last.offset + u64::from(last.length) == offset
                        && u64::from(last.length) + to - from <= COMMAND_BYTES_MAX =>
                {
                    last.length += (to - from) as u32;
                }
                _ => commands.push(Command {
                    tag: 0,
                    kind,
                    offset,
                    length: (to - from) as u32,
                    durable,
                }),
            }
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(commands: &[Command]) -> Vec<(u64, u32)> {
        commands
            .iter()
            .map(|command| (command.offset, command.length))
            .collect()
    }

    #[test]
    fn neighbours_on_the_disk_are_one_command() {
        let space = Space::new(1 << 30, None);
        let (mut one, mut two) = (Extents::default(), Extents::default());
        let mib = 1 << 20;
        assert_eq!(space.allocate(&mut one, 0..2 * mib), 2 * mib);
        space.allocate(&mut two, 100..200);
        space.allocate(&mut one, 2 * mib..2 * mib + 1);
        let of = |file, range| space.commands(file, Kind::Read, range, false);
        assert_eq!(
            ranges(&of(&one, 100..3 * mib)),
            [(0, 2 << 20), (3 << 20, 1 << 20)]
        );
        assert_eq!(ranges(&of(&two, 100..700)), [(2 << 20, 1024)]);
        assert_eq!(ranges(&of(&one, 100..100)), []);
        // A hole.
        assert_eq!(ranges(&of(&two, 5 * mib..6 * mib)), []);
    }

    #[test]
    fn a_full_disk_gives_what_it_has_and_gets_back_what_is_cut() {
        let space = Space::new(4 * 4096, None);
        let (mut one, mut two) = (Extents::default(), Extents::default());
        assert_eq!(space.allocate(&mut one, 0..3 * 4096), 3 * 4096);
        assert_eq!(space.allocate(&mut two, 0..3 * 4096), 4096);
        assert_eq!(space.allocate(&mut two, 4096..3 * 4096), 4096);
        assert_eq!(space.allocate(&mut two, 5000..3 * 4096), 5000);
        space.cut(&mut one, 4097);
        assert_eq!(space.allocate(&mut two, 4096..3 * 4096), 2 * 4096);
    }
}
