//! `iolane store dump`: everything as JSON lines.

use iolane_store::data::{Row, TableSchema};
use iolane_store::{DamagedTable, Direction, Error, Store, Transaction};
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
    let mut gaps = Gaps {
        allowed: arguments.skip_damaged,
        told: 0,
        tables: 0,
        session,
    };
    let tables = choose(&store, &arguments.tables, &mut gaps)?;
    let mut lines = Lines::to_stdout();
    let mut transaction = store.begin();
    if write_all(&mut transaction, tables, &mut lines, &mut gaps)? == Reader::There {
        lines.finish()?;
    }
    drop(transaction);
    open::close(store)?;
    gaps.end()?;
    Ok(String::new())
}

/// The tables to be dumped: those that are named, or all.
fn choose(
    store: &Store,
    names: &[String],
    gaps: &mut Gaps<'_>,
) -> Result<Vec<TableSchema>, Failure> {
    let mut damaged = store.damaged_tables();
    damaged.retain(|table| names.is_empty() || names.contains(&table.name));
    for table in &damaged {
        gaps.tell_table(table)?;
    }
    if names.is_empty() {
        return Ok(store.tables());
    }
    let is_left_out = |name: &&String| damaged.iter().any(|table| table.name == **name);
    let names = names.iter().filter(|name| !is_left_out(name));
    names.map(|name| find_table(store, name)).collect()
}

fn write_all<W: std::io::Write>(
    transaction: &mut Transaction<'_>,
    tables: Vec<TableSchema>,
    lines: &mut Lines<W>,
    gaps: &mut Gaps<'_>,
) -> Result<Reader, Failure> {
    let session = gaps.session;
    let (mut count, mut rows) = (0, 0);
    if lines.write(&line(&Mark::IolaneDump(VERSION))?)? == Reader::Gone {
        return Ok(Reader::Gone);
    }
    for schema in &tables {
        session.progress.say(&format!("dumping {}", schema.name));
        let writer = RowWriter::new(schema, None, RowFormat::Jsonl);
        let mut writer = writer.map_err(|error| failure(&error.into()))?;
        if lines.write(&line(&Mark::Table(schema.clone()))?)? == Reader::Gone {
            return Ok(Reader::Gone);
        }
        count += 1;
        let range = transaction.range(&schema.name, .., Direction::Forward);
        let mut range = range.map_err(|error| failure(&error))?;
        let (mut last, mut damage) = (None, None);
        while let Some(row) = range.next() {
            open::go_on(session)?;
            let row = match row {
                Ok(row) => row,
                Err(error) if gaps.allowed && range.pass_damage() => {
                    // Next to each other they are one gap.
                    damage.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(failure(&error)),
            };
            rows += 1;
            if lines.write(writer.line(&row))? == Reader::Gone {
                return Ok(Reader::Gone);
            }
            if let Some(error) = damage.take() {
                gaps.tell(schema, last.as_ref(), Some(&row), &error)?;
            }
            last = Some(row);
        }
        if let Some(error) = damage {
            gaps.tell(schema, last.as_ref(), None, &error)?;
        }
    }
    lines.write(&line(&Mark::End {
        tables: count,
        rows,
    })?)
}

/// What is left out.
struct Gaps<'s> {
    allowed: bool,
    /// Places with rows.
    told: u64,
    /// Whole tables.
    tables: u64,
    session: &'s Session,
}

impl Gaps<'_> {
    /// A table that cannot be used.
    ///
    /// # Errors
    /// It must not be left out.
    fn tell_table(&mut self, table: &DamagedTable) -> Result<(), Failure> {
        if !self.allowed {
            return Err(failure(&table.clone().into()));
        }
        self.tables += 1;
        self.session.warn(format!(
            "{}: left out the table and all its rows: {}",
            table.name, table.reason
        ));
        Ok(())
    }

    /// Between which rows of a table.
    fn tell(
        &mut self,
        schema: &TableSchema,
        after: Option<&Row>,
        before: Option<&Row>,
        error: &Error,
    ) -> Result<(), Failure> {
        // As range takes them.
        let keys = RowWriter::new(schema, Some(&schema.primary_key), RowFormat::Csv);
        let mut keys = keys.map_err(|error| failure(&error.into()))?;
        let mut named = |option, row: Option<&Row>| {
            let key = row.map(|row| String::from_utf8_lossy(keys.line(row)).into_owned());
            key.map_or_else(String::new, |key| format!(" {option} {}", key.trim_end()))
        };
        let (after, before) = (named("after", after), named("before", before));
        let all = if after.is_empty() && before.is_empty() {
            "all rows"
        } else {
            "rows"
        };
        self.told += 1;
        self.session.warn(format!(
            "{}: left out {all}{after}{before}: {error}",
            schema.name
        ));
        Ok(())
    }

    /// # Errors
    /// There were some.
    fn end(self) -> Result<(), Failure> {
        if self.tables > 0 {
            let tables = open::counted(self.tables, "table is", "tables are");
            let places = open::counted(self.told, "place", "places");
            let rows = match self.told {
                0 => String::new(),
                _ => format!(", rows of others in {places}"),
            };
            return Err(Failure::course(
                format!("{tables} missing in the dump{rows}, named above"),
                "It can be loaded as it is; iolane store dump COPY TABLE prints what a backup has.",
            ));
        }
        if self.told == 0 {
            return Ok(());
        }
        let places = open::counted(self.told, "place", "places");
        Err(Failure::course(
            format!("rows are missing in {places} of the dump, named above"),
            "It can be loaded as it is; iolane store range COPY TABLE --after KEY --before KEY prints what a backup has there.",
        ))
    }
}

fn line(mark: &Mark) -> Result<Vec<u8>, Failure> {
    let json = serde_json::to_vec(mark).map_err(|error| Failure::Internal {
        message: error.to_string(),
    });
    let mut line = json?;
    line.push(b'\n');
    Ok(line)
}
