//! A version of a row, as the leaf of its table holds it.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | transaction that made it; 0: older than all |
//! | 8 | undo record with the version before it; 0: there is none |
//! | 1 | flags: 1 deleted, 2 long |
//! | | the columns that are not in the key; none if deleted; if long, an [`OverflowRef`] to what would stand here |

use crate::overflow::OverflowRef;
use crate::page::header::get_u64;

/// The row was deleted.
pub(crate) const DELETED: u8 = 1;
/// The columns are in pages of their own.
pub(crate) const LONG: u8 = 2;

/// Where an undo record is: page of the undo tablespace and offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RollPointer(pub(crate) u64);

impl RollPointer {
    pub(crate) const NONE: RollPointer = RollPointer(0);

    pub(crate) fn new(page: u32, offset: u16) -> RollPointer {
        RollPointer(u64::from(page) << 16 | u64::from(offset))
    }

    pub(crate) fn page(self) -> u32 {
        (self.0 >> 16) as u32
    }

    pub(crate) fn offset(self) -> u16 {
        self.0 as u16
    }

    pub(crate) fn is_none(self) -> bool {
        self == RollPointer::NONE
    }
}

/// The transaction that made a version, and the undo record made with it.
pub(crate) type VersionName = (u64, RollPointer);

/// A version in somebody's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRef<'a> {
    pub(crate) trx: u64,
    pub(crate) roll: RollPointer,
    pub(crate) flags: u8,
    pub(crate) payload: &'a [u8],
}

/// A version with bytes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) trx: u64,
    pub(crate) roll: RollPointer,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

impl<'a> VersionRef<'a> {
    /// Bytes before the payload.
    pub(crate) const HEAD_BYTES: usize = 17;

    /// `None`: the bytes are no version.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<VersionRef<'a>> {
        let (head, payload) = bytes.split_at_checked(Self::HEAD_BYTES)?;
        let flags = head[16];
        let whole = match flags {
            0 => true,
            DELETED => payload.is_empty(),
            LONG => payload.len() == OverflowRef::BYTES,
            _ => false,
        };
        whole.then_some(VersionRef {
            trx: get_u64(head, 0),
            roll: RollPointer(get_u64(head, 8)),
            flags,
            payload,
        })
    }

    /// How many bytes [`encode`](Self::encode) appends.
    pub(crate) fn encoded_bytes(&self) -> usize {
        Self::HEAD_BYTES + self.payload.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_bytes());
        out.extend_from_slice(&self.trx.to_le_bytes());
        out.extend_from_slice(&self.roll.0.to_le_bytes());
        out.push(self.flags);
        out.extend_from_slice(self.payload);
    }

    /// What no other version of its row has ever: undo pages are used again, so
    /// an older one, whose record is gone, can have the same pointer.
    pub(crate) fn name(&self) -> VersionName {
        (self.trx, self.roll)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    pub(crate) fn is_long(&self) -> bool {
        self.flags & LONG != 0
    }

    /// Where the payload is, if it is long.
    pub(crate) fn long(&self) -> Option<OverflowRef> {
        let bytes = self.payload.first_chunk().filter(|_| self.is_long());
        bytes.map(|&bytes| OverflowRef::from_bytes(bytes))
    }

    pub(crate) fn to_version(self) -> Version {
        Version {
            trx: self.trx,
            roll: self.roll,
            flags: self.flags,
            payload: self.payload.to_vec(),
        }
    }
}

impl Version {
    pub(crate) fn borrow(&self) -> VersionRef<'_> {
        VersionRef {
            trx: self.trx,
            roll: self.roll,
            flags: self.flags,
            payload: &self.payload,
        }
    }

    pub(crate) fn name(&self) -> VersionName {
        self.borrow().name()
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.borrow().encode(&mut out);
        out
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.borrow().is_deleted()
    }

    pub(crate) fn is_long(&self) -> bool {
        self.borrow().is_long()
    }
}
