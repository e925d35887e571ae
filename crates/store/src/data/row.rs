//! Rows as bytes.
//!
//! A row holds the columns that are not in its key: one bit for each, set when
//! it is null, in whole bytes; then the others in their order: an integer as
//! zigzag varint, a real as 8 bytes little-endian, text and blob as varint
//! length and bytes.

use super::{ColumnType, Value};

/// Of 64 bits, seven in a byte.
const VARINT_BYTES_MAX: usize = 10;

/// The values of a row, in the order of the table's columns.
pub type Row = Vec<Value>;

/// Bytes that are no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a damaged row at byte {at}")]
pub struct RowError {
    /// Where.
    pub at: usize,
}

/// Appends `values` to `out`.
pub fn encode_row<'a>(values: impl ExactSizeIterator<Item = &'a Value> + Clone, out: &mut Vec<u8>) {
    let nulls = out.len();
    out.reserve(row_bytes_max(values.clone()));
    out.resize(nulls + values.len().div_ceil(8), 0);
    for (number, value) in values.enumerate() {
        match value {
            Value::Null => out[nulls + number / 8] |= 1 << (number % 8),
            Value::Integer(number) => {
                put_varint((number << 1 ^ number >> 63) as u64, out);
            }
            Value::Real(number) => out.extend_from_slice(&number.to_bits().to_le_bytes()),
            Value::Text(text) => put_bytes(text.as_bytes(), out),
            Value::Blob(bytes) => put_bytes(bytes, out),
        }
    }
}

/// Bytes that suffice for a row of `values`.
fn row_bytes_max<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> usize {
    let nulls = values.len().div_ceil(8);
    let each = values.map(|value| match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => VARINT_BYTES_MAX,
        Value::Text(text) => VARINT_BYTES_MAX + text.len(),
        Value::Blob(bytes) => VARINT_BYTES_MAX + bytes.len(),
    });
    nulls + each.sum::<usize>()
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The values of a row whose columns have these `types`.
///
/// # Errors
/// [`RowError`] for bytes that these columns do not make, whole or in part.
pub fn decode_row(
    row: &[u8],
    types: impl ExactSizeIterator<Item = ColumnType>,
) -> Result<Vec<Value>, RowError> {
    let mut values = vec![Value::Null; types.len()];
    decode_each(row, types.enumerate(), &mut values)?;
    Ok(values)
}

/// Puts the values of a row into their places in `out`, in the memory that blobs have
/// there: `columns` says which, and `types` those of all columns.
pub(crate) fn decode_row_into(
    row: &[u8],
    columns: &[usize],
    types: &[ColumnType],
    out: &mut [Value],
) -> Result<(), RowError> {
    let places = columns.iter().map(|&column| (column, types[column]));
    decode_each(row, places, out)
}

/// The same, with the place of each value and its type.
fn decode_each(
    row: &[u8],
    places: impl ExactSizeIterator<Item = (usize, ColumnType)>,
    out: &mut [Value],
) -> Result<(), RowError> {
    let nulls = places.len().div_ceil(8);
    let mut reader = Reader { row, at: nulls };
    if row.len() < nulls {
        return Err(RowError { at: row.len() });
    }
    for (number, (place, column)) in places.enumerate() {
        if row[number / 8] >> (number % 8) & 1 == 1 {
            out[place] = Value::Null;
            continue;
        }
        let read = reader.value(column, &mut out[place]);
        read.ok_or(RowError { at: reader.at })?;
    }
    if reader.at < row.len() {
        return Err(RowError { at: reader.at });
    }
    Ok(())
}

struct Reader<'a> {
    row: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, column: ColumnType, out: &mut Value) -> Option<()> {
        match column {
            ColumnType::Integer => {
                let number = self.varint()?;
                *out = Value::Integer((number >> 1) as i64 ^ -((number & 1) as i64));
            }
            ColumnType::Real => {
                let bytes = self.take(8)?;
                let bits = u64::from_le_bytes(bytes.try_into().ok()?);
                *out = Value::Real(f64::from_bits(bits));
            }
            ColumnType::Text => {
                let bytes = self.counted()?;
                *out = Value::Text(str::from_utf8(bytes).ok()?.to_owned());
            }
            ColumnType::Blob => out.set_blob(self.counted()?),
        }
        Some(())
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.row.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.row.get(self.at)?;
            self.at += 1;
            // The tenth byte has one bit left.
            if shift == 63 && byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            (-70i64..70).prop_map(Value::Integer),
            proptest::num::f64::NORMAL.prop_map(Value::Real),
            ".{0,12}".prop_map(Value::Text),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Blob),
        ]
    }

    proptest! {
        #[test]
        fn rows_give_their_values_back(values in proptest::collection::vec(value(), 0..20)) {
            let types: Vec<ColumnType> = values
                .iter()
                .map(|value| value.column_type().unwrap_or(ColumnType::Real))
                .collect();
            let mut bytes = Vec::new();
            encode_row(values.iter(), &mut bytes);
            prop_assert_eq!(decode_row(&bytes, types.iter().copied()), Ok(values));
            for cut in 0..bytes.len() {
                prop_assert!(decode_row(&bytes[..cut], types.iter().copied()).is_err());
            }
            bytes.push(0);
            prop_assert!(decode_row(&bytes, types.iter().copied()).is_err());
        }

        #[test]
        fn bytes_of_any_kind_are_decoded_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            use ColumnType::*;
            let _ = decode_row(&bytes, [Integer, Text, Real, Blob, Text].into_iter());
        }
    }
}
