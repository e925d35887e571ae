//! A table as the code that reads and changes rows needs it.

use crate::access::Pages;
use crate::data::{
    ColumnType, KeyError, Row, SchemaError, TableSchema, Value, decode_key, decode_key_into,
    decode_row_into, encode_key, encode_row, encode_sought, key_bytes,
};
use crate::ids::{PageId, SegmentId};
use crate::overflow::{Overflow, OverflowError};
use crate::tree::Tree;
use crate::txn::Error;
use crate::txn::version::VersionRef;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicU64;

/// Most bytes of a row's columns: a bound for the memory that reading one
/// takes.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// Room for most keys, so that they are made without a second allocation.
const KEY_BYTES_EXPECTED: usize = 40;

/// Where a tree is, for the catalogue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TreePlace {
    pub(crate) id: u64,
    pub(crate) root: u32,
    pub(crate) leaves: u32,
    pub(crate) branches: u32,
}

impl TreePlace {
    fn tree(&self, space: u32) -> Tree {
        let segment = |number| SegmentId { space, number };
        Tree {
            root: PageId::new(space, self.root),
            leaf_segment: segment(self.leaves),
            branch_segment: segment(self.branches),
            owner: self.id,
        }
    }
}

/// What the catalogue knows of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableRecord {
    pub(crate) schema: TableSchema,
    pub(crate) space: u32,
    pub(crate) rows: TreePlace,
    /// Segment of long values.
    pub(crate) long: u32,
    pub(crate) indexes: Vec<TreePlace>,
}

impl TableRecord {
    /// Where long values go.
    pub(crate) fn overflow(&self) -> Overflow {
        Overflow {
            segment: SegmentId {
                space: self.space,
                number: self.long,
            },
            owner: self.rows.id,
        }
    }
}

/// A secondary index.
pub(crate) struct SecondaryIndex {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) unique: bool,
    pub(crate) tree: Tree,
    /// Positions of its columns in a row.
    pub(crate) columns: Vec<usize>,
}

/// A table.
pub(crate) struct Table {
    pub(crate) id: u64,
    pub(crate) schema: TableSchema,
    pub(crate) space: u32,
    pub(crate) rows: Tree,
    pub(crate) long: Overflow,
    pub(crate) indexes: Vec<SecondaryIndex>,
    /// Positions of the primary key's columns in a row.
    pub(crate) key_columns: Vec<usize>,
    /// Positions of all others.
    value_columns: Vec<usize>,
    /// Of all columns.
    types: Vec<ColumnType>,
    /// The transaction that has loaded it without undo; 0: older than all.
    pub(crate) filled_by: AtomicU64,
}

