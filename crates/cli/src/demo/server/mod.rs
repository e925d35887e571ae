//! The demo with a database server that is installed: a scratch server, its clients quiet,
//! beside dumps, and beside dumps under `iolane run`.

mod clients;
mod database;
mod mariadb;
mod postgresql;
mod process;
mod render;
mod scratch;

use std::time::Duration;

use serde::Serialize;

use crate::args::choices::DemoServer;
use crate::args::disk::ModelArgs;
use crate::disk::Volume;
use crate::error::{Failure, Kind};
use crate::session::Session;
use crate::sys::file::is_root;
use crate::target::{ScratchDirectory, Target};

use clients::Setting;
use database::Database;
pub use render::{section, text};
use scratch::Server;

/// The volume that the server's files lie on, where this user may make one. Otherwise they lie on
/// the disk itself.
const MODEL: &str = super::MODEL;
/// Large enough that a dump reads it from the volume, small enough to be made in seconds.
const TABLE_BYTES: u64 = 160 << 20;
/// The log, the system tablespace and the server's own tables, beside the table.
const OTHER_BYTES: u64 = 320 << 20;

/// The three runs, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Quiet,
    Without,
    With,
}

#[derive(Clone, Debug, Serialize)]
pub struct ServerOutcome {
    /// As the server names itself.
    pub server: String,
    /// How small it was made.
    pub scaled_down: &'static str,
    /// The modelled volume that its files lay on; `None`: the disk of the target.
    pub model: Option<&'static str>,
    /// At which statements began.
    pub rate_per_second: u64,
    /// Quiet; beside dumps, without iolane; beside dumps under `iolane run`.
    pub runs: Vec<ServerRun>,
}

/// What the clients saw.
#[derive(Clone, Debug, Serialize)]
pub struct ServerRun {
    pub statements: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// What the dumps wrote.
    pub dumped_bytes: u64,
    pub elapsed_ns: u64,
}

/// Measures, if a server is wanted and installed. One that cannot be started here is told of, and
/// the demo goes on without.
///
/// # Errors
/// The one that is wanted is not installed, or an interruption.
pub fn measure(
    wanted: DemoServer,
    runtime: Duration,
    warm_up: Duration,
    target: Option<&Target>,
    session: &Session,
) -> Result<Option<ServerOutcome>, Failure> {
    let (Some(target), Some(database)) = (target, database::installed(wanted)?) else {
        return Ok(None);
    };
    let setting = Setting { runtime, warm_up };
    match measured(&*database, &setting, target, session) {
        Ok(outcome) => Ok(Some(outcome)),
        Err(failure @ Failure::Interrupted { .. }) => Err(failure),
        Err(failure) => {
            let name = database.name();
            session.warn(format!("{name} is installed and was not shown: {failure}"));
            Ok(None)
        }
    }
}

fn measured(
    database: &dyn Database,
    setting: &Setting,
    target: &Target,
    session: &Session,
) -> Result<ServerOutcome, Failure> {
    let volume = volume(target, session)?;
    // Dropped before the volume: in the reverse order.
    let parent = volume.as_ref().map_or(&target.path, |volume| &volume.path);
    let directory = ScratchDirectory::make(parent, "iolane-demo-server", session)?;
    let name = database.name();
    session.progress.say(&format!("{name}: a scratch server"));
    database.install(&directory.path, session)?;
    let server = Server::start(database, &directory.path, false, session)?;
    let version = server.version()?;
    server.fill(TABLE_BYTES, session)?;
    // What filling has left to write is written when the server ends, and not beside the first
    // run.
    drop(server);
    let server = Server::start(database, &directory.path, false, session)?;
    let runs = [
        clients::run(&server, Case::Quiet, setting, session)?,
        clients::run(&server, Case::Without, setting, session)?,
    ];
    drop(server);
    let server = Server::start(database, &directory.path, true, session)?;
    let with = clients::run(&server, Case::With, setting, session)?;
    Ok(ServerOutcome {
        server: version,
        scaled_down: database.scaled_down(),
        model: volume.as_ref().map(|_| MODEL),
        rate_per_second: clients::RATE_PER_SECOND,
        runs: runs.into_iter().chain([with]).collect(),
    })
}

fn volume(target: &Target, session: &Session) -> Result<Option<Volume>, Failure> {
    if !is_root() {
        return Ok(None);
    }
    let model = ModelArgs {
        model: MODEL.to_owned(),
        seed: 1,
    };
    match Volume::make(&target.path, &model, TABLE_BYTES + OTHER_BYTES, session) {
        Ok(volume) => Ok(Some(volume)),
        // A machine without FUSE or loop devices.
        Err(failure) if failure.kind() == Kind::Setup => Ok(None),
        Err(failure) => Err(failure),
    }
}
