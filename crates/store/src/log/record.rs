//! How a record stands in the log, and where the log ends.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the payload, never 0 |
//! | 4 | CRC-32C of the start LSN, the length, the chain and the payload |
//! | 4 | chain: the checksum of the record before it |
//! | | payload |
//!
//! The log ends at the first place where no such record stands. The LSN in the
//! checksum unmasks records of an earlier lap around the file. The chain
//! unmasks records that were written after a torn one, before a crash, and
//! would become readable again when the torn one is overwritten by another of
//! the same length.

use crate::ids::Lsn;
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes in front of the payload.
pub(super) const HEAD: usize = 12;

/// The checksum of a record; the next one's chain.
pub(super) fn checksum(start: Lsn, chain: u32, payload: &[u8]) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&start.0.to_le_bytes());
    head[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[12..].copy_from_slice(&chain.to_le_bytes());
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&head);
    digest.update(payload);
    // Of 32 bits.
    digest.finalize() as u32
}

/// The bytes in front of the payload.
pub(super) fn head(length: usize, checksum: u32, chain: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(length as u32).to_le_bytes());
    head[4..8].copy_from_slice(&checksum.to_le_bytes());
    head[8..].copy_from_slice(&chain.to_le_bytes());
    head
}

/// What the bytes in front of a payload say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub length: u32,
    pub checksum: u32,
    pub chain: u32,
}

impl Head {
    pub(super) fn parse(bytes: &[u8; HEAD]) -> Head {
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Head {
            length: number(0),
            checksum: number(4),
            chain: number(8),
        }
    }
}
