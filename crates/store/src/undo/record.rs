//! What undo holds: versions that were, and which transactions ended how.
//!
//! | bytes | what |
//! |---|---|
//! | 2 | length of the record |
//! | 1 | kind; bit 7: undone, bit 6: its long value is being freed, bit 5: of an update, index entries stayed |
//! | 8 | transaction |
//! | 8 | where its previous record is |
//! | | as the kind says |
//!
//! | kind | rest |
//! |---|---|
//! | 1 insert | table (8), length of the key (2), key |
//! | 2 update, 3 delete | the same, and the version before as a row of the tree holds it |
//! | 4 long value | table (8), reference to what the transaction wrote (8) |
//! | 5 commit, 6 rolled back | commit number (8) |
//! | 7 prepared | its name |
//!
//! A length of zero, or the page's end, says that the stream goes on in the
//! next page.

use crate::overflow::OverflowRef;
use crate::page::header::{get_u16, get_u64};
use crate::txn::version::{RollPointer, VersionRef};

/// The record has been undone: its version is nobody's.
pub(crate) const UNDONE: u8 = 0x80;
/// Purge has begun to free the pages of the long value of the version before.
pub(crate) const FREEING: u8 = 0x40;
/// Where the kind stands in a record.
pub(crate) const KIND_AT: usize = 2;
const HEAD_BYTES: usize = 19;
/// Bytes between that and a row's key.
const ROW_BYTES: usize = 10;

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
/// The new version has the same index entries as the one before: with that one
/// none goes, and purge needs to look at neither indexes nor row.
const UPDATE_BESIDE_INDEXES: u8 = UPDATE | 0x20;
const DELETE: u8 = 3;
const LONG: u8 = 4;
const COMMITTED: u8 = 5;
const ROLLED_BACK: u8 = 6;
const PREPARED: u8 = 7;

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was not there, not even marked as deleted.
    Insert,
    /// It has other values, or is there again.
    Update,
    /// It was marked as deleted.
    Delete,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// A row was changed.
    Row {
        table: u64,
        key: &'a [u8],
        change: Change,
        /// Of an update: the new version has the same index entries as the one
        /// before.
        entries_stayed: bool,
        /// `None` for an insert.
        before: Option<VersionRef<'a>>,
    },
    /// Pages were written for a long value.
    Long { table: u64, value: OverflowRef },
    /// The transaction has ended.
    End { number: u64, committed: bool },
    /// It is decided by this name whether the transaction commits.
    Prepared { xid: &'a [u8] },
}

impl Body<'_> {
    /// Bytes of a record that says this.
    pub(crate) fn record_bytes(&self) -> usize {
        HEAD_BYTES
            + match self {
                Body::Row { key, before, .. } => {
                    ROW_BYTES + key.len() + before.map_or(0, |before| before.encoded_bytes())
                }
                Body::Long { .. } => 8 + OverflowRef::BYTES,
                Body::End { .. } => 8,
                Body::Prepared { xid } => xid.len(),
            }
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) trx: u64,
    /// The previous one of this transaction.
    pub(crate) previous: RollPointer,
    pub(crate) undone: bool,
    pub(crate) freeing: bool,
    pub(crate) body: Body<'a>,
}

impl<'a> Record<'a> {
    /// A record as it is first written.
    pub(crate) fn new(trx: u64, previous: RollPointer, body: Body<'a>) -> Record<'a> {
        Record {
            trx,
            previous,
            undone: false,
            freeing: false,
            body,
        }
    }

    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.reserve(self.body.record_bytes());
        out.extend_from_slice(&[0; HEAD_BYTES]);
        let kind = match self.body {
            Body::Row {
                table,
                key,
                change,
                entries_stayed,
                before,
            } => {
                out.extend_from_slice(&table.to_le_bytes());
                out.extend_from_slice(&(key.len() as u16).to_le_bytes());
                out.extend_from_slice(key);
                if let Some(before) = before {
                    before.encode(out);
                }
                match change {
                    Change::Insert => INSERT,
                    Change::Update if entries_stayed => UPDATE_BESIDE_INDEXES,
                    Change::Update => UPDATE,
                    Change::Delete => DELETE,
                }
            }
            Body::Long { table, value } => {
                out.extend_from_slice(&table.to_le_bytes());
                out.extend_from_slice(&value.to_bytes());
                LONG
            }
            Body::End { number, committed } => {
                out.extend_from_slice(&number.to_le_bytes());
                if committed { COMMITTED } else { ROLLED_BACK }
            }
            Body::Prepared { xid } => {
                out.extend_from_slice(xid);
                PREPARED
            }
        };
        let length = out.len() - begin;
        debug_assert_eq!(length, self.body.record_bytes());
        let length = u16::try_from(length).expect("a row's record is shorter than a page");
        let head = &mut out[begin..begin + HEAD_BYTES];
        head[..2].copy_from_slice(&length.to_le_bytes());
        head[KIND_AT] =
            kind | if self.undone { UNDONE } else { 0 } | if self.freeing { FREEING } else { 0 };
        head[3..11].copy_from_slice(&self.trx.to_le_bytes());
        head[11..19].copy_from_slice(&self.previous.0.to_le_bytes());
    }

