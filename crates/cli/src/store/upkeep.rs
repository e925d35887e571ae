//! `iolane store check`, `stats` and `backup`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iolane_store::data::TableSchema;
use iolane_store::{CheckReport, Direction, Error, Store, StoreError};
use serde::Serialize;

use super::failure::failure;
use super::open::{self, TornPagesDocument, counted};
use crate::args::store::{BackupArgs, CheckArgs, StatsArgs};
use crate::error::Failure;
use crate::output::text::{Style, Table};
use crate::output::units;
use crate::session::Session;

pub const CHECK: &str = "check";
pub const CHECK_ABOUT: &str = "Check everything: pages, order, rows against indexes, free space";
pub const STATS: &str = "stats";
pub const STATS_ABOUT: &str = "Show tables, files, and what opening the store had to do";
pub const BACKUP: &str = "backup";
pub const BACKUP_ABOUT: &str = "Copy a store into a new one";

#[derive(Serialize)]
struct Checked {
    clean: bool,
    tables: u64,
    rows: u64,
    index_entries: u64,
    undo_records: u64,
    pages: u64,
    findings: Vec<FindingDocument>,
    findings_omitted: u64,
}

#[derive(Serialize)]
struct FindingDocument {
    place: String,
    what: String,
}

impl Checked {
    fn of(report: CheckReport) -> Self {
        Self {
            clean: report.is_clean(),
            tables: report.tables,
            rows: report.rows,
            index_entries: report.entries,
            undo_records: report.undo_records,
            pages: report.pages,
            findings: report
                .findings
                .into_iter()
                .map(|finding| FindingDocument {
                    place: finding.place,
                    what: finding.what,
                })
                .collect(),
            findings_omitted: report.findings_omitted,
        }
    }

    fn count(&self) -> u64 {
        self.findings.len() as u64 + self.findings_omitted
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            text.push_str(&format!("{}: {}\n", finding.place, finding.what));
        }
        if self.findings_omitted > 0 {
            let more = counted(self.findings_omitted, "finding", "findings");
            text.push_str(&format!("and {more} more, not listed\n"));
        }
        let result = match self.count() {
            0 => "all in order".to_owned(),
            count => counted(count, "finding", "findings"),
        };
        text.push_str(&format!(
            "{}, {}, {}, {}, {}: {result}\n",
            counted(self.tables, "table", "tables"),
            counted(self.rows, "row", "rows"),
            counted(self.index_entries, "index entry", "index entries"),
            counted(self.undo_records, "undo record", "undo records"),
            counted(self.pages, "page", "pages"),
        ));
        text
    }
}

/// Why it has ended: a signal, where one came.
fn ended(error: &Error, session: &Session) -> Failure {
    match (error, open::go_on(session)) {
        (Error::Stopped, Err(stopped)) => stopped,
        _ => failure(error),
    }
}

/// # Errors
/// Findings; a store that cannot be opened.
pub fn check(arguments: CheckArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    session.progress.say("checking");
    let report = store.check_while(&|| !session.stop.is_raised());
    let report = report.map_err(|error| ended(&error, session))?;
    let checked = Checked::of(report);
    let result = open::summary(
        arguments.summary.output_format,
        "iolane.store.check/1",
        &checked,
        || checked.text(),
    )?;
    if checked.clean {
        open::close(store)?;
        return Ok(result);
    }
    Err(Failure::Found {
        result,
        message: format!(
            "{}: {}",
            arguments.open.directory.display(),
            counted(checked.count(), "finding", "findings")
        ),
        remedy:
            "Bring the store back from a backup or a dump. Tables without findings can be dumped \
                 (iolane store dump DIR TABLE); scan, and from the other end scan --reverse, read \
                 what is left of the others."
                .to_owned(),
    })
}

#[derive(Serialize)]
struct Stats {
    path: String,
    page_bytes: u64,
    tables: Vec<TableDocument>,
    damaged_tables: Vec<DamagedDocument>,
    files: Vec<FileDocument>,
    recovery: RecoveryDocument,
    log_end: u64,
    checkpoint: u64,
    pool_frames: u64,
    /// As it was opened.
    unpurged_bytes: u64,
    torn_pages: TornPagesDocument,
}

#[derive(Serialize)]
struct TableDocument {
    schema: TableSchema,
    /// Of its file.
    pages: u64,
    pages_used: u64,
    /// `null` unless asked for.
    rows: Option<u64>,
}

#[derive(Serialize)]
struct DamagedDocument {
    name: String,
    reason: String,
}

#[derive(Serialize)]
struct FileDocument {
    name: String,
    size_bytes: u64,
    allocated_bytes: u64,
}

#[derive(Serialize)]
struct RecoveryDocument {
    changes_repeated: u64,
    pages_restored: u64,
    transactions_rolled_back: u32,
}

/// # Errors
/// What the store says.
pub fn stats(arguments: StatsArgs, session: &Session) -> Result<String, Failure> {
    let directory = &arguments.open.directory;
    let store = open::open(&arguments.open, session)?;
    let unpurged_bytes = store.statistics().unpurged_bytes;
    let mut tables = Vec::new();
    for schema in store.tables() {
        let rows = match arguments.rows {
            true => Some(count_rows(&store, &schema, session)?),
            false => None,
        };
        let space = store.table_space(&schema.name);
        let space = space.map_err(|error| failure(&error))?;
        tables.push(TableDocument {
            schema,
            pages: space.pages,
            pages_used: space.used,
            rows,
        });
    }
    let damaged = store.damaged_tables().into_iter();
    let damaged_tables = damaged.map(|table| DamagedDocument {
        name: table.name,
        reason: table.reason,
    });
    let (report, rolled_back) = store.recovery();
    let counters = store.statistics();
    let stats = Stats {
        path: directory.display().to_string(),
        page_bytes: open::page_bytes(&store, &arguments.open),
        tables,
        damaged_tables: damaged_tables.collect(),
        files: files(directory)?,
        recovery: RecoveryDocument {
            changes_repeated: report.applied,
            pages_restored: report.restored,
            transactions_rolled_back: rolled_back,
        },
        log_end: counters.pages.log_end.0,
        checkpoint: counters.pages.checkpoint.0,
        pool_frames: counters.pages.pool.frames,
        unpurged_bytes,
        torn_pages: TornPagesDocument::of(&store),
    };
    open::close(store)?;
    open::summary(
        arguments.summary.output_format,
        "iolane.store.stats/1",
        &stats,
        || describe(&stats),
    )
}