impl Table {
    pub(crate) fn new(record: TableRecord) -> Result<Table, SchemaError> {
        let long = record.overflow();
        let schema = record.schema;
        let positions = |names: &[String]| -> Result<Vec<usize>, SchemaError> {
            names.iter().map(|name| schema.position(name)).collect()
        };
        let key_columns = positions(&schema.primary_key)?;
        let value_columns = (0..schema.columns.len())
            .filter(|column| !key_columns.contains(column))
            .collect();
        let mut indexes = Vec::with_capacity(record.indexes.len());
        for (index, place) in schema.indexes.iter().zip(&record.indexes) {
            indexes.push(SecondaryIndex {
                id: place.id,
                name: index.name.clone(),
                unique: index.unique,
                tree: place.tree(record.space),
                columns: positions(&index.columns)?,
            });
        }
        Ok(Table {
            id: record.rows.id,
            space: record.space,
            rows: record.rows.tree(record.space),
            long,
            indexes,
            key_columns,
            value_columns,
            types: schema
                .columns
                .iter()
                .map(|column| column.column_type)
                .collect(),
            schema,
            filled_by: AtomicU64::new(0),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.schema.name
    }

    pub(crate) fn position_of_index(&self, name: &str) -> Result<usize, Error> {
        let found = self.indexes.iter().position(|index| index.name == name);
        found.ok_or_else(|| Error::UnknownIndex {
            table: self.name().to_owned(),
            index: name.to_owned(),
        })
    }

    /// What an index is called, or the primary key, and its columns.
    pub(crate) fn index_columns(&self, index: Option<usize>) -> (&str, &[usize]) {
        match index {
            None => ("primary key", &self.key_columns),
            Some(at) => (&self.indexes[at].name, &self.indexes[at].columns),
        }
    }

    fn column_type(&self, position: usize) -> ColumnType {
        self.types[position]
    }

    fn too_large(&self, what: &str, bytes: usize, bytes_max: usize) -> Error {
        Error::TooLarge {
            table: self.name().to_owned(),
            what: what.to_owned(),
            bytes,
            bytes_max,
        }
    }

    /// The primary key of a checked row.
    pub(crate) fn key_of(&self, row: &[Value], key_bytes_max: usize) -> Result<Vec<u8>, Error> {
        let mut key = Vec::with_capacity(KEY_BYTES_EXPECTED);
        self.put_key(row, key_bytes_max, &mut key)?;
        Ok(key)
    }

    /// The same in `key`, which is empty.
    pub(crate) fn put_key(
        &self,
        row: &[Value],
        key_bytes_max: usize,
        key: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let values = self.key_columns.iter().map(|&column| &row[column]);
        encode_key(values, key).map_err(|source| SchemaError::Key {
            key: "primary key".to_owned(),
            source,
        })?;
        if key.len() > key_bytes_max {
            return Err(self.too_large("primary key", key.len(), key_bytes_max));
        }
        Ok(())
    }

    /// The bytes of the first few columns of a key to search for, given as values. No
    /// row has one that is longer than keys may be.
    pub(crate) fn key_prefix(
        &self,
        of: &str,
        columns: &[usize],
        values: &[Value],
    ) -> Result<Vec<u8>, Error> {
        if values.len() > columns.len() {
            return Err(Error::KeyLength {
                key: of.to_owned(),
                found: values.len(),
                expected: columns.len(),
            });
        }
        for (&column, value) in columns.iter().zip(values) {
            let column = &self.schema.columns[column];
            let fits = match value.column_type() {
                None => column.nullable,
                Some(found) => found == column.column_type,
            };
            if !fits {
                return Err(Error::Schema(SchemaError::Type {
                    column: column.name.clone(),
                    expected: column.column_type.name(),
                    found: value.type_name(),
                }));
            }
        }
        let mut key = Vec::with_capacity(KEY_BYTES_EXPECTED);
        encode_sought(values, &mut key).map_err(|source| SchemaError::Key {
            key: of.to_owned(),
            source,
        })?;
        Ok(key)
    }

    /// A whole primary key, given as values.
    pub(crate) fn primary_key(&self, values: &[Value]) -> Result<Vec<u8>, Error> {
        if values.len() != self.key_columns.len() {
            return Err(Error::KeyLength {
                key: "primary key".to_owned(),
                found: values.len(),
                expected: self.key_columns.len(),
            });
        }
        self.key_prefix("primary key", &self.key_columns, values)
    }

    /// The columns of a checked row that are not in its key.
    pub(crate) fn payload_of(&self, row: &[Value]) -> Result<Vec<u8>, Error> {
        let mut payload = Vec::new();
        self.put_payload(row, &mut payload)?;
        Ok(payload)
    }

    /// The same behind what is in `out`.
    pub(crate) fn put_payload(&self, row: &[Value], out: &mut Vec<u8>) -> Result<(), Error> {
        let begin = out.len();
        encode_row(self.value_columns.iter().map(|&column| &row[column]), out);
        let bytes = out.len() - begin;
        if bytes > ROW_BYTES_MAX {
            return Err(self.too_large("row", bytes, ROW_BYTES_MAX));
        }
        Ok(())
    }

    /// The payload of a version, also of a long one.
    pub(crate) fn whole_payload<P: Pages>(
        &self,
        pages: &P,
        version: VersionRef<'_>,
    ) -> Result<Vec<u8>, OverflowError> {
        let Some(value) = version.long() else {
            return Ok(version.payload.to_vec());
        };
        let mut payload = Vec::new();
        self.long.read(pages, value, &mut payload)?;
        Ok(payload)
    }

    /// The row of a key and a whole payload.
    pub(crate) fn row(&self, key: &[u8], payload: &[u8]) -> Result<Row, Error> {
        let mut row = Row::new();
        self.put_row(key, payload, &mut row)?;
        Ok(row)
    }

    /// The same in the place, and the memory, of another one.
    pub(crate) fn put_row(&self, key: &[u8], payload: &[u8], row: &mut Row) -> Result<(), Error> {
        let damaged = |reason: String| Error::DamagedRow {
            table: self.name().to_owned(),
            reason,
        };
        row.resize(self.types.len(), Value::Null);
        decode_key_into(key, &self.key_columns, &self.types, row)
            .map_err(|error| damaged(error.to_string()))?;
        decode_row_into(payload, &self.value_columns, &self.types, row)
            .map_err(|error| damaged(error.to_string()))
    }

    /// What an entry of an index, whose primary key begins at `key_at`, says of its
    /// row: the columns of both, in the place of another row. All others are null.
    pub(crate) fn put_row_of_entry(
        &self,
        index: &SecondaryIndex,
        entry: &[u8],
        key_at: usize,
        row: &mut Row,
    ) -> Result<(), Error> {
        let (columns, key) = entry.split_at(key_at);
        row.resize(self.types.len(), Value::Null);
        for (column, value) in row.iter_mut().enumerate() {
            if !index.columns.contains(&column) && !self.key_columns.contains(&column) {
                *value = Value::Null;
            }
        }
        decode_key_into(columns, &index.columns, &self.types, row)
            .and_then(|()| decode_key_into(key, &self.key_columns, &self.types, row))
            .map_err(|error| self.damaged_entry(index, &error))
    }

    /// Bytes of an index's columns at the beginning of one of its entries.
    pub(crate) fn split_entry(&self, index: &SecondaryIndex, entry: &[u8]) -> Result<usize, Error> {
        let types = index.columns.iter().map(|&column| self.column_type(column));
        key_bytes(entry, types).map_err(|error| self.damaged_entry(index, &error))
    }

    /// The values of an index's columns at the beginning of an entry, and how
    /// many bytes they are.
    fn index_values(
        &self,
        index: &SecondaryIndex,
        entry: &[u8],
    ) -> Result<(Vec<Value>, usize), Error> {
        let types = index.columns.iter().map(|&column| self.column_type(column));
        decode_key(entry, types).map_err(|error| self.damaged_entry(index, &error))
    }

    fn damaged_entry(&self, index: &SecondaryIndex, error: &KeyError) -> Error {
        Error::DamagedRow {
            table: self.name().to_owned(),
            reason: format!("index {}: {error}", index.name),
        }
    }

    /// The columns of a row that an index is ordered by, as bytes.
    pub(crate) fn index_key(
        &self,
        index: &SecondaryIndex,
        row: &[Value],
    ) -> Result<Vec<u8>, Error> {
        let mut key = Vec::with_capacity(KEY_BYTES_EXPECTED);
        self.put_index_key(index, row, &mut key)?;
        Ok(key)
    }

    fn put_index_key(
        &self,
        index: &SecondaryIndex,
        row: &[Value],
        key: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let values = index.columns.iter().map(|&column| &row[column]);
        encode_key(values, key).map_err(|source| SchemaError::Key {
            key: index.name.clone(),
            source,
        })?;
        Ok(())
    }

    /// The entry of a row in an index.
    pub(crate) fn entry(
        &self,
        index: &SecondaryIndex,
        row: &[Value],
        key: &[u8],
        key_bytes_max: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut entry = Vec::with_capacity(KEY_BYTES_EXPECTED + key.len());
        self.put_entry(index, row, key, key_bytes_max, &mut entry)?;
        Ok(entry)
    }

    /// The same in `entry`, which is empty.
    pub(crate) fn put_entry(
        &self,
        index: &SecondaryIndex,
        row: &[Value],
        key: &[u8],
        key_bytes_max: usize,
        entry: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.put_index_key(index, row, entry)?;
        entry.extend_from_slice(key);
        if entry.len() > key_bytes_max {
            let what = format!("entry in index {}", index.name);
            return Err(self.too_large(&what, entry.len(), key_bytes_max));
        }
        Ok(())
    }

    /// Whether one of an index's columns, encoded as `columns`, is null.
    pub(crate) fn has_null(&self, index: &SecondaryIndex, columns: &[u8]) -> Result<bool, Error> {
        Ok(self.index_values(index, columns)?.0.contains(&Value::Null))
    }

    /// Whether an index must not have a second row with the same columns.
    pub(crate) fn is_unique_for(&self, index: &SecondaryIndex, row: &[Value]) -> bool {
        index.unique
            && index
                .columns
                .iter()
                .all(|&column| row[column] != Value::Null)
    }
}
