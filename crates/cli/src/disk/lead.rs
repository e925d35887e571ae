//! What a transport takes, measured on a disk that is mounted for nothing else.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use iolane::Buffer;
use iolane_disk::served::fuse::{Fuse, accounted};
use iolane_disk::served::{Follows, Lead, RoundTrip, nbd, now_ns};

use super::failure;
use super::loop_device::LoopDevice;
use crate::args::disk::LeadChoice;
use crate::error::Failure;
use crate::output::units;
use crate::session::Session;

/// The file's name while it is measured: nobody takes it for the disk.
const FILE_NAME: &str = "round-trip";

/// Where the disk will be.
pub enum Way<'a> {
    /// Mounted there; through a loop device where that can be made.
    Mount(&'a Path),
    /// Mounted there, and through a loop device in any case.
    Loop(&'a Path),
    /// On a socket.
    Nbd,
}

/// Measures what was not given, for a disk with
/// [`usual_latency_ns`](iolane_disk::served::usual_latency_ns). Says so where
/// it cannot, and does without.
///
/// # Errors
/// What keeps the disk from being mounted.
pub fn choose(
    choice: LeadChoice,
    way: &Way<'_>,
    usual_latency_ns: u64,
    session: &Session,
) -> Result<Lead, Failure> {
    match choice {
        LeadChoice::Fixed(lead) => Ok(Lead {
            base_ns: lead.as_nanos() as u64,
            ..Lead::NONE
        }),
        LeadChoice::Auto => {
            let trip =
                RoundTrip::start(usual_latency_ns).map_err(|error| failure::machine(&error))?;
            let lead = match way {
                Way::Mount(directory) => of_mount(&trip, directory, false, session)?,
                Way::Loop(directory) => of_mount(&trip, directory, true, session)?,
                Way::Nbd => of_nbd(&trip),
            };
            Ok(lead.unwrap_or_else(|error| {
                session.warn(format!(
                    "the transport's own time could not be measured ({error}): answers come late by it; --lead sets it by hand"
                ));
                Lead::NONE
            }))
        }
    }
}

/// A correction of it, for people.
pub fn earlier(correction_ns: i64) -> String {
    let time = units::time(correction_ns.unsigned_abs() as f64);
    let side = if correction_ns < 0 {
        "later"
    } else {
        "earlier"
    };
    format!("{time} {side}")
}

/// For people.
pub fn show(lead: Lead) -> String {
    format!(
        "{} early, up to {} more after a pause, {} more beside others, and {} more per MiB, to make up for their way",
        units::time(lead.base_ns as f64),
        units::time(lead.rested_ns as f64),
        units::time(lead.crowded_ns as f64),
        units::time(lead.per_mebibyte_ns as f64),
    )
}

fn of_mount(
    trip: &RoundTrip,
    directory: &Path,
    loop_only: bool,
    session: &Session,
) -> Result<io::Result<Lead>, Failure> {
    let fuse = Fuse::mount(directory, FILE_NAME, Arc::clone(trip.server()))
        .map_err(|error| failure::mount(&error))?;
    let _unmount = session.cleanups.register(fuse.unmounter());
    let device = LoopDevice::attach(fuse.file(), false, &session.cleanups);
    if let (true, Err(said)) = (loop_only, &device) {
        return Err(failure::no_loop_device(said));
    }
    let path = device.as_ref().map_or(fuse.file(), LoopDevice::path);
    Ok(of_file(trip, path))
}

fn of_file(trip: &RoundTrip, path: &Path) -> io::Result<Lead> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let read = |length| {
        let mut buffer = Buffer::new(length as usize);
        let start_ns = now_ns();
        file.read_exact_at(&mut buffer, 0)?;
        Ok(now_ns() - start_ns)
    };
    trip.measure(read, || accounted(path).ok())
        .map_err(|error| error.0)
}

fn of_nbd(trip: &RoundTrip) -> io::Result<Lead> {
    let connect = || nbd::connect_within(trip.server()).map(Mutex::new);
    let clients = [connect()?, connect()?];
    let read = |length| {
        let free = clients.iter().find_map(|client| client.try_lock().ok());
        let mut client = free.ok_or(io::ErrorKind::ResourceBusy)?;
        let (sender, receiver) = &mut *client;
        let start_ns = now_ns();
        sender.read(0, 0, length)?;
        receiver.receive()?;
        Ok(now_ns() - start_ns)
    };
    let lead = trip.measure(read, || None).map_err(|error| error.0)?;
    Ok(Lead {
        follows: Follows::Clients,
        ..lead
    })
}
