//! What the demo needs to know of a database server.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mariadb::MariaDb;
use super::postgresql::PostgreSql;
use crate::args::choices::DemoServer;
use crate::error::Failure;
use crate::session::Session;

/// The remedy of every failure.
pub const WITHOUT_IT: &str = "Run the demo with --server none, which needs no server.";

/// A kind of server that is installed. `folder` is where its files lie, `place` the folder of its
/// socket.
pub trait Database: Sync {
    /// As people call it.
    fn name(&self) -> &'static str;

    /// Makes an empty database.
    ///
    /// # Errors
    /// The program fails.
    fn install(&self, folder: &Path, session: &Session) -> Result<(), Failure>;

    /// Hands a folder to the user that the server runs as.
    ///
    /// # Errors
    /// What the system says.
    fn own(&self, folder: &Path) -> Result<(), Failure>;

    /// The server's command.
    fn server(&self, folder: &Path, place: &Path) -> Vec<OsString>;

    /// Of that command, what makes the server as small as its table: a sentence for readers.
    fn scaled_down(&self) -> &'static str;

    /// The signal that ends it, whoever is connected.
    fn end_signal(&self) -> i32;

    /// A client that reads statements from its input, and answers each with a line.
    fn client(&self, place: &Path) -> Command;

    /// A client for one statement.
    fn asks(&self, place: &Path, statement: &str) -> Command;

    /// Writes all of the table to its output.
    fn dump(&self, place: &Path) -> Command;

    /// Asks for the version, which may have more behind it.
    fn version(&self) -> &'static str;

    /// Makes the table.
    fn table(&self) -> &'static str;

    /// Fills in the rows with these numbers.
    fn rows(&self, first: u64, last: u64) -> String;

    /// One line that looks up a row and gives a line.
    fn look_up(&self, row: u64) -> String;

    /// One line that changes a row durably and gives a line.
    fn change(&self, row: u64) -> String;

    /// Asks for the table's files below `folder`, where the page cache keeps what the server does
    /// not.
    fn cached_files(&self) -> Option<&'static str>;
}

/// The one that is wanted, or the first that is installed. `None`: nobody wants one, or there is
/// none.
///
/// # Errors
/// The one that is wanted is not installed.
pub fn installed(wanted: DemoServer) -> Result<Option<Box<dyn Database>>, Failure> {
    let mariadb = || MariaDb::find().map(|found| Box::new(found) as Box<dyn Database>);
    let postgresql = || PostgreSql::find().map(|found| Box::new(found) as Box<dyn Database>);
    let (found, package) = match wanted {
        DemoServer::None => return Ok(None),
        DemoServer::Auto => return Ok(mariadb().or_else(postgresql)),
        DemoServer::MariaDb => (mariadb(), "mariadb-server"),
        DemoServer::PostgreSql => (postgresql(), "postgresql"),
    };
    let missing = || Failure::setup(format!("{package} is not installed"), WITHOUT_IT);
    found.ok_or_else(missing).map(Some)
}

/// A program in the user's path, or in one of these folders.
pub fn find(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let all = env::split_paths(&path).chain(folders.iter().cloned());
    all.map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
