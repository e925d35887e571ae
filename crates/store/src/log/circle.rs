//! The circle of bytes behind the headers of a log file.

use super::LogError;
use super::header::CIRCLE;
use iolane::{Buffer, File, Level};

/// Unit of reading and writing: the unit in which a disk tears writes is a
/// divisor of it, and every file that allows direct I/O takes it.
pub(super) const BLOCK: u64 = 4096;

pub(super) struct Circle {
    file: File,
    bytes: u64,
}

impl Circle {
    pub(super) fn new(file: File, bytes: u64) -> Circle {
        Circle { file, bytes }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Calls `transfer` with offset in the file, position in the memory and
    /// length of the one or two pieces that make up `length` bytes at `at`.
    fn pieces(
        &self,
        at: u64,
        length: usize,
        mut transfer: impl FnMut(u64, usize, usize) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        debug_assert!(at.is_multiple_of(BLOCK) && (length as u64).is_multiple_of(BLOCK));
        let start = at % self.bytes;
        let first = (self.bytes - start).min(length as u64) as usize;
        transfer(CIRCLE + start, 0, first)?;
        if first < length {
            transfer(CIRCLE, first, length - first)?;
        }
        Ok(())
    }

    /// Writes `buffer`, whole blocks, durably at log position `at`.
    pub(super) fn write(&self, at: u64, buffer: &[u8]) -> Result<(), LogError> {
        self.write_to(&self.file, at, buffer)
    }

    /// The same through `file`, which is opened in another way.
    pub(super) fn write_to(&self, file: &File, at: u64, buffer: &[u8]) -> Result<(), LogError> {
        // Nothing has no address that direct I/O would take.
        if buffer.is_empty() {
            return Ok(());
        }
        self.pieces(at, buffer.len(), |offset, from, length| {
            file.write_at(&buffer[from..from + length], offset, Level::Critical)
                .map_err(LogError::failed)?;
            Ok(())
        })
    }

    /// Reads whole blocks from log position `at`.
    pub(super) fn read(&self, at: u64, buffer: &mut Buffer, length: usize) -> Result<(), LogError> {
        self.pieces(at, length, |offset, from, length| {
            let memory = &mut buffer[from..from + length];
            let read = self
                .file
                .read_at(memory, offset, Level::Critical)
                .map_err(LogError::failed)?;
            if read < length {
                return Err(LogError::Truncated {
                    at: offset + read as u64,
                });
            }
            Ok(())
        })
    }
}