fn count_rows(store: &Store, schema: &TableSchema, session: &Session) -> Result<u64, Failure> {
    let mut transaction = store.begin();
    let rows = transaction.range(&schema.name, .., Direction::Forward);
    let mut count = 0;
    for row in rows.map_err(|error| failure(&error))? {
        open::go_on(session)?;
        row.map_err(|error| failure(&error))?;
        count += 1;
    }
    Ok(count)
}

fn files(directory: &Path) -> Result<Vec<FileDocument>, Failure> {
    /// `st_blocks` counts in these, stat(2).
    const BLOCK_BYTES: u64 = 512;
    let read = || -> std::io::Result<Vec<FileDocument>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() && metadata.len() > 0 {
                files.push(FileDocument {
                    name: entry.file_name().to_string_lossy().into_owned(),
                    size_bytes: metadata.len(),
                    allocated_bytes: metadata.blocks() * BLOCK_BYTES,
                });
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    };
    read().map_err(|source| Failure::transfer(format!("listing {}", directory.display()), source))
}

fn describe(stats: &Stats) -> String {
    let columns = [
        "TABLE",
        "COLUMNS",
        "PRIMARY KEY",
        "INDEXES",
        "PAGES",
        "USED",
        "ROWS",
    ];
    let mut tables = Table::new(4, columns);
    for table in &stats.tables {
        let schema = &table.schema;
        let columns = schema.columns.iter().map(|column| {
            let null = if column.nullable { " null" } else { "" };
            format!("{} {}{null}", column.name, column.column_type)
        });
        let indexes = schema.indexes.iter().map(|index| {
            let unique = if index.unique { "unique " } else { "" };
            format!("{unique}{}({})", index.name, index.columns.join(", "))
        });
        tables.row([
            schema.name.clone(),
            columns.collect::<Vec<String>>().join(", "),
            schema.primary_key.join(", "),
            indexes.collect::<Vec<String>>().join(", "),
            table.pages.to_string(),
            table.pages_used.to_string(),
            table.rows.map_or_else(String::new, |rows| rows.to_string()),
        ]);
    }
    let mut files = Table::new(1, ["FILE", "SIZE", "ON DISK"]);
    for file in &stats.files {
        files.row([
            file.name.clone(),
            units::binary_size(file.size_bytes),
            units::binary_size(file.allocated_bytes),
        ]);
    }
    let tables = if stats.tables.is_empty() && !stats.damaged_tables.is_empty() {
        String::new()
    } else if stats.tables.is_empty() {
        "no tables\n".to_owned()
    } else {
        tables.without_empty_columns().render(Style::PLAIN)
    };
    let damaged = stats.damaged_tables.iter();
    let damaged: String = damaged
        .map(|table| {
            format!(
                "{} is damaged and cannot be used: {}\n",
                table.name, table.reason
            )
        })
        .collect();
    format!(
        "{tables}{damaged}\n{}\nPages of {}. Opened with {}, {}, {}.\n{}\n",
        files.render(Style::PLAIN),
        units::binary_size(stats.page_bytes),
        counted(
            stats.recovery.changes_repeated,
            "change repeated",
            "changes repeated"
        ),
        counted(
            stats.recovery.pages_restored,
            "page restored",
            "pages restored"
        ),
        counted(
            stats.recovery.transactions_rolled_back.into(),
            "transaction rolled back",
            "transactions rolled back"
        ),
        stats.torn_pages.text(),
    )
}

#[derive(Serialize)]
struct BackedUp {
    path: String,
    target: String,
    tables: u64,
    rows: u64,
}

/// With the remedies of a copy, where something is in its place.
fn not_copied(error: &Error, target: &Path, session: &Session) -> Failure {
    let Error::Files(StoreError::Exists { path }) = error else {
        return ended(error, session);
    };
    let remedy = if path == target {
        "Name a directory that does not exist yet.".to_owned()
    } else {
        let part = path.display();
        format!(
            "If no backup is running, an earlier one was killed: remove its rest (rm -r {part})."
        )
    };
    Failure::setup(error.to_string(), remedy)
}

/// # Errors
/// What the store says, or the directory of the copy.
pub fn backup(arguments: BackupArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    let target = &arguments.target;
    session
        .progress
        .say(&format!("copying to {}", target.display()));
    let options = open::options_of_copy(&store, &arguments.open)?;
    let rows = store.backup_while(target, &options, &|| !session.stop.is_raised());
    let rows = rows.map_err(|error| not_copied(&error, target, session))?;
    let done = BackedUp {
        path: arguments.open.directory.display().to_string(),
        target: target.display().to_string(),
        tables: store.tables().len() as u64,
        rows,
    };
    open::close(store)?;
    open::summary(
        arguments.summary.output_format,
        "iolane.store.backup/1",
        &done,
        || {
            format!(
                "{}: {}, {}\n",
                done.target,
                counted(done.tables, "table", "tables"),
                counted(done.rows, "row", "rows")
            )
        },
    )
}
