//! `iolane store load`.
//!
//! In bulk all rows get in or none; in transactions those before whatever
//! ended it, so that the rest can be loaded after it.

use std::path::Path;
use std::time::Instant;

use iolane_store::data::TableSchema;
use iolane_store::{Direction, Error, Store, Transaction};
use serde::Serialize;

use super::failure::{failure, find_table};
use super::open::{self, counted};
use super::restore;
use super::rows_in::{Input, Record, RowReader};
use crate::args::store::{LoadArgs, LoadMethod, OnError, RowFormat};
use crate::error::Failure;
use crate::output::progress::Phase;
use crate::output::units;
use crate::session::Session;

pub const NAME: &str = "load";
pub const ABOUT: &str = "Load rows into a table, from CSV or JSON lines";

/// Bad rows that are told one by one; more are only counted.
const COMPLAINTS_MAX: u64 = 20;

/// What was loaded.
#[derive(Debug, Serialize)]
pub struct Loaded {
    pub tables: Vec<String>,
    pub method: LoadMethod,
    pub rows: u64,
    pub skipped: u64,
    pub duration_ns: u64,
    pub rows_per_second: f64,
}

/// # Errors
/// What cannot be read, rows that do not fit, what the store says.
pub fn load(arguments: LoadArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    let start = Instant::now();
    let loaded = match (&arguments.dump, &arguments.table) {
        (Some(dump), _) => restore::restore(&store, dump, session),
        (None, Some(table)) => load_table(&store, table, &arguments, session),
        (None, None) => Err(Failure::usage("no table was given", "See --help.")),
    };
    // Also after an error: what is in stays in.
    let closed = open::close(store);
    let mut loaded = loaded?;
    closed?;
    let elapsed = start.elapsed();
    loaded.duration_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    loaded.rows_per_second = loaded.rows as f64 / elapsed.as_secs_f64().max(1e-9);
    open::summary(
        arguments.summary.output_format,
        "iolane.store.load/1",
        &loaded,
        || describe(&loaded),
    )
}

fn describe(loaded: &Loaded) -> String {
    let skipped = match loaded.skipped {
        0 => String::new(),
        count => format!(", {} left out", counted(count, "bad row", "bad rows")),
    };
    format!(
        "{} loaded into {}{skipped} in {} ({} rows/s)\n",
        counted(loaded.rows, "row", "rows"),
        loaded.tables.join(", "),
        units::time(loaded.duration_ns as f64),
        units::count(loaded.rows_per_second)
    )
}

fn load_table(
    store: &Store,
    table: &str,
    arguments: &LoadArgs,
    session: &Session,
) -> Result<Loaded, Failure> {
    let schema = find_table(store, table)?;
    let method = choose(store, table, arguments)?;
    let file = arguments
        .file
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    let format = arguments.format.unwrap_or_else(|| format_of(file));
    if format == RowFormat::Jsonl && arguments.null.is_some() {
        return Err(Failure::usage(
            "--null is for CSV, the rows come as JSON lines",
            "Leave it out: JSON lines have a null of their own. Or give --format csv.",
        ));
    }
    let input = Input::open(file, &session.stop)?;
    let what = format!("loading {} into {table}", input.name);
    let phase = session
        .progress
        .bytes(&what, input.length_bytes.unwrap_or(0));
    let reader = RowReader::new(input, &schema, format, arguments.null.clone())?;
    let mut feed = Feed {
        reader,
        phase,
        shown_bytes: 0,
        session,
        skips: arguments.on_error == OnError::Skip,
        skipped: 0,
        line: 0,
    };
    let rows = match method {
        LoadMethod::Bulk => in_bulk(store, &schema, &mut feed)?,
        _ => in_transactions(store, table, &mut feed, arguments.transaction_rows)?,
    };
    feed.tell_skipped();
    Ok(Loaded {
        tables: vec![table.to_owned()],
        method,
        rows,
        skipped: feed.skipped,
        duration_ns: 0,
        rows_per_second: 0.0,
    })
}

