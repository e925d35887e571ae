//! `iolane disk serve`.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use iolane_disk::fault::{FaultPlan, Faults};
use iolane_disk::medium::FileMedium;
use iolane_disk::served::backing::{self, Unsynced};
use iolane_disk::served::fuse::{self, Fuse};
use iolane_disk::served::nbd::{EXPORT_NAME, Nbd};
use iolane_disk::served::{Lead, Server, ServerOptions, usual_latency_ns};
use iolane_disk::{Medium, Model};
use signal_hook::consts::SIGUSR1;

use super::lead::{self, Way};
use super::{cut, describe, failure, loop_device};
use crate::args::disk::ServeArgs;
use crate::error::Failure;
use crate::output::stdout::Stdout;
use crate::output::units;
use crate::session::Session;
use crate::survivor::Survivor;

pub const NAME: &str = "serve";
pub const ABOUT: &str = "Serve a modelled disk: a file for a loop device, or an NBD socket";

/// The disk's file in the mounted directory.
pub const FILE_NAME: &str = "disk";
/// Between two looks at what ends it.
const NAP: Duration = Duration::from_millis(20);

/// Serves until a signal comes or the mount is taken away; gives the
/// statistics. The end is a power cut, and SIGUSR1 is one before it.
///
/// # Errors
/// What cannot be set up. Nothing is left behind then.
pub fn serve(arguments: ServeArgs, session: &Session) -> Result<String, Failure> {
    let faults = arguments.faults.as_deref().map(faults).transpose()?;
    let is_asked_to_cut = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&is_asked_to_cut))
        .map_err(|error| failure::machine(&error))?;
    let description = describe::find(&arguments.model.model)?;
    let model = describe::build(&description, &arguments.model)?;
    let usual_latency_ns = usual_latency_ns(describe::build(&description, &arguments.model)?);
    let size_bytes = size(arguments.size, &*model)?;
    let is_new = !arguments.backing.exists();
    let backing =
        backing::open(&arguments.backing, size_bytes).map_err(|error| failure::backing(&error))?;
    let sync = backing
        .try_clone()
        .map_err(|error| failure::machine(&error))?;
    let file = FileMedium::new(backing, size_bytes);
    let medium: Arc<dyn Medium> = if arguments.durable {
        Arc::new(file)
    } else {
        Arc::new(Unsynced(file))
    };
    let options = ServerOptions {
        usual_latency_ns,
        faults: faults.clone(),
        ..ServerOptions::default()
    };
    let asked = Asked {
        arguments: &arguments,
        to_cut: &is_asked_to_cut,
    };
    let served = set_up_and_serve(asked, model, medium, options, session);
    let (ended, server) = served.inspect_err(|_| {
        // Nothing was served: no file is left that was not there.
        if is_new {
            let _ = std::fs::remove_file(&arguments.backing);
        }
    })?;
    let cut_bytes = server
        .power_cut()
        .map_err(|source| Failure::transfer("cutting the disk's power", source))?;
    // Whatever flushes did: what was answered is on the machine's disk now.
    sync.sync_data().map_err(|source| {
        Failure::transfer(format!("syncing {}", arguments.backing.display()), source)
    })?;
    session.progress.say(ended);
    let mut text = summary(&server, faults.as_deref());
    if faults.is_some() {
        text.push_str(&cut::took(cut_bytes));
    }
    Ok(text)
}

/// What a user wants.
#[derive(Clone, Copy)]
struct Asked<'a> {
    arguments: &'a ServeArgs,
    /// Raised by SIGUSR1.
    to_cut: &'a AtomicBool,
}

/// Fails only while nothing is served yet.
fn set_up_and_serve(
    asked: Asked<'_>,
    model: Box<dyn Model>,
    medium: Arc<dyn Medium>,
    mut options: ServerOptions,
    session: &Session,
) -> Result<(&'static str, Arc<Server>), Failure> {
    let arguments = asked.arguments;
    // Before its transport is measured, too: that mounts a disk.
    let _survivor = match &arguments.mount {
        Some(directory) => {
            clear_stale(directory, session)?;
            Some(Survivor::watch(directory, None, session))
        }
        None => None,
    };
    options.lead = prepare_lead(arguments, options.usual_latency_ns, session)?;
    let server =
        Server::start(model, medium, &options).map_err(|error| failure::machine(&error))?;
    let server = Arc::new(server);
    let ended = serve_on(asked, &server, session)?;
    Ok((ended, server))
}

fn faults(text: &str) -> Result<Arc<Faults>, Failure> {
    let unclear = |error: &dyn std::error::Error| {
        Failure::usage(
            format!("--faults: {error}"),
            "Write it as in --faults eio=1e-4,torn=4k:1e-3,seed=7.",
        )
    };
    let plan: FaultPlan = text.parse().map_err(|error| unclear(&error))?;
    let faults = Faults::new(plan).map_err(|error| unclear(&error))?;
    Ok(Arc::new(faults))
}

/// How much is served.
pub fn size(asked: Option<u64>, model: &dyn Model) -> Result<u64, Failure> {
    let capacity_bytes = model.capacity_bytes();
    let size_bytes = asked.unwrap_or(capacity_bytes);
    let block = u64::from(model.block_bytes());
    if size_bytes > capacity_bytes || !size_bytes.is_multiple_of(block) {
        return Err(Failure::usage(
            format!(
                "a disk of {} ({capacity_bytes} bytes) has no part of {size_bytes} bytes",
                units::binary_size(capacity_bytes)
            ),
            format!("Give a --size up to that, in multiples of {block}."),
        ));
    }
    Ok(size_bytes)
}

