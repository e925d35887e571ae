//! One log record: what it was for, where it stands, and a checksum.
//!
//! ```text
//!  0        4        8                16       20       24
//!  | length | sum    | LSN            | thread | number | payload ...
//! ```
//! All numbers are little-endian. `length` counts the payload. `sum` covers
//! everything after itself and the length. The LSN is the record's position in
//! the log, which never begins anew, so that a record of an earlier round
//! through the file is not taken for a current one.

use crc_fast::{CrcAlgorithm, Digest};

pub const HEADER_BYTES: usize = 24;

/// Who committed, and which commit of that thread it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub thread: u32,
    pub number: u32,
}

/// Bytes in the log for a payload.
pub fn record_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + payload_bytes
}

/// Writes a record to `out`, which is as long as the record.
pub fn encode(out: &mut [u8], lsn: u64, tag: Tag, payload: &[u8]) {
    out[0..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    out[8..16].copy_from_slice(&lsn.to_le_bytes());
    out[16..20].copy_from_slice(&tag.thread.to_le_bytes());
    out[20..24].copy_from_slice(&tag.number.to_le_bytes());
    out[HEADER_BYTES..].copy_from_slice(payload);
    let sum = sum(out);
    out[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// The record at `lsn`, if `bytes` is one.
pub fn decode(bytes: &[u8], lsn: u64) -> Option<Tag> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let payload_bytes = word(0)? as usize;
    if bytes.len() != record_bytes(payload_bytes) || word(4)? != sum(bytes) {
        return None;
    }
    let found_lsn = u64::from(word(8)?) | u64::from(word(12)?) << 32;
    let tag = Tag {
        thread: word(16)?,
        number: word(20)?,
    };
    (found_lsn == lsn).then_some(tag)
}

fn sum(record: &[u8]) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    sum.update(&record[0..4]);
    sum.update(&record[8..]);
    // Of 32 bits.
    sum.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag {
        thread: 3,
        number: 77,
    };

    #[test]
    fn any_changed_bit_is_found() {
        let mut record = vec![0; record_bytes(9)];
        encode(&mut record, 1 << 40, TAG, b"nine byte");
        assert_eq!(decode(&record, 1 << 40), Some(TAG));
        assert_eq!(decode(&record, 1 << 41), None, "not the record of that LSN");
        assert_eq!(decode(&record[..record.len() - 1], 1 << 40), None);
        for bit in 0..record.len() * 8 {
            record[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&record, 1 << 40), None, "bit {bit}");
            record[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
