//! `iolane store create`.

use std::fs;
use std::path::Path;

use iolane_store::Store;
use iolane_store::data::TableSchema;
use serde::Serialize;

use super::failure::failure;
use super::open::{self, TornPagesDocument, counted};
use super::table_text;
use crate::args::store::CreateArgs;
use crate::error::Failure;
use crate::session::Session;

pub const NAME: &str = "create";
pub const ABOUT: &str = "Create a store, with tables";

#[derive(Serialize)]
struct Made {
    path: String,
    tables: Vec<String>,
    torn_pages: TornPagesDocument,
}

/// # Errors
/// A table that cannot be, or what cannot be set up.
pub fn create(arguments: CreateArgs, session: &Session) -> Result<String, Failure> {
    // All of them before anything is made.
    let schemas = schemas(&arguments)?;
    let store = if arguments.add {
        if schemas.is_empty() {
            return Err(Failure::usage(
                "--add without a table",
                "Give it with --table or --schema.",
            ));
        }
        open::open(&arguments.open, session)?
    } else {
        make(&arguments)?
    };
    let there = store.tables();
    if let Some(taken) = schemas
        .iter()
        .find(|schema| there.iter().any(|table| table.name == schema.name))
    {
        return Err(failure(&iolane_store::Error::TableExists(
            taken.name.clone(),
        )));
    }
    let mut damaged = store.damaged_tables().into_iter();
    if let Some(taken) = damaged.find(|table| schemas.iter().any(|it| it.name == table.name)) {
        return Err(failure(&taken.into()));
    }
    for schema in &schemas {
        open::go_on(session)?;
        let made = store.create_table(schema);
        made.map_err(|error| failure(&error))?;
    }
    let torn_pages = TornPagesDocument::of(&store);
    open::close(store)?;
    let made = Made {
        path: arguments.open.directory.display().to_string(),
        tables: schemas.into_iter().map(|schema| schema.name).collect(),
        torn_pages,
    };
    open::summary(
        arguments.summary.output_format,
        "iolane.store.create/1",
        &made,
        || describe(&made),
    )
}

fn describe(made: &Made) -> String {
    let count = counted(made.tables.len() as u64, "table", "tables");
    let torn_pages = made.torn_pages.text();
    match made.tables.as_slice() {
        [] => format!("{}: {count}\n{torn_pages}\n", made.path),
        tables => {
            let names = tables.join(", ");
            format!("{}: {count}: {names}\n{torn_pages}\n", made.path)
        }
    }
}

fn make(arguments: &CreateArgs) -> Result<Store, Failure> {
    let mut options = open::options(&arguments.open);
    if let Some(bytes) = arguments.page_size {
        options.pages.page_bytes = bytes as usize;
    }
    if let Some(bytes) = arguments.log_size {
        options.pages.log_bytes = bytes;
    }
    Store::create(&arguments.open.directory, &options).map_err(|error| failure(&error))
}

fn schemas(arguments: &CreateArgs) -> Result<Vec<TableSchema>, Failure> {
    let mut schemas = Vec::new();
    for text in &arguments.tables {
        let schema = table_text::parse(text).map_err(|reason| {
            Failure::usage(
                format!("--table {text:?}: {reason}"),
                format!("Write it as {}.", table_text::SHAPE),
            )
        })?;
        schemas.push(schema);
    }
    for path in &arguments.schemas {
        schemas.extend(read(path)?);
    }
    for (position, schema) in schemas.iter().enumerate() {
        schema.validate().map_err(|error| {
            Failure::usage(
                format!("table {}: {error}", schema.name),
                format!("A table is {}.", table_text::SHAPE),
            )
        })?;
        if schemas[..position]
            .iter()
            .any(|other| other.name == schema.name)
        {
            return Err(Failure::usage(
                format!("two tables have the name {:?}", schema.name),
                "Name each table once.",
            ));
        }
    }
    Ok(schemas)
}

/// One table, or a list of them.
fn read(path: &Path) -> Result<Vec<TableSchema>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::setup(
            format!("cannot read {}: {error}", path.display()),
            "Check the path, and that you may read the file.",
        )
    })?;
    let unclear = |error: serde_json::Error| {
        Failure::usage(
            format!("{}: {error}", path.display()),
            "docs/store.md shows the JSON of a table; iolane store stats --output-format json prints that of yours.",
        )
    };
    // Told apart by hand, so that messages say what is wrong inside.
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(unclear);
    }
    serde_json::from_str(&text)
        .map(|schema| vec![schema])
        .map_err(unclear)
}