    /// What the bytes of one record say; `None` if they are none.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        if bytes.len() < HEAD_BYTES || usize::from(get_u16(bytes, 0)) != bytes.len() {
            return None;
        }
        let rest = &bytes[HEAD_BYTES..];
        let kind = bytes[KIND_AT] & !(UNDONE | FREEING);
        let body = match kind {
            INSERT | UPDATE | UPDATE_BESIDE_INDEXES | DELETE => {
                let change = match kind {
                    INSERT => Change::Insert,
                    DELETE => Change::Delete,
                    _ => Change::Update,
                };
                let (head, rest) = rest.split_at_checked(ROW_BYTES)?;
                let (key, rest) = rest.split_at_checked(get_u16(head, 8).into())?;
                let before = match change {
                    Change::Insert if rest.is_empty() => None,
                    Change::Insert => return None,
                    _ => Some(VersionRef::decode(rest)?),
                };
                Body::Row {
                    table: get_u64(head, 0),
                    key,
                    change,
                    entries_stayed: kind == UPDATE_BESIDE_INDEXES,
                    before,
                }
            }
            LONG if rest.len() == 8 + OverflowRef::BYTES => Body::Long {
                table: get_u64(rest, 0),
                value: OverflowRef::from_bytes(*rest.last_chunk()?),
            },
            COMMITTED | ROLLED_BACK if rest.len() == 8 => Body::End {
                number: get_u64(rest, 0),
                committed: kind == COMMITTED,
            },
            PREPARED if !rest.is_empty() => Body::Prepared { xid: rest },
            _ => return None,
        };
        Some(Record {
            trx: get_u64(bytes, 3),
            previous: RollPointer(get_u64(bytes, 11)),
            undone: bytes[KIND_AT] & UNDONE != 0,
            freeing: bytes[KIND_AT] & FREEING != 0,
            body,
        })
    }
}

/// Where in the record of a change the reference to the long value of the
/// version before stands.
pub(crate) fn reference_at(key: &[u8]) -> usize {
    HEAD_BYTES + ROW_BYTES + key.len() + VersionRef::HEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::version::LONG as LONG_FLAG;

    #[test]
    fn records_read_as_they_were_written() {
        let value = OverflowRef { page: 7, bytes: 9 };
        let payload = value.to_bytes();
        let before = VersionRef {
            trx: 3,
            roll: RollPointer::new(9, 100),
            flags: LONG_FLAG,
            payload: &payload,
        };
        let row = |change, before| Body::Row {
            table: 5,
            key: b"key",
            change,
            entries_stayed: false,
            before,
        };
        let bodies = [
            row(Change::Insert, None),
            row(Change::Update, Some(before)),
            Body::Row {
                table: 5,
                key: b"key",
                change: Change::Update,
                entries_stayed: true,
                before: Some(before),
            },
            row(Change::Delete, Some(before)),
            Body::Long { table: 5, value },
            Body::End {
                number: 8,
                committed: true,
            },
            Body::End {
                number: 8,
                committed: false,
            },
            Body::Prepared { xid: b"name" },
        ];
        for body in bodies {
            for (undone, freeing) in [(false, false), (true, false), (false, true)] {
                let record = Record {
                    undone,
                    freeing,
                    ..Record::new(11, RollPointer::new(4, 64), body)
                };
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                assert_eq!(Record::decode(&bytes), Some(record));
                if !matches!(
                    body,
                    Body::Row {
                        change: Change::Update,
                        ..
                    }
                ) {
                    bytes[KIND_AT] |= UPDATE_BESIDE_INDEXES & !UPDATE;
                    assert_eq!(Record::decode(&bytes), None, "it is no update's");
                    bytes[KIND_AT] &= !(UPDATE_BESIDE_INDEXES & !UPDATE);
                }
                for cut in 0..bytes.len() {
                    assert_eq!(Record::decode(&bytes[..cut]), None);
                }
                if let Body::Row {
                    before: Some(_), ..
                } = body
                {
                    assert_eq!(bytes[reference_at(b"key")..], payload);
                }
            }
        }
    }
}