fn format_of(file: Option<&Path>) -> RowFormat {
    let extension = file.and_then(Path::extension);
    match extension.and_then(|extension| extension.to_str()) {
        Some("jsonl" | "ndjson" | "json") => RowFormat::Jsonl,
        _ => RowFormat::Csv,
    }
}

/// Settles on a method that can be.
fn choose(store: &Store, table: &str, arguments: &LoadArgs) -> Result<LoadMethod, Failure> {
    let skips = arguments.on_error == OnError::Skip;
    match arguments.method {
        LoadMethod::Bulk if skips => Err(Failure::usage(
            "--method bulk loads all rows or none, and cannot skip some",
            "Leave out --method or --on-error.",
        )),
        LoadMethod::Auto if skips => Ok(LoadMethod::Transactions),
        LoadMethod::Auto => {
            let mut transaction = store.begin();
            let rows = transaction.range(table, .., Direction::Forward);
            let first = rows.map_err(|error| failure(&error))?.next().transpose();
            match first.map_err(|error| failure(&error))? {
                None => Ok(LoadMethod::Bulk),
                Some(_) => Ok(LoadMethod::Transactions),
            }
        }
        chosen => Ok(chosen),
    }
}

/// The rows of the input, with whatever ends or disturbs it.
struct Feed<'s> {
    reader: RowReader,
    phase: Phase,
    shown_bytes: u64,
    session: &'s Session,
    skips: bool,
    skipped: u64,
    /// Of the last record.
    line: u64,
}

impl Feed<'_> {
    /// # Errors
    /// A signal, or an input that cannot be read.
    fn next(&mut self) -> Result<Option<Record>, Failure> {
        if self.session.stop.is_raised() {
            self.session.stop.check()?;
        }
        let record = self.reader.next()?;
        let read = self.reader.bytes_read();
        self.phase.advance(read - self.shown_bytes);
        self.shown_bytes = read;
        if let Some(record) = &record {
            self.line = record.line;
        }
        Ok(record)
    }

    fn skip(&mut self, reason: &str) {
        self.skipped += 1;
        if self.skipped <= COMPLAINTS_MAX {
            self.session
                .progress
                .say(&format!("left out: line {}: {reason}", self.line));
        }
    }

    fn tell_skipped(&self) {
        if let Some(more) = self
            .skipped
            .checked_sub(COMPLAINTS_MAX)
            .filter(|&more| more > 0)
        {
            self.session
                .progress
                .say(&format!("left out: {more} more, which are not listed"));
        }
    }
}

/// What is wrong with a row, and not with the store.
fn is_of_row(error: &Error) -> bool {
    matches!(
        error,
        Error::Duplicate { .. } | Error::TooLarge { .. } | Error::Schema(_)
    )
}

fn in_bulk(store: &Store, schema: &TableSchema, feed: &mut Feed<'_>) -> Result<u64, Failure> {
    let nothing = "Nothing was loaded: in bulk, all rows get in or none.";
    let mut ended = None;
    let loaded = store.bulk_load(
        &schema.name,
        until_bad(&mut ended, || match feed.next()? {
            None => Ok(None),
            Some(record) => match record.row {
                Ok(row) => Ok(Some(row)),
                Err(reason) => Err(Failure::course(
                    format!("line {}: {reason}", record.line),
                    "--on-error skip leaves such rows out.",
                )),
            },
        }),
    );
    match (loaded, ended) {
        (_, Some(Failure::Interrupted { signal })) => {
            Err(Failure::course(format!("stopped by {signal}"), nothing))
        }
        (_, Some(ended)) => Err(Failure::course(
            ended.to_string(),
            format!("{nothing} {}", ended.remedy()),
        )),
        (Ok(rows), None) => Ok(rows),
        // Only known when all rows are there, so without a line.
        (Err(error @ Error::Duplicate { .. }), None) => Err(Failure::course(
            format!("two rows of the input have the same key: {error}"),
            format!(
                "{nothing} --method transactions says which line, --on-error skip leaves it out."
            ),
        )),
        (Err(error), None) if is_of_row(&error) => Err(Failure::course(
            format!("line {}: {error}", feed.line),
            format!("{nothing} --on-error skip leaves such rows out."),
        )),
        (Err(error), None) => Err(failure(&error)),
    }
}

