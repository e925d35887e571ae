//! A mini-transaction as a record of the redo log: its changes, one after
//! another.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind of change; bit 7: of the same page as the one before |
//! | 8 | without bit 7: tablespace, page |
//! | | by kind: format: kind, level, owner (1 + 1 + 8) |
//! | | patch: offset, length, bytes (2 + 4 + length) |
//! | | insert, replace: slot, length, record (2 + 4 + length) |
//! | | remove: from, to (2 + 2) |
//! | | image: level, length, bytes (1 + 4 + length) |

use crate::ids::PageId;
use crate::page::Op;
use crate::page::header::PageKind;

const SAME_PAGE: u8 = 0x80;
const FORMAT: u8 = 1;
const PATCH: u8 = 2;
const INSERT: u8 = 3;
const REPLACE: u8 = 4;
const REMOVE: u8 = 5;
const IMAGE: u8 = 6;

/// Adds a change.
pub(crate) fn encode(payload: &mut Vec<u8>, before: Option<PageId>, id: PageId, op: &Op<'_>) {
    let kind = match op {
        Op::Format { .. } => FORMAT,
        Op::Patch { .. } => PATCH,
        Op::Insert { .. } => INSERT,
        Op::Replace { .. } => REPLACE,
        Op::Remove { .. } => REMOVE,
        Op::Image { .. } => IMAGE,
    };
    if before == Some(id) {
        payload.push(kind | SAME_PAGE);
    } else {
        payload.push(kind);
        payload.extend_from_slice(&id.space.to_le_bytes());
        payload.extend_from_slice(&id.page.to_le_bytes());
    }
    match *op {
        Op::Format { kind, level, owner } => {
            payload.extend_from_slice(&[kind as u8, level]);
            payload.extend_from_slice(&owner.to_le_bytes());
        }
        Op::Patch { offset, bytes } => {
            payload.extend_from_slice(&offset.to_le_bytes());
            push_bytes(payload, bytes);
        }
        Op::Insert { slot, record } | Op::Replace { slot, record } => {
            payload.extend_from_slice(&slot.to_le_bytes());
            push_bytes(payload, record);
        }
        Op::Remove { from, to } => {
            payload.extend_from_slice(&from.to_le_bytes());
            payload.extend_from_slice(&to.to_le_bytes());
        }
        Op::Image { level, bytes } => {
            payload.push(level);
            push_bytes(payload, bytes);
        }
    }
}

fn push_bytes(payload: &mut Vec<u8>, bytes: &[u8]) {
    payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    payload.extend_from_slice(bytes);
}

/// The changes of a record. Ends with `Err(())` where it makes no sense.
pub(crate) struct Changes<'a> {
    rest: &'a [u8],
    page: Option<PageId>,
}

/// A record that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

impl<'a> Changes<'a> {
    pub(crate) fn of(payload: &'a [u8]) -> Changes<'a> {
        Changes {
            rest: payload,
            page: None,
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Garbled> {
        let (now, later) = self.rest.split_at_checked(count).ok_or(Garbled)?;
        self.rest = later;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbled> {
        Ok(self.bytes(N)?.try_into().expect("as many as asked for"))
    }

    fn u8(&mut self) -> Result<u8, Garbled> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Garbled> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Garbled> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn counted(&mut self) -> Result<&'a [u8], Garbled> {
        let count = self.u32()? as usize;
        self.bytes(count)
    }

    fn change(&mut self) -> Result<(PageId, Op<'a>), Garbled> {
        let tag = self.u8()?;
        let id = if tag & SAME_PAGE != 0 {
            self.page.ok_or(Garbled)?
        } else {
            PageId::new(self.u32()?, self.u32()?)
        };
        self.page = Some(id);
        let op = match tag & !SAME_PAGE {
            FORMAT => Op::Format {
                kind: PageKind::from_number(self.u8()?).ok_or(Garbled)?,
                level: self.u8()?,
                owner: u64::from_le_bytes(self.array()?),
            },
            PATCH => Op::Patch {
                offset: self.u16()?,
                bytes: self.counted()?,
            },
            INSERT => Op::Insert {
                slot: self.u16()?,
                record: self.counted()?,
            },
            REPLACE => Op::Replace {
                slot: self.u16()?,
                record: self.counted()?,
            },
            REMOVE => Op::Remove {
                from: self.u16()?,
                to: self.u16()?,
            },
            IMAGE => Op::Image {
                level: self.u8()?,
                bytes: self.counted()?,
            },
            _ => return Err(Garbled),
        };
        Ok((id, op))
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<(PageId, Op<'a>), Garbled>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.change();
        if change.is_err() {
            self.rest = &[];
        }
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn changes() -> Vec<(PageId, Op<'static>)> {
        let (a, b) = (PageId::new(7, 70_000), PageId::new(0, 3));
        let kind = PageKind::Leaf;
        vec![
            (
                a,
                Op::Format {
                    kind,
                    level: 2,
                    owner: u64::MAX - 1,
                },
            ),
            (
                a,
                Op::Patch {
                    offset: 65_000,
                    bytes: b"patch",
                },
            ),
            (
                b,
                Op::Insert {
                    slot: 300,
                    record: b"",
                },
            ),
            (
                b,
                Op::Replace {
                    slot: 1,
                    record: b"record",
                },
            ),
            (a, Op::Remove { from: 2, to: 513 }),
            (
                a,
                Op::Image {
                    level: 1,
                    bytes: b"image",
                },
            ),
        ]
    }

    fn encoded() -> Vec<u8> {
        let mut payload = Vec::new();
        let mut before = None;
        for (id, op) in changes() {
            encode(&mut payload, before, id, &op);
            before = Some(id);
        }
        payload
    }

    #[test]
    fn every_change_comes_back() {
        let payload = encoded();
        let back: Result<Vec<_>, Garbled> = Changes::of(&payload).collect();
        assert_eq!(back, Ok(changes()));
    }

    #[test]
    fn what_is_cut_short_is_garbled_or_shorter() {
        let payload = encoded();
        for length in 0..payload.len() {
            let back: Result<Vec<_>, Garbled> = Changes::of(&payload[..length]).collect();
            assert!(back.is_err() || back.is_ok_and(|back| back.len() < 6));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Changes::of(&bytes).count() <= bytes.len());
        }
    }
}
