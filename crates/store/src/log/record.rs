//! How a record stands in the log, and where the log ends.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the payload, never 0; the highest bit says that it is of the log itself |
//! | 4 | CRC-32C of the start LSN, the length, the chain and the payload |
//! | 4 | chain: the checksum of the record before it |
//! | | payload |
//!
//! The log ends at the first place where no such record stands. The LSN in the
//! checksum unmasks records of an earlier lap around the file. The chain
//! unmasks records that were written after a torn one, before a crash, and
//! would become readable again when the torn one is overwritten by another of
//! the same length.
//!
//! It does not unmask them where what overwrites the torn one is the very same:
//! after a crash the same work may be done again. So the log goes on after each
//! opening with a record that never was before, of a random number: an opening.

use crate::ids::Lsn;
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes in front of the payload.
pub(super) const HEAD: usize = 12;
/// In a length: what follows is an [opening](opening).
const OF_LOG: u32 = 1 << 31;
/// The longest payload that can be appended.
pub(super) const PAYLOAD_MAX: usize = (OF_LOG - 1) as usize;
/// Bytes of an opening's payload.
const NUMBER: usize = 16;
/// Bytes of an opening.
pub(super) const OPENING: usize = HEAD + NUMBER;

/// The checksum of a record; the next one's chain.
pub(super) fn checksum(start: Lsn, chain: u32, payload: &[u8]) -> u32 {
    checksum_of(start, payload.len() as u32, chain, payload)
}

fn checksum_of(start: Lsn, length: u32, chain: u32, payload: &[u8]) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&start.0.to_le_bytes());
    head[8..12].copy_from_slice(&length.to_le_bytes());
    head[12..].copy_from_slice(&chain.to_le_bytes());
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&head);
    digest.update(payload);
    // Of 32 bits.
    digest.finalize() as u32
}

/// The bytes in front of the payload.
pub(super) fn head(length: usize, checksum: u32, chain: u32) -> [u8; HEAD] {
    head_of(length as u32, checksum, chain)
}

fn head_of(length: u32, checksum: u32, chain: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&checksum.to_le_bytes());
    head[8..].copy_from_slice(&chain.to_le_bytes());
    head
}

/// An opening, and its checksum.
pub(super) fn opening(start: Lsn, chain: u32, number: u128) -> ([u8; OPENING], u32) {
    let payload = number.to_le_bytes();
    let length = NUMBER as u32 | OF_LOG;
    let checksum = checksum_of(start, length, chain, &payload);
    let mut bytes = [0; OPENING];
    bytes[..HEAD].copy_from_slice(&head_of(length, checksum, chain));
    bytes[HEAD..].copy_from_slice(&payload);
    (bytes, checksum)
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

    pub(super) fn is_opening(&self) -> bool {
        self.length == NUMBER as u32 | OF_LOG
    }

    /// Bytes behind it; nothing where no record can be so long.
    pub(super) fn payload(&self) -> Option<usize> {
        if self.is_opening() {
            return Some(NUMBER);
        }
        let length = self.length as usize;
        (1..=PAYLOAD_MAX).contains(&length).then_some(length)
    }

    /// Whether this is the head of `payload` at `start`, behind a record with
    /// the checksum `chain`.
    pub(super) fn is_of(&self, start: Lsn, chain: u32, payload: &[u8]) -> bool {
        self.chain == chain && self.checksum == checksum_of(start, self.length, chain, payload)
    }
}
