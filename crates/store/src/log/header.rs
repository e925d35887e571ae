//! The first two blocks of a log file: what it is, and where redo begins.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `iolane-L` |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32C of bytes 16 to 64 |
//! | 16 | 8 | the store's number |
//! | 24 | 8 | bytes of the circle |
//! | 32 | 8 | count: the block with the higher one holds |
//! | 40 | 8 | checkpoint: the LSN at which redo begins |
//! | 48 | 4 | checksum of the record before the checkpoint |
//! | 52 | 12 | 0 |
//!
//! A checkpoint writes both, one after the other: one is whole whenever power
//! fails, and damage to one later leaves another that is as new.

use super::LogError;
use crate::ids::Lsn;
use iolane::{Buffer, File, Level};

/// Bytes of one header block; both lie before the circle.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Where the circle begins.
pub(super) const CIRCLE: u64 = 2 * BLOCK_BYTES;
/// The version that this code writes. In version 1 there are no openings.
pub(super) const VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"iolane-L";

/// What a header block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub version: u32,
    pub store: u64,
    pub circle_bytes: u64,
    pub count: u64,
    pub checkpoint: Lsn,
    pub chain: u32,
}

impl Header {
    /// Where in the file it goes.
    fn offset(&self) -> u64 {
        self.count % 2 * BLOCK_BYTES
    }

    fn write(&self, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&self.version.to_le_bytes());
        block[16..24].copy_from_slice(&self.store.to_le_bytes());
        block[24..32].copy_from_slice(&self.circle_bytes.to_le_bytes());
        block[32..40].copy_from_slice(&self.count.to_le_bytes());
        block[40..48].copy_from_slice(&self.checkpoint.0.to_le_bytes());
        block[48..52].copy_from_slice(&self.chain.to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&block[16..64]);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
    }

    /// `Ok(None)` for a block that is ours but not whole.
    fn read(block: &[u8]) -> Result<Option<Header>, LogError> {
        let u32_at = |at: usize| crate::page::header::get_u32(block, at);
        let u64_at = |at: usize| crate::page::header::get_u64(block, at);
        if block[..8] != MAGIC {
            return Ok(None);
        }
        if u32_at(12) != crc_fast::crc32_iscsi(&block[16..64]) {
            return Ok(None);
        }
        let version = u32_at(8);
        if !(1..=VERSION).contains(&version) {
            return Err(LogError::Version {
                found: version,
                known: VERSION,
            });
        }
        Ok(Some(Header {
            version,
            store: u64_at(16),
            circle_bytes: u64_at(24),
            count: u64_at(32),
            checkpoint: Lsn(u64_at(40)),
            chain: u32_at(48),
        }))
    }

    /// The header that holds, of the two blocks of a file. One of a version that
    /// is not known may be damage, or that of a newer program that came no
    /// further: before it writes anything else it makes both its own.
    fn choose(blocks: &[u8]) -> Result<Header, LogError> {
        let (first, second) = blocks.split_at(BLOCK_BYTES as usize);
        let both = [Header::read(first), Header::read(second)];
        let newest = both.iter().flatten().flatten().max_by_key(|it| it.count);
        if let Some(&newest) = newest {
            return Ok(newest);
        }
        let [first, second] = both;
        first.and(second).and(Err(LogError::Foreign))
    }

    /// The header that holds, of a log file. A block that cannot be read is as
    /// one that a power cut tore: there is the other.
    pub(super) fn of(file: &File) -> Result<Header, LogError> {
        let mut blocks = Buffer::new(CIRCLE as usize);
        let mut unreadable = None;
        let mut at = 0;
        for block in blocks.chunks_mut(BLOCK_BYTES as usize) {
            match file.read_at(block, at, Level::Critical) {
                Ok(read) if read < block.len() => {
                    let at = at + read as u64;
                    return Err(LogError::Truncated { at });
                }
                Ok(_) => {}
                Err(error) => {
                    block.fill(0);
                    unreadable = Some(LogError::failed(error));
                }
            }
            at += BLOCK_BYTES;
        }
        Header::choose(&blocks).map_err(|error| unreadable.unwrap_or(error))
    }

    /// Writes it where it goes.
    pub(super) fn put(&self, file: &File) -> Result<(), LogError> {
        let mut block = Buffer::new(BLOCK_BYTES as usize);
        self.write(&mut block);
        file.write_at(&block, self.offset(), Level::Critical)
            .map_err(LogError::failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(count: u64) -> Header {
        Header {
            version: VERSION,
            store: 7,
            circle_bytes: 1 << 20,
            count,
            checkpoint: Lsn(1000 * count),
            chain: 5,
        }
    }

    fn file(headers: [Header; 2]) -> Vec<u8> {
        let mut bytes = vec![0; CIRCLE as usize];
        for header in headers {
            let at = header.offset() as usize;
            header.write(&mut bytes[at..at + BLOCK_BYTES as usize]);
        }
        bytes
    }

    #[test]
    fn the_newer_of_two_holds() {
        assert_eq!(Header::choose(&file([header(4), header(3)])), Ok(header(4)));
        assert_eq!(Header::choose(&file([header(4), header(5)])), Ok(header(5)));
    }

    #[test]
    fn a_torn_one_leaves_the_other() {
        let mut bytes = file([header(4), header(5)]);
        bytes[BLOCK_BYTES as usize + 41] ^= 1;
        assert_eq!(Header::choose(&bytes), Ok(header(4)));
        bytes[41] ^= 1;
        assert_eq!(Header::choose(&bytes), Err(LogError::Foreign));
    }

    #[test]
    fn a_newer_version_is_told_from_a_foreign_file() {
        let mut bytes = file([header(4), header(5)]);
        bytes[BLOCK_BYTES as usize + 8] = 3;
        // Damage, or a newer program that came no further.
        assert_eq!(Header::choose(&bytes), Ok(header(4)));
        bytes[8] = 3;
        let newer = LogError::Version { found: 3, known: 2 };
        assert_eq!(Header::choose(&bytes), Err(newer));
        assert_eq!(
            Header::choose(&vec![7; CIRCLE as usize]),
            Err(LogError::Foreign)
        );
    }
}
