//! A scratch server.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::database::{Database, WITHOUT_IT};
use super::process::{Process, silenced};
use crate::error::Failure;
use crate::run::library;
use crate::session::Session;
use crate::sys::file::drop_cached;
use crate::target::ScratchDirectory;

/// A start after a clean end.
const START_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Of the table's rows: a number and 200 characters.
const ROW_BYTES: u64 = 240;

/// It runs until it is dropped.
pub struct Server<'a> {
    pub database: &'a dyn Database,
    folder: PathBuf,
    process: Process,
    /// In the folder of temporary files: the path of a socket has at most 107 bytes.
    place: ScratchDirectory,
}

impl<'a> Server<'a> {
    /// Starts it, under `iolane run` if wanted, and waits until it answers.
    ///
    /// # Errors
    /// It does not.
    pub fn start(
        database: &'a dyn Database,
        folder: &Path,
        under_iolane: bool,
        session: &Session,
    ) -> Result<Self, Failure> {
        let place = ScratchDirectory::make(&env::temp_dir(), "iolane-demo-socket", session)?;
        database.own(&place.path)?;
        let words = database.server(folder, &place.path);
        let mut command = match (&session.program, under_iolane) {
            (Some(program), true) => {
                let mut command = Command::new(program);
                command
                    .args(["run", "--report"])
                    .arg(folder.join("report.txt"));
                // The server's user may not be able to read it where it lies.
                let library = place.path.join("library.so");
                fs::copy(library::find(None)?, &library).map_err(|source| Failure::Output {
                    path: library.clone(),
                    source,
                })?;
                command.arg("--library").arg(library).arg("--").args(words);
                command
            }
            _ => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        };
        silenced(&mut command, folder)?;
        let process = Process::start_ended_by(&mut command, database.end_signal(), session)?;
        let server = Self {
            database,
            folder: folder.to_owned(),
            process,
            place,
        };
        server.await_answer(session)?;
        Ok(server)
    }

    fn await_answer(&self, session: &Session) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.ask("SELECT 1").is_err() {
            session.stop.check()?;
            if self.process.ended().is_some() || begun.elapsed() > START_MAX {
                return Err(Failure::setup("the server does not start", WITHOUT_IT));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// A client that reads statements from a pipe, and answers each with a line.
    pub fn client(&self) -> Command {
        answering(self.database.client(&self.place.path), Stdio::piped())
    }

    /// Writes all of the table to a pipe.
    pub fn dump(&self) -> Command {
        answering(self.database.dump(&self.place.path), Stdio::null())
    }

    fn ask(&self, statement: &str) -> Result<String, Failure> {
        let mut command = self.database.asks(&self.place.path, statement);
        let refused = |why: String| Failure::setup(format!("{statement}: {why}"), WITHOUT_IT);
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| refused(error.to_string()))?;
        if !output.status.success() {
            return Err(refused(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Such as `MariaDB 10.11.6`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn version(&self) -> Result<String, Failure> {
        let version = self.ask(self.database.version())?;
        let number = version.split(['-', ' ']).next().unwrap_or_default();
        Ok(format!("{} {number}", self.database.name()))
    }

    /// Makes the table, part by part.
    ///
    /// # Errors
    /// What the server refuses, or an interruption.
    pub fn fill(&self, bytes: u64, session: &Session) -> Result<(), Failure> {
        const PARTS: u64 = 16;
        self.ask(self.database.table())?;
        let part = rows(bytes) / PARTS;
        let phase = session.progress.bytes("filling a table", bytes);
        for number in 0..PARTS {
            session.stop.check()?;
            let (first, last) = (number * part + 1, (number + 1) * part);
            self.ask(&self.database.rows(first, last))?;
            phase.advance(bytes / PARTS);
        }
        Ok(())
    }

    /// Files of which the page cache keeps what the server's own memory does not.
    ///
    /// # Errors
    /// It does not answer, or they cannot be opened.
    pub fn cached_files(&self) -> Result<Vec<File>, Failure> {
        let Some(statement) = self.database.cached_files() else {
            return Ok(Vec::new());
        };
        let names = self.ask(statement)?;
        let paths = names.lines().map(|name| self.folder.join(name));
        let open = |path: PathBuf| {
            File::open(&path)
                .map_err(|error| Failure::setup(format!("{}: {error}", path.display()), WITHOUT_IT))
        };
        paths.map(open).collect()
    }
}

/// Writes to a pipe, and keeps its errors to itself.
fn answering(mut command: Command, input: Stdio) -> Command {
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// As on a machine whose memory is no larger than the server's own: what was read goes from the
/// page cache soon.
pub fn forget(files: &[File]) {
    for file in files {
        // What stays only makes the quiet run quicker.
        let _ = drop_cached(file);
    }
}

/// Of a table of so many bytes.
pub fn rows(bytes: u64) -> u64 {
    bytes / ROW_BYTES
}
