//! `iolane store dump`: everything as JSON lines.

use iolane_store::data::TableSchema;
use iolane_store::{Direction, Transaction};
use serde::{Deserialize, Serialize};

use super::failure::{failure, find_table};
use super::open;
use super::rows_out::{Lines, Reader, RowWriter};
use crate::args::store::{DumpArgs, RowFormat};
use crate::error::Failure;
use crate::session::Session;

pub const NAME: &str = "dump";
pub const ABOUT: &str = "Print schemas and rows as JSON lines, to be loaded again";

/// Of the format.
pub const VERSION: u64 = 1;

/// The lines that are no rows. No row can be mistaken for one: no value of a
/// row is an object, and the first is known by its place.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The first line: the version of the format.
    IolaneDump(u64),
    /// Rows of this table follow.
    Table(TableSchema),
    /// The last line.
    End {
        /// How many there were.
        tables: u64,
        /// In all of them.
        rows: u64,
    },
}

/// # Errors
/// What the store says, or standard output.
pub fn dump(arguments: DumpArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    let tables = if arguments.tables.is_empty() {
        store.tables()
    } else {
        let tables = arguments.tables.iter();
        let tables = tables.map(|name| find_table(&store, name));
        tables.collect::<Result<Vec<TableSchema>, Failure>>()?
    };
    let mut lines = Lines::to_stdout();
    let mut transaction = store.begin();
    if write_all(&mut transaction, tables, &mut lines, session)? == Reader::There {
        lines.finish()?;
    }
    drop(transaction);
    open::close(store)?;
    Ok(String::new())
}

fn write_all<W: std::io::Write>(
    transaction: &mut Transaction<'_>,
    tables: Vec<TableSchema>,
    lines: &mut Lines<W>,
    session: &Session,
) -> Result<Reader, Failure> {
    let (mut count, mut rows) = (0, 0);
    if lines.write(&line(&Mark::IolaneDump(VERSION))?)? == Reader::Gone {
        return Ok(Reader::Gone);
    }
    for schema in tables {
        session.progress.say(&format!("dumping {}", schema.name));
        let name = schema.name.clone();
        let writer = RowWriter::new(&schema, None, RowFormat::Jsonl);
        let mut writer = writer.map_err(|error| failure(&error.into()))?;
        if lines.write(&line(&Mark::Table(schema))?)? == Reader::Gone {
            return Ok(Reader::Gone);
        }
        count += 1;
        let range = transaction.range(&name, .., Direction::Forward);
        for row in range.map_err(|error| failure(&error))? {
            open::go_on(session)?;
            let row = row.map_err(|error| failure(&error))?;
            rows += 1;
            if lines.write(writer.line(&row))? == Reader::Gone {
                return Ok(Reader::Gone);
            }
        }
    }
    lines.write(&line(&Mark::End {
        tables: count,
        rows,
    })?)
}

fn line(mark: &Mark) -> Result<Vec<u8>, Failure> {
    let json = serde_json::to_vec(mark).map_err(|error| Failure::Internal {
        message: error.to_string(),
    });
    let mut line = json?;
    line.push(b'\n');
    Ok(line)
}
