//! `iolane store drop`.

use serde::Serialize;

use super::failure::{failure, find_table};
use super::open::{self, counted};
use crate::args::store::DropArgs;
use crate::error::Failure;
use crate::session::Session;

pub const NAME: &str = "drop";
pub const ABOUT: &str = "Drop tables with all their rows, for good";

#[derive(Serialize)]
struct Dropped {
    path: String,
    tables: Vec<String>,
}

/// # Errors
/// A table that is not there, and then nothing is dropped; a store that cannot
/// be opened.
pub fn drop(arguments: DropArgs, session: &Session) -> Result<String, Failure> {
    let store = open::open(&arguments.open, session)?;
    let mut tables = arguments.tables;
    tables.sort();
    tables.dedup();
    let damaged = store.damaged_tables();
    // All of them before the first is gone.
    for name in &tables {
        if !damaged.iter().any(|table| table.name == *name) {
            find_table(&store, name)?;
        }
    }
    for name in &tables {
        open::go_on(session)?;
        session.progress.say(&format!("dropping {name}"));
        let dropped = store.drop_table(name);
        dropped.map_err(|error| failure(&error))?;
    }
    open::close(store)?;
    let dropped = Dropped {
        path: arguments.open.directory.display().to_string(),
        tables,
    };
    open::summary(
        arguments.summary.output_format,
        "iolane.store.drop/1",
        &dropped,
        || {
            let count = counted(dropped.tables.len() as u64, "table", "tables");
            format!("{}: dropped {count}\n", dropped.path)
        },
    )
}
