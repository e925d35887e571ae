//! The command as a child of this program.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use iolane_broker::Broker;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use super::report::Place;
use crate::error::Failure;
use crate::sys::signal;

/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
const PRELOAD: &str = "LD_PRELOAD";

/// Runs it; gives the exit code that a shell would. Goes on while processes that it
/// has started use the disks: a server that puts itself into the background.
///
/// # Errors
/// It cannot be started.
pub fn run(
    command: &[OsString],
    library: &Path,
    broker: &Broker,
    report: &Place,
) -> Result<u8, Failure> {
    // Before it is started: no signal is lost between.
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1]).map_err(|error| {
            Failure::setup(format!("cannot listen for signals: {error}"), "Try again.")
        })?;
    let mut child = start(command, library, broker)?;
    let is_interactive = io::stdin().is_terminal();
    let mut ended: Option<ExitStatus> = None;
    loop {
        for arrived in signals.pending() {
            match arrived {
                SIGUSR1 => tell(broker, report),
                // The terminal sends it to the command, too.
                SIGINT | SIGQUIT if is_interactive && ended.is_none() => {}
                _ if ended.is_none() => signal::send(&child, arrived),
                // The rest goes on unscheduled.
                _ => return Ok(ended.map_or(0, exit_code)),
            }
        }
        if ended.is_none() {
            ended = child.try_wait().map_err(|source| {
                Failure::course(
                    format!("waiting for the command failed: {source}"),
                    "Try again.",
                )
            })?;
        }
        if let Some(status) = ended
            && broker.clients() == 0
        {
            return Ok(exit_code(status));
        }
        thread::sleep(LOOK);
    }
}

fn start(command: &[OsString], library: &Path, broker: &Broker) -> Result<Child, Failure> {
    let (name, address) = broker.environment();
    let mut preload = OsString::from(library);
    if let Some(others) = env::var_os(PRELOAD) {
        preload.push(":");
        preload.push(others);
    }
    Command::new(&command[0])
        .args(&command[1..])
        .env(PRELOAD, preload)
        .env(name, address)
        .spawn()
        .map_err(|error| {
            let name = command[0].to_string_lossy();
            Failure::setup(format!("cannot start {name}: {error}"), "Check its file.")
        })
}

/// On request, while it goes on.
fn tell(broker: &Broker, place: &Place) {
    if let Some(report) = broker.report()
        && let Err(failure) = place.write(&report)
    {
        eprintln!("warning: {failure}");
    }
}

/// As a shell's.
fn exit_code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code as u8,
        None => 128 + status.signal().unwrap_or(0) as u8,
    }
}
