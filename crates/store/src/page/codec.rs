//! How changes stand in the log.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | number of the change |
//! | varint | tablespace |
//! | varint | page |
//! | | its fields in the order of their declaration: numbers as varints, kind and level in a byte each, bytes behind their count as a varint |
//!
//! A varint holds seven bits a byte, the lowest first; the high bit says that
//! another byte follows. Numbers that are small in most pages take one byte.

use super::header::PageKind;
use super::op::Op;
use crate::ids::PageId;

const FORMAT: u8 = 1;
const PATCH: u8 = 2;
const INSERT: u8 = 3;
const INSERT_MANY: u8 = 4;
const REPLACE: u8 = 5;
const REMOVE: u8 = 6;
const IMAGE: u8 = 7;

/// Bytes that are no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They end within a change.
    #[error("the bytes end within a change")]
    Truncated,
    /// They begin with a number that is no change's.
    #[error("no change has the number {0}")]
    Number(u8),
    /// A page kind that no version knows.
    #[error("no page kind has the number {0}")]
    Kind(u8),
    /// A number too large for its field.
    #[error("a number is too large for its field")]
    Range,
}

impl<'a> Op<'a> {
    /// Appends the change of page `id`, as the log holds it.
    pub fn encode(&self, id: PageId, out: &mut Vec<u8>) {
        let number = match self {
            Op::Format { .. } => FORMAT,
            Op::Patch { .. } => PATCH,
            Op::Insert { .. } => INSERT,
            Op::InsertMany { .. } => INSERT_MANY,
            Op::Replace { .. } => REPLACE,
            Op::Remove { .. } => REMOVE,
            Op::Image { .. } => IMAGE,
        };
        out.push(number);
        put_number(out, id.space.into());
        put_number(out, id.page.into());
        match *self {
            Op::Format { kind, level, owner } => {
                out.extend([kind as u8, level]);
                put_number(out, owner);
            }
            Op::Patch { offset, bytes } => {
                put_number(out, offset.into());
                put_bytes(out, bytes);
            }
            Op::Insert { slot, record } | Op::Replace { slot, record } => {
                put_number(out, slot.into());
                put_bytes(out, record);
            }
            Op::InsertMany { slot, records } => {
                put_number(out, slot.into());
                put_bytes(out, records);
            }
            Op::Remove { from, to } => {
                put_number(out, from.into());
                put_number(out, to.into());
            }
            Op::Image { level, bytes } => {
                out.push(level);
                put_bytes(out, bytes);
            }
        }
    }

    /// The change that `bytes` begin with, and what follows it.
    ///
    /// # Errors
    /// [`DecodeError`] for bytes that [`encode`](Self::encode) does not make.
    pub fn decode(bytes: &'a [u8]) -> Result<(PageId, Op<'a>, &'a [u8]), DecodeError> {
        let mut rest = Reader(bytes);
        let number = rest.byte()?;
        let id = PageId::new(rest.number()?, rest.number()?);
        let op = match number {
            FORMAT => {
                let kind = rest.byte()?;
                Op::Format {
                    kind: PageKind::from_number(kind).ok_or(DecodeError::Kind(kind))?,
                    level: rest.byte()?,
                    owner: rest.number()?,
                }
            }
            PATCH => Op::Patch {
                offset: rest.number()?,
                bytes: rest.bytes()?,
            },
            INSERT => Op::Insert {
                slot: rest.number()?,
                record: rest.bytes()?,
            },
            INSERT_MANY => Op::InsertMany {
                slot: rest.number()?,
                records: rest.bytes()?,
            },
            REPLACE => Op::Replace {
                slot: rest.number()?,
                record: rest.bytes()?,
            },
            REMOVE => Op::Remove {
                from: rest.number()?,
                to: rest.number()?,
            },
            IMAGE => Op::Image {
                level: rest.byte()?,
                bytes: rest.bytes()?,
            },
            number => return Err(DecodeError::Number(number)),
        };
        Ok((id, op, rest.0))
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What is left to decode.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(first)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, DecodeError> {
        let mut number = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Range);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return T::try_from(number).map_err(|_| DecodeError::Range);
            }
        }
        Err(DecodeError::Range)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count: usize = self.number()?;
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
