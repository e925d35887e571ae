//! `iolane store scan` and `range`: rows on standard output.

use std::ops::Bound;

use iolane_store::data::{Row, TableSchema, Value};
use iolane_store::{Direction, Error};

use super::failure::{failure, find_table};
use super::open;
use super::quotes::Quotes;
use super::rows_out::{Lines, Reader, RowWriter};
use super::value;
use crate::args::store::{PrintArgs, RangeArgs, ScanArgs};
use crate::error::Failure;
use crate::session::Session;

pub const SCAN: &str = "scan";
pub const SCAN_ABOUT: &str = "Print the rows of a table, in the order of its primary key";
pub const RANGE: &str = "range";
pub const RANGE_ABOUT: &str =
    "Print the rows between two keys, in the order of the primary key or of an index";

/// # Errors
/// A table or column that there is not, what the store says, or standard
/// output.
pub fn scan(arguments: ScanArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    let schema = find_table(&store, &arguments.table)?;
    let print = &arguments.print;
    let writer = writer(&schema, print)?;
    let mut transaction = store.begin();
    let rows = transaction.range(&schema.name, .., direction(print));
    let rows = rows.map_err(|error| failure(&error))?;
    write_rows(rows, writer, print, session)?;
    drop(transaction);
    open::close(store)?;
    Ok(String::new())
}

/// # Errors
/// The same, and keys that do not fit.
pub fn range(arguments: RangeArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    let schema = find_table(&store, &arguments.table)?;
    let print = &arguments.print;
    let writer = writer(&schema, print)?;
    let columns = key_columns(&schema, arguments.index.as_deref())?;
    let key = |option, text: &Option<String>| {
        text.as_ref()
            .map(|text| key(&schema, columns, option, text))
            .transpose()
    };
    let lower = bound(
        key("--from", &arguments.from)?,
        key("--after", &arguments.after)?,
    );
    let upper = bound(
        key("--to", &arguments.to)?,
        key("--before", &arguments.before)?,
    );
    let bounds = (as_slice(&lower), as_slice(&upper));
    let mut transaction = store.begin();
    let rows = match &arguments.index {
        None => transaction.range(&schema.name, bounds, direction(print)),
        Some(index) => transaction.range_by(&schema.name, index, bounds, direction(print)),
    };
    let rows = rows.map_err(|error| failure(&error))?;
    write_rows(rows, writer, print, session)?;
    drop(transaction);
    open::close(store)?;
    Ok(String::new())
}

fn direction(print: &PrintArgs) -> Direction {
    if print.reverse {
        Direction::Backward
    } else {
        Direction::Forward
    }
}

fn writer(schema: &TableSchema, print: &PrintArgs) -> Result<RowWriter, Failure> {
    let writer = RowWriter::new(schema, print.columns.as_deref(), print.format);
    writer.map_err(|error| {
        let columns: Vec<&str> = schema.column_names().collect();
        Failure::usage(
            error.to_string(),
            format!("Its columns: {}.", columns.join(", ")),
        )
    })
}

fn key_columns<'a>(schema: &'a TableSchema, index: Option<&str>) -> Result<&'a [String], Failure> {
    let Some(name) = index else {
        return Ok(&schema.primary_key);
    };
    let found = schema.indexes.iter().find(|index| index.name == name);
    found.map(|index| index.columns.as_slice()).ok_or_else(|| {
        failure(&Error::UnknownIndex {
            table: schema.name.clone(),
            index: name.to_owned(),
        })
    })
}

/// Values of the first few columns of a key.
fn key(
    schema: &TableSchema,
    columns: &[String],
    option: &str,
    text: &str,
) -> Result<Vec<Value>, Failure> {
    let unclear = |reason: String| {
        Failure::usage(
            format!("{option} {text:?}: {reason}"),
            format!(
                "A key is one line of CSV: {}; the last values may be left out.",
                columns.join(",")
            ),
        )
    };
    let mut quotes = Quotes::new();
    let followed = quotes.follow(text.as_bytes()).map_err(|(_, fault)| fault);
    followed
        .and_then(|()| quotes.end())
        .map_err(|fault| unclear(fault.to_string()))?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let read = reader.read_record(&mut record);
    if !read.map_err(|error| unclear(error.to_string()))? {
        // An empty line: one empty field.
        record.push_field("");
    }
    let more = reader.read_record(&mut csv::StringRecord::new());
    if more.map_err(|error| unclear(error.to_string()))? {
        return Err(unclear("it has more than one line".to_owned()));
    }
    if record.len() > columns.len() {
        let (found, all) = (record.len(), columns.len());
        return Err(unclear(format!("{found} values, the key has {all}")));
    }
    let mut values = Vec::with_capacity(record.len());
    for (field, name) in record.iter().zip(columns) {
        let position = schema
            .position(name)
            .map_err(|error| failure(&error.into()))?;
        let column = &schema.columns[position];
        let value = value::from_field(field.as_bytes(), column.column_type, None)
            .map_err(|reason| unclear(format!("column {name:?}: {reason}")))?;
        if value == Value::Null && !column.nullable {
            return Err(unclear(format!("column {name:?} holds no null")));
        }
        values.push(value);
    }
    Ok(values)
}

fn bound(included: Option<Vec<Value>>, excluded: Option<Vec<Value>>) -> Bound<Vec<Value>> {
    match (included, excluded) {
        (Some(key), _) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    }
}

fn as_slice(bound: &Bound<Vec<Value>>) -> Bound<&[Value]> {
    bound.as_ref().map(Vec::as_slice)
}

fn write_rows(
    rows: impl Iterator<Item = Result<Row, Error>>,
    mut writer: RowWriter,
    print: &PrintArgs,
    session: &Session,
) -> Result<Reader, Failure> {
    let mut lines = Lines::to_stdout();
    if lines.write(writer.header())? == Reader::Gone {
        return Ok(Reader::Gone);
    }
    let most = usize::try_from(print.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for row in rows.take(most) {
        if session.stop.is_raised() {
            lines.finish()?;
            open::go_on(session)?;
            return Ok(Reader::There);
        }
        let row = row.map_err(|error| failure(&error))?;
        if lines.write(writer.line(&row))? == Reader::Gone {
            return Ok(Reader::Gone);
        }
    }
    lines.finish()
}
