//! Keys as bytes that sort as their values do.
//!
//! Each column is one byte, 1 for null and 2 for a value, and then:
//!
//! | type | bytes |
//! |---|---|
//! | integer | 8, the most significant first, the sign bit inverted |
//! | real | 8, the most significant first; the sign bit inverted, or all bits of a negative one |
//! | text, blob | its bytes, a zero byte as `00 FF`, and `00 01` at the end |
//!
//! Null is the least value. -0.0 is 0.0. A key of the first few columns is a
//! prefix of all keys that begin with them, and no column's bytes are a prefix
//! of another value's, so that bytes compare as tuples of values do.

use super::{ColumnType, Value};

/// Most bytes that a key may have, so that four fit in a branch of the
/// smallest page. InnoDB's limit for pages of 16 KiB is the same.
pub const KEY_BYTES_MAX: usize = 3072;

const NULL: u8 = 1;
const PRESENT: u8 = 2;
const ZERO: u8 = 0xFF;
const END: u8 = 1;

/// Why values make no key, or bytes no values.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// More than [`KEY_BYTES_MAX`].
    #[error("the key takes {bytes} bytes, at most {KEY_BYTES_MAX} are possible")]
    TooLong {
        /// What it takes.
        bytes: usize,
    },
    /// Not a number has no place in an order.
    #[error("NaN cannot be part of a key")]
    NotANumber,
    /// Bytes that no values make.
    #[error("a damaged key at byte {at}")]
    Damaged {
        /// Where.
        at: usize,
    },
}

/// Appends the key of `values` to `out`, without its length: the bytes of a
/// longer key begin with those of a shorter one.
///
/// # Errors
/// [`KeyError`]; `out` then has part of it.
pub fn encode_key<'a>(
    values: impl IntoIterator<Item = &'a Value>,
    out: &mut Vec<u8>,
) -> Result<(), KeyError> {
    let begin = out.len();
    encode_sought(values, out)?;
    let bytes = out.len() - begin;
    if bytes > KEY_BYTES_MAX {
        return Err(KeyError::TooLong { bytes });
    }
    Ok(())
}

/// The same for a key to search for, which may be longer than that of any row.
pub(crate) fn encode_sought<'a>(
    values: impl IntoIterator<Item = &'a Value>,
    out: &mut Vec<u8>,
) -> Result<(), KeyError> {
    values
        .into_iter()
        .try_for_each(|value| encode_value(value, out))
}

fn encode_value(value: &Value, out: &mut Vec<u8>) -> Result<(), KeyError> {
    out.push(if matches!(value, Value::Null) {
        NULL
    } else {
        PRESENT
    });
    match value {
        Value::Null => {}
        Value::Integer(number) => {
            out.extend_from_slice(&(*number as u64 ^ 1 << 63).to_be_bytes());
        }
        Value::Real(number) => {
            if number.is_nan() {
                return Err(KeyError::NotANumber);
            }
            // Adding 0.0 makes 0.0 of -0.0.
            let bits = (number + 0.0).to_bits();
            let ordered = if bits >> 63 == 1 {
                !bits
            } else {
                bits ^ 1 << 63
            };
            out.extend(ordered.to_be_bytes());
        }
        Value::Text(text) => encode_bytes(text.as_bytes(), out),
        Value::Blob(bytes) => encode_bytes(bytes, out),
    }
    Ok(())
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for piece in bytes.split_inclusive(|&byte| byte == 0) {
        out.extend_from_slice(piece);
        if piece.last() == Some(&0) {
            out.push(ZERO);
        }
    }
    out.extend([0, END]);
}

/// The values of a key of columns of these `types`, and how many bytes they
/// took.
///
/// # Errors
/// [`KeyError::Damaged`].
pub fn decode_key(
    key: &[u8],
    types: impl IntoIterator<Item = ColumnType>,
) -> Result<(Vec<Value>, usize), KeyError> {
    let mut values = Vec::new();
    let mut at = 0;
    for column in types {
        let mut value = Value::Null;
        decode_value(key, &mut at, column, &mut value).ok_or(KeyError::Damaged { at })?;
        values.push(value);
    }
    Ok((values, at))
}

/// How many bytes the values took.
pub(crate) fn key_bytes(
    key: &[u8],
    types: impl IntoIterator<Item = ColumnType>,
) -> Result<usize, KeyError> {
    let mut at = 0;
    for column in types {
        pass_value(key, &mut at, column).ok_or(KeyError::Damaged { at })?;
    }
    Ok(at)
}

