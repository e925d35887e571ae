//! Where the report goes.

use std::env;
use std::ffi::OsStr;
use std::fmt::{Display, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iolane_broker::Report;

use super::kernel::KernelReport;
use super::page;
use crate::environment::{Environment, command_line};
use crate::error::Failure;
use crate::system::SystemPaths;

/// A file, or standard error.
pub struct Place {
    path: Option<PathBuf>,
    /// What is not written anew by each report, and stays open: a pipe, whose reader takes its end for the
    /// report's; and the file that has the command's output, which would be lost.
    kept: Option<File>,
    form: Form,
}

/// As the file's name ends.
enum Form {
    Text,
    Json,
    /// It shows what was true of the machine at the start.
    Page(Box<Environment>),
}

impl Place {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// It cannot.
    pub fn new(path: Option<PathBuf>, paths: &SystemPaths) -> Result<Place, Failure> {
        let kept = path.as_deref().map(open).transpose()?.flatten();
        let end = path.as_deref().and_then(Path::extension);
        let form = match end.and_then(OsStr::to_str) {
            Some("json") => Form::Json,
            Some("html") => {
                let words: Vec<_> = env::args_os().collect();
                let environment = Environment::read(paths, None, command_line(&words));
                Form::Page(Box::new(environment))
            }
            _ => Form::Text,
        };
        Ok(Place { path, kept, form })
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, report: &Report) -> Result<(), Failure> {
        let document = || serde_json::json!({ "schema": "iolane.run/1", "report": report });
        self.put(
            |environment| page::page(report, environment),
            document,
            || report.to_string(),
        )
    }

    /// The same for mode `kernel`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kernel(&self, report: &KernelReport) -> Result<(), Failure> {
        let document = || serde_json::json!({ "schema": "iolane.run.kernel/1", "report": report });
        self.put(
            |environment| page::kernel_page(report, environment),
            document,
            || report.to_string(),
        )
    }

    /// At the end: where the file cannot be written, the report is text on standard
    /// error, and the exit code stays the command's.
    pub fn write_last(&self, report: &Report) {
        if let Err(failure) = self.write(report) {
            instead(&failure, report);
        }
    }

    /// The same for mode `kernel`.
    pub fn write_last_kernel(&self, report: &KernelReport) {
        if let Err(failure) = self.write_kernel(report) {
            instead(&failure, report);
        }
    }

    fn put(
        &self,
        page: impl FnOnce(&Environment) -> String,
        document: impl FnOnce() -> serde_json::Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let content = match &self.form {
            Form::Text => text(),
            Form::Json => format!("{:#}\n", document()),
            Form::Page(environment) => page(environment),
        };
        let Some(path) = &self.path else {
            say(&content);
            return Ok(());
        };
        let written = match &self.kept {
            Some(file) => { file }.write_all(content.as_bytes()),
            None => fs::write(path, content),
        };
        written.map_err(|source| Failure::writing(&path.display().to_string(), &source))
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

/// Opens the file as a trial; gives it where it has to stay open.
fn open(path: &Path) -> Result<Option<File>, Failure> {
    let unwritable = |source| Failure::Output {
        path: path.to_owned(),
        source,
    };
    let is_pipe = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    if is_pipe {
        // Who opens it waits for a reader, unless there is one.
        let mut tried = OpenOptions::new();
        tried.write(true).custom_flags(libc::O_NONBLOCK);
        let _tried = tried
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ENXIO) => Failure::setup(
                    format!("nobody reads the pipe {}", path.display()),
                    "Start its reader first, or name a file.",
                ),
                _ => unwritable(error),
            })?;
        let file = OpenOptions::new().write(true).open(path);
        return file.map(Some).map_err(unwritable);
    }
    let file = OpenOptions::new().append(true).create(true).open(path);
    let file = file.map_err(unwritable)?;
    let is_output = is_same(&file, io::stdout().as_fd()) || is_same(&file, io::stderr().as_fd());
    Ok(is_output.then_some(file))
}

fn is_same(file: &File, output: BorrowedFd<'_>) -> bool {
    let name = |file: &File| file.metadata().map(|found| (found.dev(), found.ino()));
    let output = output.try_clone_to_owned().map(File::from);
    let output = output.and_then(|output| name(&output));
    output.is_ok_and(|output| name(file).is_ok_and(|file| file == output))
}

fn instead(failure: &Failure, report: &impl Display) {
    say(&format!("warning: {failure}; the report:\n{report}"));
}

/// A closed standard error is no reason to end otherwise.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