fn prepare_lead(
    arguments: &ServeArgs,
    usual_latency_ns: u64,
    session: &Session,
) -> Result<Lead, Failure> {
    let way = match &arguments.mount {
        Some(directory) => Way::Mount(directory),
        None => Way::Nbd,
    };
    lead::choose(arguments.lead, &way, usual_latency_ns, session)
}

/// A server that was killed leaves its mount, on which everything fails.
fn clear_stale(directory: &Path, session: &Session) -> Result<(), Failure> {
    match fuse::unmount_stale(directory) {
        Ok(true) => {
            session.warn(format!(
                "{} carried the mount of a server that had ended; it was taken away",
                directory.display()
            ));
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(error) => Err(Failure::setup(
            format!(
                "{} carries the mount of a server that has ended, which cannot be taken away: {error}",
                directory.display()
            ),
            failure::stale_remedy(directory),
        )),
    }
}

/// Opens the ways to the disk, and waits for the end. Gives its reason.
fn serve_on(
    asked: Asked<'_>,
    server: &Arc<Server>,
    session: &Session,
) -> Result<&'static str, Failure> {
    let arguments = asked.arguments;
    let fuse = match &arguments.mount {
        Some(directory) => Some(
            Fuse::mount(directory, FILE_NAME, Arc::clone(server))
                .map_err(|error| failure::mount(&error))?,
        ),
        None => None,
    };
    let _unmount = fuse
        .as_ref()
        .map(|fuse| session.cleanups.register(fuse.unmounter()));
    let nbd = match &arguments.nbd {
        Some(path) => {
            Some(Nbd::listen(path, Arc::clone(server)).map_err(|error| failure::nbd(&error))?)
        }
        None => None,
    };
    let _remove = nbd
        .as_ref()
        .map(|nbd| session.cleanups.register(nbd.remover()));
    // The first thing at the end, before any way to the disk is taken away. What
    // comes of it is asked for later.
    let own = Arc::clone(server);
    let _cut = session.cleanups.register(move || {
        let _ = own.power_cut();
    });
    announce(server, fuse.as_ref(), nbd.as_ref(), session)?;
    let mut had_power = true;
    loop {
        if session.stop.is_raised() {
            return Ok("told to end");
        }
        if fuse.as_ref().is_some_and(Fuse::has_ended) {
            return Ok("the mount was taken away");
        }
        if asked.to_cut.swap(false, Ordering::Relaxed)
            && let Err(error) = server.power_cut()
        {
            session.warn(format!("the power cut is not complete: {error}"));
        }
        if std::mem::replace(&mut had_power, server.has_power()) && !had_power {
            let said = "the power was cut: all requests fail until the disk is served again";
            session.progress.say(said);
        }
        thread::sleep(NAP);
    }
}

/// What to do with it: on standard output, one command or address a line.
fn announce(
    server: &Server,
    fuse: Option<&Fuse>,
    nbd: Option<&Nbd>,
    session: &Session,
) -> Result<(), Failure> {
    session.progress.say(&format!(
        "serving {}; answers go out {}",
        units::binary_size(server.size_bytes()),
        lead::show(server.lead()),
    ));
    let mut lines = String::new();
    if let Some(fuse) = fuse {
        lines.push_str(&loop_device::command(fuse.file()));
        lines.push('\n');
    }
    if let Some(nbd) = nbd {
        let path = std::path::absolute(nbd.path()).unwrap_or_else(|_| nbd.path().to_owned());
        lines.push_str(&format!(
            "nbd+unix:///{EXPORT_NAME}?socket={}\n",
            path.display()
        ));
    }
    let mut stdout = Stdout::new();
    let written = stdout
        .write_all(lines.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing("standard output", &error))
        }
        _ => Ok(()),
    }
}

fn summary(server: &Server, faults: Option<&Faults>) -> String {
    let statistics = server.take_statistics();
    let mut text = format!(
        "{} requests: {} reads, {} writes, {} flushes, {} errors",
        statistics.operations(),
        statistics.reads,
        statistics.writes,
        statistics.flushes,
        statistics.errors
    );
    if statistics.without_power > 0 {
        text.push_str(&format!(
            "; {} more failed without power",
            statistics.without_power
        ));
    }
    if let Some(mean_ns) = statistics.model_latency_mean_ns() {
        text.push_str(&format!(
            "; mean latency by model {}; late by {} (p50), {} (p99)",
            units::time(mean_ns),
            units::time(statistics.lateness_ns(0.5) as f64),
            units::time(statistics.lateness_ns(0.99) as f64),
        ));
    }
    if statistics.medium_late > 0 {
        text.push_str(&format!(
            "; {} waited for the backing file",
            statistics.medium_late
        ));
    }
    let correction_ns = server.lead_correction_ns();
    if correction_ns != 0 {
        text.push_str(&format!(
            "; at the end answers went out {} than was measured at the start",
            lead::earlier(correction_ns)
        ));
    }
    text.push('\n');
    if let Some(faults) = faults {
        let log = faults.log();
        text.push_str(&format!("{} faults\n{log}", log.total));
    }
    text
}
