//! Values as text, in CSV and in JSON.
//!
//! Null and the empty text must stay apart, and CSV has but one empty field.
//! So null is `\N`, and a text of backslashes and one `N` gets one backslash
//! more in front. An empty field is null where nothing else could be meant: in
//! columns that hold no text.

use iolane_store::data::{ColumnType, Value};

/// What null is in CSV.
const NULL: &str = r"\N";
const BLOB_PREFIX: &str = "0x";

/// A field of CSV as a value of a column.
///
/// # Errors
/// Why it is none.
pub fn from_field(
    field: &[u8],
    column_type: ColumnType,
    null: Option<&str>,
) -> Result<Value, String> {
    let text = std::str::from_utf8(field).map_err(|_| "it is no UTF-8".to_owned())?;
    let empty_is_null = column_type != ColumnType::Text && text.is_empty();
    if text == NULL || Some(text) == null || empty_is_null {
        return Ok(Value::Null);
    }
    match column_type {
        ColumnType::Text if is_like_null(text) => Ok(text[1..].into()),
        ColumnType::Text => Ok(text.into()),
        ColumnType::Integer => integer(text),
        ColumnType::Real => real(text),
        ColumnType::Blob => blob(text),
    }
}

/// A value as a field of CSV, before quotes.
pub fn to_field(value: &Value) -> String {
    match value {
        Value::Null => NULL.to_owned(),
        Value::Text(text) if is_like_null(text) => format!("\\{text}"),
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Blob(bytes) => hexadecimal(bytes),
    }
}

/// One or more backslashes, and an `N`.
fn is_like_null(text: &str) -> bool {
    text.strip_suffix('N')
        .is_some_and(|slashes| !slashes.is_empty() && slashes.bytes().all(|byte| byte == b'\\'))
}

/// A JSON value as a value of a column.
///
/// # Errors
/// Why it is none.
pub fn from_json(json: serde_json::Value, column_type: ColumnType) -> Result<Value, String> {
    use serde_json::Value as Json;
    match (json, column_type) {
        (Json::Null, _) => Ok(Value::Null),
        (Json::Number(number), ColumnType::Integer) => number
            .as_i64()
            .map(Value::Integer)
            .ok_or_else(|| format!("{number} is no integer of 64 bits")),
        (Json::Number(number), ColumnType::Real) => real(&number.to_string()),
        (Json::String(text), ColumnType::Real) if text.ends_with("inf") => real(&text),
        (Json::String(text), ColumnType::Text) => Ok(text.into()),
        (Json::String(text), ColumnType::Blob) => blob(&text),
        (other, _) => Err(format!(
            "{} is no {column_type}",
            shortened(&other.to_string())
        )),
    }
}

/// A value as JSON.
pub fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        // JSON has no infinity.
        Value::Real(number) if number.is_finite() => (*number).into(),
        Value::Real(number) => number.to_string().into(),
        Value::Blob(bytes) => hexadecimal(bytes).into(),
    }
}

fn integer(text: &str) -> Result<Value, String> {
    let number = text.parse::<i64>();
    number
        .map(Value::Integer)
        .map_err(|_| format!("{} is no integer of 64 bits", quoted(text)))
}

fn real(text: &str) -> Result<Value, String> {
    let number = text.parse::<f64>().ok().filter(|number| !number.is_nan());
    let Some(number) = number else {
        return Err(format!("{} is no real", quoted(text)));
    };
    // 1e999 is not meant to be infinite.
    if number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(format!("{} is more than a real holds", quoted(text)));
    }
    Ok(Value::Real(number))
}

