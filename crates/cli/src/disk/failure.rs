//! What can go wrong around a served disk, with its remedy.

use std::io;
use std::path::Path;

use iolane_disk::served::backing::BackingError;
use iolane_disk::served::fuse::MountError;
use iolane_disk::served::nbd::NbdError;

use crate::args::common::TARGET_BYTES_MIN;
use crate::error::Failure;

pub fn backing(error: &BackingError) -> Failure {
    let remedy = match error {
        BackingError::NotAFile { .. } => {
            "Name a file with --backing; it is created if missing.".to_owned()
        }
        BackingError::TooSmall { size_bytes, .. } => too_small_remedy(*size_bytes),
        BackingError::InUse { .. } => {
            "Each disk needs a file of its own: end the other server, or name another file."
                .to_owned()
        }
        BackingError::System { source, .. } => system_remedy(source),
        _ => "Name another file.".to_owned(),
    };
    Failure::setup(error.to_string(), remedy)
}

/// What --size takes: that much at least, in blocks of any model.
fn too_small_remedy(size_bytes: u64) -> String {
    const BLOCK_BYTES: u64 = 4096;
    let size_bytes = size_bytes - size_bytes % BLOCK_BYTES;
    if size_bytes < TARGET_BYTES_MIN {
        return "Make the file larger (truncate -s), or name another.".to_owned();
    }
    format!(
        "Give --size {size_bytes} or less, make the file larger (truncate -s), or name another."
    )
}

fn system_remedy(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "Name a file that you may write to.".to_owned()
        }
        Some(libc::EFBIG | libc::ENOSPC | libc::EINVAL) => {
            "The file system does not hold files as large: give a smaller --size.".to_owned()
        }
        _ => "Check the path; its directory must exist.".to_owned(),
    }
}

pub fn mount(error: &MountError) -> Failure {
    let remedy = match error {
        MountError::NoDirectory { directory, .. } => {
            format!("Make an empty directory: mkdir {}", directory.display())
        }
        MountError::NotEmpty { .. } => "Name an empty directory with --mount.".to_owned(),
        MountError::Stale { directory } => stale_remedy(directory),
        MountError::NoFuse(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            "Run as root, or ask for access to /dev/fuse; --nbd needs neither.".to_owned()
        }
        MountError::NoFuse(_) => {
            "Load the module (modprobe fuse), or give the container --device /dev/fuse; --nbd needs neither."
                .to_owned()
        }
        MountError::Refused { .. } => {
            "Run as root, or install fusermount3 (package fuse3); --nbd needs neither.".to_owned()
        }
        _ => "Use --nbd instead.".to_owned(),
    };
    Failure::setup(error.to_string(), remedy)
}

pub fn stale_remedy(directory: &Path) -> String {
    let directory = directory.display();
    format!("Unmount it: umount {directory} (or fusermount3 -u {directory}).")
}

pub fn nbd(error: &NbdError) -> Failure {
    let remedy = match error {
        NbdError::InUse { .. } => "End the other server, or name another socket.",
        NbdError::NoSocket { .. } => "Name a path that does not exist yet.",
        _ => "Name a path of less than 108 characters in a directory that you may write to.",
    };
    Failure::setup(error.to_string(), remedy)
}

/// Of a disk that is said to be served there.
pub fn cut(place: &Path, error: &io::Error) -> Failure {
    let message = format!(
        "the power of the disk at {} cannot be cut: {error}",
        place.display()
    );
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "Run as the user who serves it.",
        _ => {
            "Name what iolane disk serve was given as --mount or --nbd; kill -USR1 to that process does the same."
        }
    };
    Failure::setup(message, remedy)
}

/// What losetup said.
pub fn no_loop_device(said: &str) -> Failure {
    Failure::setup(
        format!("no loop device: {said}."),
        "Run as root, on a machine with free loop devices; --transports nbd needs neither.",
    )
}

/// Threads, timers and the like.
pub fn machine(error: &io::Error) -> Failure {
    Failure::setup(
        format!("the disk cannot be served: {error}"),
        "Raise the limits on threads and open files (ulimit -u, -n).",
    )
}
