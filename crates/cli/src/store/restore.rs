//! `iolane store load --dump`: what `iolane store dump` printed.
//!
//! Table by table, each in bulk: all of its rows or none.

use std::path::Path;

use iolane_store::data::TableSchema;
use iolane_store::{Error, Store};

use super::dump::{Mark, VERSION};
use super::failure::failure;
use super::load::{Loaded, until_bad};
use super::open;
use super::rows_in::{Fields, Input, Lines, fields_of_line, row_of_fields};
use crate::args::store::LoadMethod;
use crate::error::Failure;
use crate::session::Session;

const NEW_STORE: &str = "Load the dump into a new store (iolane store create).";

/// # Errors
/// A dump that is none, cut short, or does not fit what is there.
pub fn restore(store: &Store, dump: &Path, session: &Session) -> Result<Loaded, Failure> {
    let input = Input::open((dump != Path::new("-")).then_some(dump), &session.stop)?;
    let name = input.name.clone();
    let mut reader = DumpReader {
        lines: Lines::new(input),
        name,
        line: 0,
        session,
    };
    let (mut tables, mut rows) = (Vec::new(), 0);
    let restored = restore_tables(store, &mut reader, &mut tables, &mut rows);
    restored.map_err(|ended| after(ended, &tables))?;
    Ok(Loaded {
        tables,
        method: LoadMethod::Bulk,
        rows,
        skipped: 0,
        duration_ns: 0,
        rows_per_second: 0.0,
    })
}

/// What is to be done, and what was.
fn after(ended: Failure, tables: &[String]) -> Failure {
    if tables.is_empty() {
        return ended;
    }
    let complete = tables.join(", ");
    Failure::course(
        ended.to_string(),
        format!("{} Loaded completely before: {complete}.", ended.remedy()),
    )
}

fn restore_tables(
    store: &Store,
    reader: &mut DumpReader<'_>,
    tables: &mut Vec<String>,
    rows: &mut u64,
) -> Result<(), Failure> {
    match reader.next()? {
        Some(Part::Mark(Mark::IolaneDump(VERSION))) => {}
        Some(Part::Mark(Mark::IolaneDump(version))) => {
            return Err(Failure::setup(
                format!(
                    "{} has version {version} of the format, this program knows {VERSION}",
                    reader.name
                ),
                "Use the version of iolane that wrote it.",
            ));
        }
        _ => {
            return Err(Failure::setup(
                format!("{} is no dump of a store", reader.name),
                "iolane store dump writes one; rows alone need the name of their table instead of --dump.",
            ));
        }
    }
    let mut part = reader.next()?;
    loop {
        match part {
            Some(Part::Mark(Mark::Table(schema))) => {
                let (count, behind) = restore_table(store, &schema, reader)?;
                *rows += count;
                tables.push(schema.name);
                part = behind;
            }
            Some(Part::Mark(Mark::End {
                tables: all,
                rows: of_all,
            })) if all == tables.len() as u64 && of_all == *rows => {
                return match reader.next()? {
                    None => Ok(()),
                    Some(_) => Err(reader.damaged("there is more behind the end")),
                };
            }
            None => return Err(reader.damaged("the dump was cut short: its last line is missing")),
            Some(_) => return Err(reader.damaged("lines are missing before this one")),
        }
    }
}

/// Returns how many rows, and what comes after them.
fn restore_table(
    store: &Store,
    schema: &TableSchema,
    reader: &mut DumpReader<'_>,
) -> Result<(u64, Option<Part>), Failure> {
    prepare(store, schema)?;
    reader
        .session
        .progress
        .say(&format!("loading {}", schema.name));
    let (mut ended, mut behind) = (None, None);
    let rows = until_bad(&mut ended, || match reader.next()? {
        Some(Part::Row(fields)) => match row_of_fields(fields, schema) {
            Ok(row) => Ok(Some(row)),
            Err(reason) => Err(reader.damaged(&reason)),
        },
        None => Err(reader.damaged("the dump was cut short: its last line is missing")),
        other => {
            behind = other;
            Ok(None)
        }
    });
    let loaded = store.bulk_load(&schema.name, rows);
    match ended {
        Some(ended) => Err(ended),
        None => Ok((loaded.map_err(|error| not_loaded(&error))?, behind)),
    }
}

/// Where rows could be added, a dump goes into an empty table only.
fn not_loaded(error: &Error) -> Failure {
    match error {
        Error::NotEmpty(_) => Failure::setup(error.to_string(), NEW_STORE),
        error => failure(error),
    }
}

/// Makes the table, unless there is an equal one.
fn prepare(store: &Store, schema: &TableSchema) -> Result<(), Failure> {
    let tables = store.tables();
    match tables.iter().find(|table| table.name == schema.name) {
        None => store.create_table(schema).map_err(|error| failure(&error)),
        Some(there) if there == schema => Ok(()),
        Some(_) => Err(Failure::setup(
            format!(
                "there is a table {:?} that is not as in the dump",
                schema.name
            ),
            NEW_STORE,
        )),
    }
}

enum Part {
    Mark(Mark),
    Row(Fields),
}

struct DumpReader<'s> {
    lines: Lines,
    name: String,
    line: u64,
    session: &'s Session,
}

impl DumpReader<'_> {
    fn next(&mut self) -> Result<Option<Part>, Failure> {
        open::go_on(self.session)?;
        let read = self.lines.next();
        let read =
            read.map_err(|error| Failure::transfer(format!("reading {}", self.name), error))?;
        let Some((line, text)) = read else {
            return Ok(None);
        };
        let first = self.line == 0;
        self.line = line;
        let part = fields_of_line(text).map(|fields| part_of(fields, first));
        part.map(Some).map_err(|reason| self.damaged(&reason))
    }

    fn damaged(&self, reason: &str) -> Failure {
        Failure::course(
            format!("{}, line {}: {reason}", self.name, self.line),
            "Dump the store again, or copy the whole file again.",
        )
    }
}

/// A mark, where it cannot be a row.
fn part_of(fields: Fields, first: bool) -> Part {
    if let [(name, value)] = fields.0.as_slice()
        && (first || value.is_object())
    {
        let mark = serde_json::json!({ name.as_str(): value });
        if let Ok(mark) = serde_json::from_value(mark) {
            return Part::Mark(mark);
        }
    }
    Part::Row(fields)
}
