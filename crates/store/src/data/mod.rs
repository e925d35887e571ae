//! What tables hold: values, rows, keys, and the description of a table.

mod key;
mod row;
mod schema;
mod value;

pub(crate) use key::{FirstColumn, decode_key_into, encode_sought, key_bytes};
pub use key::{KEY_BYTES_MAX, KeyError, decode_key, encode_key, prefix_end};
pub(crate) use row::decode_row_into;
pub use row::{Row, RowError, decode_row, encode_row};
pub use schema::{Column, Index, SchemaError, TableSchema};
pub use value::{ColumnType, Value};
