//! Opening a store that is there.

use std::path::Path;

use iolane_store::log::Log;
use iolane_store::{LOG_FILE, Store, StoreOptions, TornPages};
use serde::Serialize;

use super::failure::failure;
use crate::args::common::OutputFormat;
use crate::args::store::{OpenArgs, TornPagesChoice};
use crate::error::Failure;
use crate::session::Session;

pub fn options(arguments: &OpenArgs) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = arguments.pool_size;
    options.pages.torn_pages = match arguments.torn_pages {
        TornPagesChoice::Auto => TornPages::Auto,
        TornPagesChoice::Doublewrite => TornPages::Doublewrite,
        TornPagesChoice::Atomic => TornPages::Atomic,
    };
    options
}

/// Opens it, and says so when that takes recovery.
///
/// # Errors
/// There is none, or it cannot be opened.
pub fn open(arguments: &OpenArgs, session: &Session) -> Result<Store, Failure> {
    let directory = &arguments.directory;
    // First, as opening would leave a lock in a directory that is no store.
    expect_store(directory)?;
    let mut said_percent = 0;
    let mut progress = |progress: iolane_store::RecoveryProgress| {
        let (done, all) = (
            progress.at.0.saturating_sub(progress.from.0),
            progress.to.0.saturating_sub(progress.from.0),
        );
        let percent = done.saturating_mul(100) / all.max(1);
        if percent >= said_percent + 10 && all > 16 << 20 {
            said_percent = percent;
            session.progress.say(&format!("recovery: {percent} %"));
        }
    };
    let opened = Store::open_with(directory, &options(arguments), &mut progress);
    let store = opened.map_err(|error| failure(&error))?;
    let (report, rolled_back) = store.recovery();
    if report.applied > 0 || report.restored > 0 || rolled_back > 0 {
        session.progress.say(&format!(
            "recovered: {} changes repeated, {} pages restored, {rolled_back} transactions rolled back",
            report.applied, report.restored
        ));
    }
    go_on(session)?;
    Ok(store)
}

fn expect_store(directory: &Path) -> Result<(), Failure> {
    let log = directory.join(LOG_FILE);
    match log.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) if directory.is_dir() => Err(Failure::setup(
            format!("{} is no store: it has no {LOG_FILE}", directory.display()),
            "Check the path; iolane store create makes a store.",
        )),
        Ok(false) => Err(Failure::setup(
            format!("there is no store {}", directory.display()),
            "Check the path; iolane store create makes a store.",
        )),
        Err(error) => Err(Failure::setup(
            format!("{}: {error}", log.display()),
            "Check the path, and that you may read and write the store: opening it may have to repeat changes from the log.",
        )),
    }
}

/// Whether nobody wants it to end.
///
/// # Errors
/// A signal came.
pub fn go_on(session: &Session) -> Result<(), Failure> {
    match session.stop.check() {
        Err(Failure::Interrupted { signal }) => Err(Failure::course(
            format!("stopped by {signal} before the end"),
            "Run it again; the store is in order.",
        )),
        other => other,
    }
}

/// Bytes of a page. The pool has as many frames as pages fit into it.
pub fn page_bytes(store: &Store, arguments: &OpenArgs) -> u64 {
    let frames = store.statistics().pages.pool.frames;
    let least = arguments.pool_size / (frames + 1) + 1;
    // The only power of two that divides into so many.
    least.next_power_of_two()
}

/// What keeps pages from being torn.
#[derive(Serialize)]
pub struct TornPagesDocument {
    by: &'static str,
    why: String,
}

impl TornPagesDocument {
    pub fn of(store: &Store) -> Self {
        let protection = store.torn_pages();
        Self {
            by: protection.name(),
            why: protection.why().to_owned(),
        }
    }

    pub fn text(&self) -> String {
        format!("Torn pages are prevented by {}: {}.", self.by, self.why)
    }
}

/// Options with which a copy is made: of the same shape.
///
/// # Errors
/// When the size of the log cannot be read.
pub fn options_of_copy(store: &Store, arguments: &OpenArgs) -> Result<StoreOptions, Failure> {
    let log = arguments.directory.join(LOG_FILE);
    let file_bytes = std::fs::metadata(&log).map(|metadata| metadata.len());
    let file_bytes = file_bytes
        .map_err(|source| Failure::transfer(format!("reading {}", log.display()), source))?;
    let mut options = options(arguments);
    options.pages.page_bytes = page_bytes(store, arguments) as usize;
    options.pages.log_bytes = file_bytes - Log::file_bytes(0);
    Ok(options)
}

/// Closes it, so that what cannot be written is an error.
///
/// # Errors
/// What could not be written.
pub fn close(store: Store) -> Result<(), Failure> {
    store.close().map_err(|error| failure(&error))
}

/// What a command says at its end, in the format that was asked for.
///
/// # Errors
/// None that is not a defect.
pub fn summary<D: Serialize>(
    format: OutputFormat,
    schema: &'static str,
    document: &D,
    text: impl FnOnce() -> String,
) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct WithSchema<'a, D> {
        schema: &'static str,
        #[serde(flatten)]
        document: &'a D,
    }
    match format {
        OutputFormat::Text => Ok(text()),
        OutputFormat::Json => {
            let document = WithSchema { schema, document };
            let json = serde_json::to_string_pretty(&document);
            let json = json.map_err(|error| Failure::Internal {
                message: error.to_string(),
            })?;
            Ok(json + "\n")
        }
    }
}

/// `1 row`, `2 rows`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
