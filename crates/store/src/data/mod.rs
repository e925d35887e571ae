//! What tables hold: values, rows, keys, and the description of a table.

mod key;
mod row;
mod schema;
mod value;

pub(crate) use key::decode_key_to;
pub use key::{KEY_BYTES_MAX, KeyError, decode_key, encode_key, prefix_end};
pub(crate) use row::decode_row_to;
pub use row::{Row, RowError, decode_row, encode_row};
pub use schema::{Column, Index, SchemaError, TableSchema};
pub use value::{ColumnType, Value};
