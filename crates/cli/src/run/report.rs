//! Where the report goes.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use iolane_broker::Report;

use crate::error::Failure;

/// A file, or standard error.
pub struct Place(Option<PathBuf>);

impl Place {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// It cannot.
    pub fn new(path: Option<PathBuf>) -> Result<Place, Failure> {
        if let Some(path) = &path {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|source| Failure::Output {
                path: path.clone(),
                source,
            })?;
        }
        Ok(Place(path))
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, report: &Report) -> Result<(), Failure> {
        let Some(path) = &self.0 else {
            say(&report.to_string());
            return Ok(());
        };
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let text = if is_json {
            let document = serde_json::json!({ "schema": "iolane.run/1", "report": report });
            format!("{document:#}\n")
        } else {
            report.to_string()
        };
        fs::write(path, text)
            .map_err(|source| Failure::writing(&path.display().to_string(), &source))
    }

    /// The calls that were caught, for people, on standard error.
    pub fn write_calls(&self, report: &Report) {
        let mut text = String::from("calls that were caught       all  scheduled\n");
        for call in &report.calls {
            let _ = writeln!(
                text,
                "  {:<20} {:>9} {:>10}",
                call.call, call.count, call.scheduled
            );
        }
        if report.calls.is_empty() {
            text.push_str("  none: the program does its I/O by other ways (docs/run.md)\n");
        }
        say(&text);
    }
}

/// A closed standard error is no reason to end otherwise.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