/// Puts the values of a key, which is whole, into their places in `row`, in the memory
/// that blobs have there: `columns` says which, and `types` those of all.
pub(crate) fn decode_key_into(
    key: &[u8],
    columns: &[usize],
    types: &[ColumnType],
    row: &mut [Value],
) -> Result<(), KeyError> {
    let mut at = 0;
    for &column in columns {
        let decoded = decode_value(key, &mut at, types[column], &mut row[column]);
        decoded.ok_or(KeyError::Damaged { at })?;
    }
    Ok(())
}

/// Whether there is a value; otherwise null.
fn take_tag(key: &[u8], at: &mut usize) -> Option<bool> {
    let tag = *key.get(*at)?;
    *at += 1;
    matches!(tag, PRESENT | NULL).then_some(tag == PRESENT)
}

fn pass_value(key: &[u8], at: &mut usize, column: ColumnType) -> Option<()> {
    if !take_tag(key, at)? {
        return Some(());
    }
    match column {
        ColumnType::Integer | ColumnType::Real => take_u64(key, at).map(drop),
        ColumnType::Text | ColumnType::Blob => take_bytes(key, at, |_| {}),
    }
}

fn decode_value(key: &[u8], at: &mut usize, column: ColumnType, out: &mut Value) -> Option<()> {
    if !take_tag(key, at)? {
        *out = Value::Null;
        return Some(());
    }
    match column {
        ColumnType::Integer => {
            let bits = take_u64(key, at)?;
            *out = Value::Integer((bits ^ 1 << 63) as i64);
        }
        ColumnType::Real => {
            let ordered = take_u64(key, at)?;
            let bits = if ordered >> 63 == 1 {
                ordered ^ 1 << 63
            } else {
                !ordered
            };
            *out = Value::Real(f64::from_bits(bits));
        }
        ColumnType::Text => {
            let mut bytes = Vec::new();
            take_bytes(key, at, |piece| bytes.extend_from_slice(piece))?;
            *out = Value::Text(String::from_utf8(bytes).ok()?);
        }
        ColumnType::Blob => {
            let bytes = out.make_blob();
            take_bytes(key, at, |piece| bytes.extend_from_slice(piece))?;
        }
    }
    Some(())
}

fn take_u64(key: &[u8], at: &mut usize) -> Option<u64> {
    let bytes = key.get(*at..*at + 8)?;
    *at += 8;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// Gives the bytes of a text or blob to `put`, piece by piece.
fn take_bytes(key: &[u8], at: &mut usize, mut put: impl FnMut(&[u8])) -> Option<()> {
    loop {
        let zero = *at + key.get(*at..)?.iter().position(|&byte| byte == 0)?;
        put(&key[*at..zero]);
        *at = zero + 2;
        match *key.get(zero + 1)? {
            END => return Some(()),
            ZERO => put(&[0]),
            _ => return None,
        }
    }
}

/// The first column of a key that may be cut short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstColumn {
    /// It is there, and not null.
    is_value: bool,
    /// All of it is there.
    is_whole: bool,
    /// Of a text or blob, the bytes of the value; otherwise those that are in the key.
    bytes: Vec<u8>,
}

impl FirstColumn {
    /// Takes another key's. Damage ends it.
    pub(crate) fn read(&mut self, key: &[u8], column: ColumnType) {
        let mut at = 0;
        self.bytes.clear();
        self.is_value = take_tag(key, &mut at) == Some(true);
        if !self.is_value {
            self.is_whole = at > 0;
            return;
        }
        self.is_whole = match column {
            ColumnType::Integer | ColumnType::Real => {
                let end = key.len().min(at + 8);
                self.bytes.extend_from_slice(&key[at..end]);
                end == at + 8
            }
            ColumnType::Text | ColumnType::Blob => {
                let bytes = &mut self.bytes;
                let whole = take_bytes(key, &mut at, |piece| bytes.extend_from_slice(piece));
                if whole.is_none() {
                    bytes.extend_from_slice(key.get(at..).unwrap_or_default());
                }
                whole.is_some()
            }
        };
    }

    /// Whether all of it is there.
    pub(crate) fn whole(&self) -> bool {
        self.is_whole
    }

