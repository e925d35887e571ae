//! Writes that arrive whole or not at all, whatever happens to the power.

use super::{As, File};
use crate::error::{Cause, Error, Operation};
use crate::sys::statx::{AtomicUnits, atomic_units};
use std::fs;
use std::sync::Arc;

/// Which writes of a file can arrive whole or not at all: a power of two of
/// bytes between two, at a multiple of their length.
///
/// Linux tells since 6.11 (`STATX_WRITE_ATOMIC`); the device must be able to
/// (NVMe does by its AWUPF, SCSI by WRITE ATOMIC), and the filesystem must hand
/// it on (block devices themselves, XFS and ext4 since 6.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicWriteUnit {
    /// The shortest.
    pub min_bytes: u32,
    /// The longest.
    pub max_bytes: u32,
}

impl AtomicWriteUnit {
    /// Can a write of this length, at a multiple of it, arrive whole?
    pub fn allows(&self, length: u64) -> bool {
        length.is_power_of_two()
            && (u64::from(self.min_bytes)..=u64::from(self.max_bytes)).contains(&length)
    }

    /// What the kernel says of a file. One that does not tell has none.
    pub(crate) fn of(file: &fs::File) -> Option<AtomicWriteUnit> {
        let AtomicUnits {
            min_bytes,
            max_bytes,
            segments_max,
        } = atomic_units(file).ok().flatten()?;
        // A request has its memory in one piece.
        (segments_max >= 1).then_some(AtomicWriteUnit {
            min_bytes,
            max_bytes,
        })
    }
}

impl File {
    /// Which writes can arrive whole or not at all. `None`: the kernel, the
    /// filesystem or the device does not offer it, or the file is not
    /// [direct](crate::OpenOptions::direct).
    pub fn atomic_write_unit(&self) -> Option<AtomicWriteUnit> {
        self.0.atomic
    }

    /// The same file by a handle each of whose writes arrives whole or not at
    /// all (`RWF_ATOMIC`); reads and syncs are as by any other. `None` where
    /// [`atomic_write_unit`](File::atomic_write_unit) is.
    ///
    /// Each write is one operation of the device: it is merged with no other.
    /// One that is no power of two, not at a multiple of its length or outside
    /// of the unit is refused ([`Cause::NotAtomic`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use iolane::{Engine, Level, OpenOptions, SimulatedDisk};
    /// // A real file has it where kernel, filesystem and device agree.
    /// let disk = SimulatedDisk::builder().atomic_unit(4096, 65536).build()?;
    /// let engine = Engine::builder().simulated(&disk).build()?;
    /// let file = engine.open(
    ///     "table",
    ///     OpenOptions::new().read(true).write(true).create(true).direct(true),
    /// )?;
    /// let page = [7; 16384];
    /// if let Some(whole) = file.atomic() {
    ///     whole.write_at(&page, 5 * 16384, Level::Normal)?;
    ///     assert!(whole.write_at(&page, 4096, Level::Normal).is_err());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn atomic(&self) -> Option<File> {
        self.0.atomic?;
        let (shared, atomic) = (Arc::clone(&self.0), true);
        Some(File(shared, As { atomic, ..self.1 }))
    }
}

impl File {
    /// Of a handle whose writes arrive whole: can this one?
    pub(super) fn check_write(&self, offset: u64, length: usize) -> Result<(), Error> {
        let Some(unit) = self.0.atomic.filter(|_| self.1.atomic) else {
            return Ok(());
        };
        let length = length as u64;
        // Nothing to write is nothing to tear.
        if length == 0 || unit.allows(length) && offset.is_multiple_of(length) {
            return Ok(());
        }
        let AtomicWriteUnit {
            min_bytes,
            max_bytes,
        } = unit;
        let cause = Cause::NotAtomic {
            min_bytes,
            max_bytes,
        };
        Err(self.0.error(Operation::Write, offset, length, cause))
    }
}
