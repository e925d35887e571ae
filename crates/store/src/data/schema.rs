//! The description of a table.

use super::{ColumnType, KeyError, Value, encode_key};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Most columns of a table: InnoDB's limit.
pub const COLUMNS_MAX: usize = 1017;
/// Most secondary indexes of a table: InnoDB's limit.
pub const INDEXES_MAX: usize = 64;
/// Most columns of a key: InnoDB's limit.
pub const KEY_COLUMNS_MAX: usize = 16;
/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// Whether it may hold nothing.
    #[serde(default)]
    pub nullable: bool,
}

/// One secondary index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Names of its columns, the most significant first.
    pub columns: Vec<String>,
    /// Whether two rows may not have the same key. Rows with a null in it are
    /// never the same.
    #[serde(default)]
    pub unique: bool,
}

/// A table: columns, primary key, secondary indexes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    /// Its name.
    pub name: String,
    /// Its columns, in the order of a row's values.
    pub columns: Vec<Column>,
    /// Names of the primary key's columns, the most significant first.
    pub primary_key: Vec<String>,
    /// Its secondary indexes.
    #[serde(default)]
    pub indexes: Vec<Index>,
}

/// What is wrong with a schema, or with a row for it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// A name that is empty, too long, or has other characters than letters,
    /// digits and `_`.
    #[error(
        "{name:?} cannot be the name of a {of}: 1 to {NAME_BYTES_MAX} letters, digits or _, no digit first"
    )]
    Name {
        /// Table, column or index.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// Two of the same name.
    #[error("two {of} have the name {name:?}")]
    Twice {
        /// Columns or indexes.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// None or too many.
    #[error("{count} {of}: {min} to {max} are possible")]
    Count {
        /// Of what.
        of: &'static str,
        /// How many.
        count: usize,
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// No such column.
    #[error("table {table:?} has no column {column:?}")]
    UnknownColumn {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// A primary key that may be null.
    #[error("column {0:?} is part of the primary key and must not be nullable")]
    NullableKey(String),
    /// A row with too many or too few values.
    #[error("a row of {found} values for {expected} columns")]
    Length {
        /// How many it has.
        found: usize,
        /// How many columns there are.
        expected: usize,
    },
    /// A value of another type than its column.
    #[error("column {column:?} holds {expected}, the value is {found}")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        expected: &'static str,
        /// The value's.
        found: &'static str,
    },
    /// NaN.
    #[error("column {0:?}: NaN cannot be stored")]
    NotANumber(String),
    /// A key that is too long.
    #[error("key {key:?}: {source}")]
    Key {
        /// The index, or `primary key`.
        key: String,
        /// What is wrong.
        source: KeyError,
    },
}

/// A schema step by step; [`validate`](TableSchema::validate) judges the whole.
///
/// ```
/// use iolane_store::data::{ColumnType, TableSchema};
///
/// let person = TableSchema::new("person")
///     .column("id", ColumnType::Integer)
///     .nullable_column("email", ColumnType::Text)
///     .primary_key(["id"])
///     .unique_index("by_email", ["email"]);
/// assert_eq!(person.validate(), Ok(()));
/// ```
impl TableSchema {
    /// A table without columns or keys.
    pub fn new(name: &str) -> TableSchema {
        TableSchema {
            name: name.to_owned(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
        }
    }

    /// With one more column, which must hold a value.
    pub fn column(self, name: &str, column_type: ColumnType) -> TableSchema {
        self.with_column(name, column_type, false)
    }

    /// With one more column, which may be null.
    pub fn nullable_column(self, name: &str, column_type: ColumnType) -> TableSchema {
        self.with_column(name, column_type, true)
    }

    fn with_column(mut self, name: &str, column_type: ColumnType, nullable: bool) -> TableSchema {
        self.columns.push(Column {
            name: name.to_owned(),
            column_type,
            nullable,
        });
        self
    }

    /// With these columns as primary key, the most significant first.
    pub fn primary_key<const N: usize>(mut self, columns: [&str; N]) -> TableSchema {
        self.primary_key = columns.map(str::to_owned).to_vec();
        self
    }

    /// With one more secondary index.
    pub fn index<const N: usize>(self, name: &str, columns: [&str; N]) -> TableSchema {
        self.with_index(name, &columns, false)
    }

    /// With one more secondary index, in which no two rows have the same key.
    pub fn unique_index<const N: usize>(self, name: &str, columns: [&str; N]) -> TableSchema {
        self.with_index(name, &columns, true)
    }

    fn with_index(mut self, name: &str, columns: &[&str], unique: bool) -> TableSchema {
        self.indexes.push(Index {
            name: name.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            unique,
        });
        self
    }

    /// Names of the columns, in their order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Checks that a table can be made like this.
    ///
    /// # Errors
    /// [`SchemaError`], the first that was found.
    pub fn validate(&self) -> Result<(), SchemaError> {
        name("table", &self.name)?;
        count("columns", self.columns.len(), 1, COLUMNS_MAX)?;
        count("indexes", self.indexes.len(), 0, INDEXES_MAX)?;
        all_different(
            "columns",
            "column",
            self.columns.iter().map(|column| &column.name),
        )?;
        all_different(
            "indexes",
            "index",
            self.indexes.iter().map(|index| &index.name),
        )?;
        self.check_key(&self.primary_key)?;
        for column in &self.primary_key {
            if self.columns[self.position(column)?].nullable {
                return Err(SchemaError::NullableKey(column.clone()));
            }
        }
        for index in &self.indexes {
            self.check_key(&index.columns)?;
        }
        Ok(())
    }

    fn check_key(&self, columns: &[String]) -> Result<(), SchemaError> {
        count("key columns", columns.len(), 1, KEY_COLUMNS_MAX)?;
        for column in columns {
            self.position(column)?;
        }
        all_different("key columns", "column", columns.iter())
    }

    /// Which value of a row belongs to a column.
    ///
    /// # Errors
    /// [`SchemaError::UnknownColumn`].
    pub fn position(&self, column: &str) -> Result<usize, SchemaError> {
        let found = self.columns.iter().position(|each| each.name == column);
        found.ok_or_else(|| SchemaError::UnknownColumn {
            table: self.name.clone(),
            column: column.to_owned(),
        })
    }

    /// Checks that the values of a row are what its columns hold.
    ///
    /// # Errors
    /// [`SchemaError`], the first that was found.
    pub fn check_row(&self, row: &[Value]) -> Result<(), SchemaError> {
        if row.len() != self.columns.len() {
            return Err(SchemaError::Length {
                found: row.len(),
                expected: self.columns.len(),
            });
        }
        for (value, column) in row.iter().zip(&self.columns) {
            match value.column_type() {
                None if column.nullable => {}
                Some(found) if found == column.column_type => {}
                _ => {
                    return Err(SchemaError::Type {
                        column: column.name.clone(),
                        expected: column.column_type.name(),
                        found: value.type_name(),
                    });
                }
            }
            if matches!(value, Value::Real(number) if number.is_nan()) {
                return Err(SchemaError::NotANumber(column.name.clone()));
            }
        }
        Ok(())
    }

    /// The key that `columns` of a checked row make; `of` names it in errors.
    ///
    /// # Errors
    /// [`SchemaError::Key`] when it is too long.
    pub fn key_of(
        &self,
        row: &[Value],
        of: &str,
        columns: &[String],
    ) -> Result<Vec<u8>, SchemaError> {
        let mut key = Vec::new();
        for column in columns {
            let value = &row[self.position(column)?];
            encode_key([value], &mut key).map_err(|source| SchemaError::Key {
                key: of.to_owned(),
                source,
            })?;
        }
        if key.len() > super::KEY_BYTES_MAX {
            return Err(SchemaError::Key {
                key: of.to_owned(),
                source: KeyError::TooLong { bytes: key.len() },
            });
        }
        Ok(key)
    }
}

fn name(of: &'static str, name: &str) -> Result<(), SchemaError> {
    let letters = name
        .chars()
        .all(|letter| letter.is_alphanumeric() || letter == '_');
    let begins_well = name.chars().next().is_some_and(|first| !first.is_numeric());
    if letters && begins_well && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(SchemaError::Name {
        of,
        name: name.to_owned(),
    })
}

fn count(of: &'static str, count: usize, min: usize, max: usize) -> Result<(), SchemaError> {
    if (min..=max).contains(&count) {
        return Ok(());
    }
    Err(SchemaError::Count {
        of,
        count,
        min,
        max,
    })
}

fn all_different<'a>(
    of: &'static str,
    of_one: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), SchemaError> {
    let mut seen = HashSet::new();
    for each in names {
        name(of_one, each)?;
        if !seen.insert(each) {
            return Err(SchemaError::Twice {
                of,
                name: each.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableSchema {
        TableSchema::new("person")
            .column("id", ColumnType::Integer)
            .nullable_column("name", ColumnType::Text)
            .nullable_column("weight", ColumnType::Real)
            .primary_key(["id"])
            .index("by_name", ["name", "id"])
    }

    #[test]
    fn a_good_schema_passes_and_survives_json() {
        let table = table();
        assert_eq!(table.validate(), Ok(()));
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<TableSchema>(&json).unwrap(), table);
    }

    #[test]
    fn each_fault_is_named() {
        let fault = |change: fn(&mut TableSchema)| {
            let mut table = table();
            change(&mut table);
            table.validate().unwrap_err().to_string()
        };
        assert_eq!(
            fault(|table| table.columns[1].name = "id".into()),
            "two columns have the name \"id\""
        );
        assert_eq!(
            fault(|table| table.primary_key.clear()),
            "0 key columns: 1 to 16 are possible"
        );
        assert_eq!(
            fault(|table| table.primary_key.push("name".into())),
            "column \"name\" is part of the primary key and must not be nullable"
        );
        assert_eq!(
            fault(|table| table.indexes[0].columns[0] = "nme".into()),
            "table \"person\" has no column \"nme\""
        );
        assert_eq!(
            fault(|table| table.name = "a b".into()),
            "\"a b\" cannot be the name of a table: 1 to 64 letters, digits or _, no digit first"
        );
        assert_eq!(
            fault(|table| table.columns.clear()),
            "0 columns: 1 to 1017 are possible"
        );
        assert_eq!(
            fault(|table| table.indexes = vec![table.indexes[0].clone(); 2]),
            "two indexes have the name \"by_name\""
        );
    }

    #[test]
    fn rows_are_checked_against_their_columns() {
        let table = table();
        let good = vec![1.into(), "Anna".into(), Value::Null];
        assert_eq!(table.check_row(&good), Ok(()));
        let key = table.key_of(&good, "primary key", &table.primary_key);
        assert_eq!(key.unwrap().len(), 9);
        let fault = |row: Vec<Value>| table.check_row(&row).unwrap_err().to_string();
        assert_eq!(fault(vec![1.into()]), "a row of 1 values for 3 columns");
        assert_eq!(
            fault(vec![Value::Null, Value::Null, Value::Null]),
            "column \"id\" holds integer, the value is null"
        );
        assert_eq!(
            fault(vec![1.into(), 2.into(), Value::Null]),
            "column \"name\" holds text, the value is integer"
        );
        assert_eq!(
            fault(vec![1.into(), Value::Null, f64::NAN.into()]),
            "column \"weight\": NaN cannot be stored"
        );
        let long = vec![1.into(), "x".repeat(4000).into(), Value::Null];
        let key = table.key_of(&long, "by_name", &table.indexes[0].columns);
        assert_eq!(
            key.unwrap_err().to_string(),
            "key \"by_name\": the key takes 4003 bytes, at most 3072 are possible"
        );
    }
}
