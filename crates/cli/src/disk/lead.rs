//! What a transport takes, measured on a disk that is mounted for nothing else.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use iolane::Buffer;
use iolane_disk::served::fuse::Fuse;
use iolane_disk::served::{Lead, measure_lead, nbd, round_trip_server};

use super::failure;
use super::loop_device::LoopDevice;
use crate::args::disk::LeadChoice;
use crate::error::Failure;
use crate::session::Session;

/// The file's name while it is measured: nobody takes it for the disk.
const FILE_NAME: &str = "round-trip";
/// Largest read of the measurement.
const READ_BYTES_MAX: usize = 1 << 20;

/// Where the disk will be.
pub enum Way<'a> {
    /// Mounted there; through a loop device where that can be made.
    Mount(&'a Path),
    /// Mounted there, and through a loop device in any case.
    Loop(&'a Path),
    /// On a socket.
    Nbd,
}

/// Measures what was not given. Says so where it cannot, and does without.
///
/// # Errors
/// What keeps the disk from being mounted.
pub fn choose(choice: LeadChoice, way: &Way<'_>, session: &Session) -> Result<Lead, Failure> {
    match choice {
        LeadChoice::Fixed(lead) => Ok(Lead {
            base_ns: lead.as_nanos() as u64,
            per_mebibyte_ns: 0,
        }),
        LeadChoice::Auto => {
            let lead = match way {
                Way::Mount(directory) => of_mount(directory, false, session)?,
                Way::Loop(directory) => of_mount(directory, true, session)?,
                Way::Nbd => of_nbd(),
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

fn of_mount(
    directory: &Path,
    loop_only: bool,
    session: &Session,
) -> Result<io::Result<Lead>, Failure> {
    let server = round_trip_server().map_err(|error| failure::machine(&error))?;
    let fuse = Fuse::mount(directory, FILE_NAME, Arc::new(server))
        .map_err(|error| failure::mount(&error))?;
    let _unmount = session.cleanups.register(fuse.unmounter());
    let device = LoopDevice::attach(fuse.file(), &session.cleanups);
    if let (true, Err(said)) = (loop_only, &device) {
        return Err(failure::no_loop_device(said));
    }
    let path = device.as_ref().map_or(fuse.file(), LoopDevice::path);
    Ok(of_file(path))
}

fn of_file(path: &Path) -> io::Result<Lead> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let mut buffer = Buffer::new(READ_BYTES_MAX);
    measure_lead(|length| file.read_exact_at(&mut buffer[..length as usize], 0))
        .map_err(|error| error.0)
}

fn of_nbd() -> io::Result<Lead> {
    let server = Arc::new(round_trip_server()?);
    let (mut sender, mut receiver) = nbd::connect_within(&server)?;
    measure_lead(|length| {
        sender.read(0, 0, length)?;
        receiver.receive().map(drop)
    })
    .map_err(|error| error.0)
}
