//! Values and their types.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// A signed number of 64 bits.
    Integer,
    /// An IEEE 754 number of 64 bits, but no NaN.
    Real,
    /// UTF-8, ordered by its bytes.
    Text,
    /// Any bytes.
    Blob,
}

impl ColumnType {
    /// Lower-case name, as in a schema.
    pub const fn name(self) -> &'static str {
        match self {
            ColumnType::Integer => "integer",
            ColumnType::Real => "real",
            ColumnType::Text => "text",
            ColumnType::Blob => "blob",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A signed number of 64 bits.
    Integer(i64),
    /// An IEEE 754 number of 64 bits.
    Real(f64),
    /// UTF-8.
    Text(String),
    /// Any bytes.
    Blob(Vec<u8>),
}

impl Value {
    /// Makes it an empty blob, in the memory of the one that it was.
    pub(crate) fn make_blob(&mut self) -> &mut Vec<u8> {
        if !matches!(self, Value::Blob(_)) {
            *self = Value::Blob(Vec::new());
        }
        let Value::Blob(bytes) = self else {
            unreachable!("it was made one just now");
        };
        bytes.clear();
        bytes
    }

    /// Makes it a blob, in the memory of the one that it was.
    #[inline]
    pub fn set_blob(&mut self, bytes: &[u8]) {
        match self {
            Value::Blob(blob) => {
                blob.clear();
                blob.extend_from_slice(bytes);
            }
            _ => *self = Value::Blob(bytes.to_vec()),
        }
    }

    /// Its type; `None` for null.
    pub const fn column_type(&self) -> Option<ColumnType> {
        match self {
            Value::Null => None,
            Value::Integer(_) => Some(ColumnType::Integer),
            Value::Real(_) => Some(ColumnType::Real),
            Value::Text(_) => Some(ColumnType::Text),
            Value::Blob(_) => Some(ColumnType::Blob),
        }
    }

    /// Its type's name, or `null`.
    pub fn type_name(&self) -> &'static str {
        self.column_type().map_or("null", ColumnType::name)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Value {
        Value::Blob(value.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}