/// Rows for bulk loading. What ends them too early is put aside, and they end
/// with one that no table takes, so that nothing is loaded.
pub fn until_bad<'a>(
    ended: &'a mut Option<Failure>,
    mut next: impl FnMut() -> Result<Option<Vec<iolane_store::data::Value>>, Failure> + 'a,
) -> impl Iterator<Item = Vec<iolane_store::data::Value>> + 'a {
    std::iter::from_fn(move || match next() {
        Ok(row) => row,
        Err(failure) => {
            *ended = Some(failure);
            Some(Vec::new())
        }
    })
    // Its last row may be asked for again.
    .fuse()
}

/// What transactions have loaded, and how far.
#[derive(Default)]
struct Progress {
    rows: u64,
    /// Of the last record that is in, or was left out.
    line: u64,
    /// Rows in the open transaction.
    pending: u64,
}

impl Progress {
    fn commit(&mut self, transaction: Transaction<'_>, line: u64) -> Result<(), Failure> {
        transaction.commit().map_err(|error| failure(&error))?;
        self.rows += self.pending;
        self.pending = 0;
        self.line = line;
        Ok(())
    }

    /// What ended it, with what is in.
    fn before(&self, ended: &Failure) -> Failure {
        let rows = counted(self.rows, "row", "rows");
        let remedy = ended.remedy();
        Failure::course(
            ended.to_string(),
            format!("Loaded before it: {rows}. {remedy}"),
        )
    }

    /// The same where the open transaction is lost.
    fn before_store(&self, ended: &Failure) -> Failure {
        let rows = counted(self.rows, "row", "rows");
        let line = match self.line {
            0 => String::new(),
            line => format!(", up to line {line}"),
        };
        let remedy = ended.remedy();
        Failure::course(
            ended.to_string(),
            format!("Loaded before it: {rows}{line}. {remedy} Load the lines after it to go on."),
        )
    }
}

fn in_transactions(
    store: &Store,
    table: &str,
    feed: &mut Feed<'_>,
    rows_max: u64,
) -> Result<u64, Failure> {
    let mut progress = Progress::default();
    let mut transaction = store.begin();
    let ended = loop {
        let record = match feed.next() {
            Ok(Some(record)) => record,
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        };
        let inserted = match record.row {
            Err(reason) => Err(reason),
            Ok(row) => match transaction.insert(table, row) {
                Ok(()) => Ok(()),
                Err(error) if is_of_row(&error) => Err(error.to_string()),
                Err(error) => return Err(progress.before_store(&failure(&error))),
            },
        };
        match inserted {
            Ok(()) => progress.pending += 1,
            Err(reason) if feed.skips => feed.skip(&reason),
            Err(reason) => {
                break Some(Failure::course(
                    format!("line {}: {reason}", record.line),
                    "Correct it and load from this line on, or leave such rows out with --on-error skip.",
                ));
            }
        }
        if progress.pending == rows_max {
            let committed = progress.commit(transaction, feed.line);
            committed.map_err(|ended| progress.before_store(&ended))?;
            transaction = store.begin();
        }
    };
    let committed = progress.commit(transaction, feed.line);
    committed.map_err(|ended| progress.before_store(&ended))?;
    match ended {
        None => Ok(progress.rows),
        Some(Failure::Interrupted { signal }) => Err(progress.before(&Failure::course(
            format!("stopped by {signal} after line {}", feed.line),
            "Load the lines after it to go on.",
        ))),
        Some(ended) => Err(progress.before(&ended)),
    }
}