fn blob(text: &str) -> Result<Value, String> {
    let unclear = || {
        format!(
            "{} is no blob: write {BLOB_PREFIX} and two hexadecimal digits per byte",
            quoted(text)
        )
    };
    let digits = text.strip_prefix(BLOB_PREFIX).ok_or_else(unclear)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.map(Value::Blob).ok_or_else(unclear)
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(BLOB_PREFIX.len() + 2 * bytes.len());
    text.push_str(BLOB_PREFIX);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// As much as a message needs.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    match text.char_indices().nth(CHARACTERS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<(ColumnType, Value)> {
        let text = |text: &str| (ColumnType::Text, Value::from(text));
        let real = |number: f64| (ColumnType::Real, Value::Real(number));
        vec![
            text(""),
            text("N"),
            text("\\"),
            text(r"\N"),
            text(r"\\N"),
            text(r"\\\N"),
            text(r"\\server\N"),
            text("two\nlines, \"quoted\" \0"),
            text("null"),
            (ColumnType::Integer, Value::Integer(i64::MIN)),
            (ColumnType::Integer, Value::Integer(i64::MAX)),
            real(0.1 + 0.2),
            real(f64::MIN_POSITIVE / 8.0),
            real(-f64::MAX),
            real(1e300),
            real(3.0),
            real(f64::INFINITY),
            real(f64::NEG_INFINITY),
            (ColumnType::Blob, Value::Blob(vec![])),
            (ColumnType::Blob, Value::Blob((0..=255).collect())),
            (ColumnType::Integer, Value::Null),
            (ColumnType::Real, Value::Null),
            (ColumnType::Text, Value::Null),
            (ColumnType::Blob, Value::Null),
        ]
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (column_type, value) in samples() {
            let field = to_field(&value);
            let back = from_field(field.as_bytes(), column_type, None);
            assert_eq!(back, Ok(value.clone()), "{field}");
            let line = to_json(&value).to_string();
            let back = from_json(serde_json::from_str(&line).unwrap(), column_type);
            assert_eq!(back, Ok(value), "{line}");
        }
    }

    #[test]
    fn an_empty_field_is_null_unless_it_is_text() {
        for column_type in [ColumnType::Integer, ColumnType::Real, ColumnType::Blob] {
            assert_eq!(from_field(b"", column_type, None), Ok(Value::Null));
        }
        assert_eq!(from_field(b"", ColumnType::Text, None), Ok("".into()));
        assert_eq!(from_field(b"", ColumnType::Text, Some("")), Ok(Value::Null));
        assert_eq!(
            from_field(b"NA", ColumnType::Real, Some("NA")),
            Ok(Value::Null)
        );
    }

    #[test]
    fn what_is_no_value_says_why() {
        let field = |text: &[u8], column_type| from_field(text, column_type, None).unwrap_err();
        assert_eq!(
            field(b"x", ColumnType::Integer),
            "\"x\" is no integer of 64 bits"
        );
        assert_eq!(
            field(b"9223372036854775808", ColumnType::Integer),
            "\"9223372036854775808\" is no integer of 64 bits"
        );
        assert_eq!(field(b"NaN", ColumnType::Real), "\"NaN\" is no real");
        assert_eq!(
            field(b"1e999", ColumnType::Real),
            "\"1e999\" is more than a real holds"
        );
        assert_eq!(field(b"\xff", ColumnType::Text), "it is no UTF-8");
        for text in ["00", "0x0", "0x0g", "0X00"] {
            assert!(field(text.as_bytes(), ColumnType::Blob).contains("is no blob: write 0x"));
        }
        let json = |text: &str, column_type| {
            from_json(serde_json::from_str(text).unwrap(), column_type).unwrap_err()
        };
        assert_eq!(
            json("1.5", ColumnType::Integer),
            "1.5 is no integer of 64 bits"
        );
        assert_eq!(json("\"1\"", ColumnType::Integer), "\"1\" is no integer");
        assert_eq!(json("[1]", ColumnType::Text), "[1] is no text");
        assert_eq!(json("true", ColumnType::Real), "true is no real");
        let long = format!("{:?}", "x".repeat(1000));
        assert!(json(&long, ColumnType::Integer).len() < 80);
    }
}
