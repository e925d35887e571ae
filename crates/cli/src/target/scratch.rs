//! A file of our own, which no way of ending can leave behind.
//!
//! It has no name: `O_TMPFILE`, or where the file system lacks that, a name
//! that is removed as soon as the file is open. The kernel frees it with the
//! last descriptor, also after a `kill -9`. Other descriptors to it are opened
//! through `/proc/self/fd`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{
    Target, TargetError, TargetKind, TargetRequest, check_direct, disk_of, fill, least_bytes,
};
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::{Space, space};
use crate::system::DeviceNumber;

/// What stays free: this, or a twentieth of a small file system. A full disk
/// hurts whatever else runs on the machine.
const RESERVE_BYTES_MAX: u64 = 1 << 30;
const RESERVE_SHARE: u64 = 20;

pub fn prepare(request: &TargetRequest, session: &Session) -> Result<Target, Failure> {
    let directory = directory(request)?;
    let size_bytes = request
        .size_bytes
        .unwrap_or(request.default_size_bytes)
        .max(least_bytes(request));
    let room = space(&directory)
        .map_err(|error| TargetError::from_open(directory.clone(), true, error))?;
    check_room(&directory, size_bytes, room)?;
    let file = create(&directory)
        .map_err(|error| TargetError::from_open(directory.clone(), true, error))?;
    let open_path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Before the long fill: an unfit file system is reported at once.
    let direct_alignment = check_direct(&open_path, &directory, request, session)?;
    fill::fill(&file, &open_path, &directory, size_bytes, session)?;
    let device = DeviceNumber::from_raw(
        file.metadata()
            .map_err(|error| TargetError::from_open(directory.clone(), true, error))?
            .dev(),
    );
    Ok(Target {
        kind: TargetKind::ScratchFile,
        path: directory,
        open_path,
        size_bytes,
        device,
        disk: disk_of(session, device),
        direct_alignment,
        _holder: file,
    })
}

fn directory(request: &TargetRequest) -> Result<PathBuf, TargetError> {
    let path = request
        .directory
        .clone()
        .unwrap_or_else(|| PathBuf::from("."));
    let metadata =
        fs::metadata(&path).map_err(|error| TargetError::from_open(path.clone(), true, error))?;
    if !metadata.is_dir() {
        return Err(TargetError::NotDirectory { path });
    }
    Ok(fs::canonicalize(&path).unwrap_or(path))
}

pub(super) fn check_room(
    directory: &Path,
    size_bytes: u64,
    room: Space,
) -> Result<(), TargetError> {
    let reserve_bytes = (room.total_bytes / RESERVE_SHARE).min(RESERVE_BYTES_MAX);
    if room.available_bytes.saturating_sub(reserve_bytes) >= size_bytes {
        return Ok(());
    }
    Err(TargetError::NoSpace {
        path: directory.to_owned(),
        available_bytes: room.available_bytes,
        size_bytes,
        reserve_bytes,
    })
}

fn create(directory: &Path) -> io::Result<File> {
    match create_nameless(directory) {
        // open(2): EOPNOTSUPP from the file system, EISDIR from old kernels.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            create_and_unlink(directory)
        }
        result => result,
    }
}

fn create_nameless(directory: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(directory)
}

pub(super) fn create_and_unlink(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!("iolane-bench-{}.tmp", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