    /// What is there of its value.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The least key behind all that begin with `prefix`, or `None` where there is
/// none: the end of a range scan over a prefix.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn value(column: ColumnType) -> BoxedStrategy<Value> {
        let present = match column {
            ColumnType::Integer => prop_oneof![any::<i64>(), -3i64..3]
                .prop_map(Value::Integer)
                .boxed(),
            ColumnType::Real => proptest::num::f64::ANY
                .prop_filter("no NaN", |number| !number.is_nan())
                .prop_map(|number| Value::Real(number + 0.0))
                .boxed(),
            ColumnType::Text => "[\\x00a\u{e9}\u{ffff}]{0,6}".prop_map(Value::Text).boxed(),
            ColumnType::Blob => proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1), Just(0xFF), any::<u8>()],
                0..6,
            )
            .prop_map(Value::Blob)
            .boxed(),
        };
        prop_oneof![1 => Just(Value::Null), 6 => present].boxed()
    }

    const TYPES: [ColumnType; 4] = [
        ColumnType::Blob,
        ColumnType::Integer,
        ColumnType::Text,
        ColumnType::Real,
    ];

    fn tuple() -> impl Strategy<Value = Vec<Value>> {
        TYPES.map(value).to_vec()
    }

    fn compare(a: &Value, b: &Value) -> Ordering {
        match (a, b) {
            (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
            (Value::Real(a), Value::Real(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
            (a, b) => b.column_type().is_none().cmp(&a.column_type().is_none()),
        }
    }

    fn key(values: &[Value]) -> Vec<u8> {
        let mut key = Vec::new();
        encode_key(values, &mut key).unwrap();
        key
    }

    proptest! {
        #[test]
        fn keys_sort_as_their_values(a in tuple(), b in tuple(), same in 0usize..4) {
            let mut b = b;
            b[..same].clone_from_slice(&a[..same]);
            let by_value = a
                .iter()
                .zip(&b)
                .map(|(a, b)| compare(a, b))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal);
            prop_assert_eq!(key(&a).cmp(&key(&b)), by_value);
        }

        #[test]
        fn keys_give_their_values_back(values in tuple()) {
            let bytes = key(&values);
            prop_assert_eq!(decode_key(&bytes, TYPES), Ok((values, bytes.len())));
        }

        #[test]
        fn the_first_column_is_read_as_far_as_it_goes(values in tuple(), cut in 0usize..12) {
            let bytes = key(&values);
            let (mut whole, mut part) = (FirstColumn::default(), FirstColumn::default());
            whole.read(&bytes, TYPES[0]);
            part.read(&bytes[..bytes.len().min(cut)], TYPES[0]);
            let blob = match &values[0] {
                Value::Blob(blob) => &blob[..],
                _ => &[],
            };
            prop_assert!(whole.is_whole && whole.bytes == blob);
            prop_assert!(blob.starts_with(&part.bytes));
            prop_assert!(part == whole || !part.is_whole);
        }

        #[test]
        fn bytes_of_any_kind_are_decoded_or_refused(
            bytes in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..40),
        ) {
            if let Ok((values, length)) = decode_key(&bytes, TYPES) {
                prop_assert_eq!(key(&values), &bytes[..length]);
            }
        }

        #[test]
        fn a_prefix_ends_behind_all_that_begin_with_it(
            prefix in proptest::collection::vec(prop_oneof![Just(0xFF), any::<u8>()], 0..4),
            rest in proptest::collection::vec(any::<u8>(), 0..4),
            other in proptest::collection::vec(prop_oneof![Just(0xFF), any::<u8>()], 0..6),
        ) {
            let inside = |key: &[u8]| {
                key >= &prefix[..] && prefix_end(&prefix).is_none_or(|end| key < &end[..])
            };
            prop_assert!(inside(&[&prefix[..], &rest[..]].concat()));
            prop_assert_eq!(inside(&other), other.starts_with(&prefix));
        }
    }

    #[test]
    fn what_has_no_place_in_an_order_is_refused() {
        let mut out = Vec::new();
        let nan = encode_key([&Value::Real(f64::NAN)], &mut out);
        assert_eq!(nan, Err(KeyError::NotANumber));
        let long = Value::Blob(vec![0; KEY_BYTES_MAX / 2]);
        assert_eq!(
            encode_key([&long], &mut out),
            Err(KeyError::TooLong {
                bytes: KEY_BYTES_MAX + 3
            })
        );
    }
}
