//! What is measured: a scratch file, an existing file, or a block device.
//! Everything is checked before the first transfer.

mod device;
mod directory;
mod error;
mod existing;
mod fill;
mod scratch;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use directory::ScratchDirectory;
pub use error::TargetError;

use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::{DirectAlignment, direct_alignment};
use crate::system::{DeviceNumber, mounts, whole_disk};

/// What a command needs of its target.
#[derive(Clone, Debug)]
pub struct TargetRequest {
    /// Existing file or device; otherwise a scratch file is made.
    pub file: Option<PathBuf>,
    /// Where the scratch file is made; otherwise in the current directory.
    pub directory: Option<PathBuf>,
    /// How much of it is used. All of an existing one when not given.
    pub size_bytes: Option<u64>,
    /// Size of the scratch file when none is given.
    pub default_size_bytes: u64,
    /// Every transfer size that will occur, for the checks.
    pub transfer_sizes_bytes: Vec<u64>,
    /// Whether any transfer bypasses the page cache.
    pub direct: bool,
    pub reads: bool,
    pub writes: bool,
    /// The user accepts the loss of what is in it.
    pub destructive: bool,
    /// Files with names are made in the directory, by whoever measures, and
    /// no scratch file.
    pub named_files: bool,
}

/// What kind of thing is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    ScratchFile,
    /// Files with names of their own in a directory.
    Directory,
    ExistingFile,
    BlockDevice,
}

/// A checked target. A scratch file lives as long as this does.
#[derive(Debug)]
pub struct Target {
    pub kind: TargetKind,
    /// For people: the file, or the directory of the scratch file.
    pub path: PathBuf,
    /// What to open: [`path`](Self::path), or the scratch file, which has no
    /// name, through `/proc/self/fd`. Valid in this process only.
    pub open_path: PathBuf,
    /// How much may be used, from offset 0.
    pub size_bytes: u64,
    pub device: DeviceNumber,
    /// Name of the whole disk in `/sys/block`, where there is one.
    pub disk: Option<String>,
    pub direct_alignment: Option<DirectAlignment>,
    /// Keeps the scratch file, or the claim on a device.
    _holder: File,
}

/// The target as recorded in results.
#[derive(Clone, Debug, Serialize)]
pub struct TargetDocument {
    pub kind: TargetKind,
    pub path: String,
    pub size_bytes: u64,
}

impl Target {
    /// Finds or makes the target, and checks it.
    ///
    /// # Errors
    /// [`TargetError`], or an interruption while a scratch file is filled.
    pub fn prepare(request: &TargetRequest, session: &Session) -> Result<Self, Failure> {
        if request.named_files {
            return Self::directory(request, session);
        }
        match &request.file {
            Some(path) => Ok(existing::prepare(path, request, session)?),
            None => scratch::prepare(request, session),
        }
    }

    /// Opens it once more.
    ///
    /// # Errors
    /// What open(2) says.
    pub fn open(&self, direct: bool, write: bool) -> io::Result<File> {
        open(&self.open_path, direct, write)
    }

    pub fn document(&self) -> TargetDocument {
        TargetDocument {
            kind: self.kind,
            path: self.path.display().to_string(),
            size_bytes: self.size_bytes,
        }
    }
}

fn open(path: &Path, direct: bool, write: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(if direct { libc::O_DIRECT } else { 0 })
        .open(path)
}

/// Checks that the file takes direct transfers of the sizes that will occur.
fn check_direct(
    open_path: &Path,
    shown: &Path,
    request: &TargetRequest,
    session: &Session,
) -> Result<Option<DirectAlignment>, TargetError> {
    let file = match open(open_path, request.direct, request.writes) {
        Ok(file) => file,
        // open(2): "EINVAL: The filesystem does not support the O_DIRECT flag".
        Err(error) if request.direct && error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(no_direct_io(open_path, shown, session));
        }
        Err(error) => {
            return Err(TargetError::from_open(
                shown.to_owned(),
                request.writes,
                error,
            ));
        }
    };
    let alignment = direct_alignment(&file);
    if request.direct {
        match alignment {
            Some(DirectAlignment {
                offset_bytes: 0, ..
            }) => {
                return Err(no_direct_io(open_path, shown, session));
            }
            Some(DirectAlignment { offset_bytes, .. }) => {
                check_alignment(shown, offset_bytes, &request.transfer_sizes_bytes)?;
            }
            None => {}
        }
    }
    Ok(alignment)
}

fn check_alignment(shown: &Path, alignment: u32, transfers: &[u64]) -> Result<(), TargetError> {
    match transfers
        .iter()
        .find(|size| **size % u64::from(alignment) != 0)
    {
        None => Ok(()),
        Some(size) => Err(TargetError::Unaligned {
            path: shown.to_owned(),
            alignment_bytes: alignment,
            transfer_bytes: *size,
        }),
    }
}

fn no_direct_io(open_path: &Path, shown: &Path, session: &Session) -> TargetError {
    let device = std::fs::metadata(open_path).map(|data| DeviceNumber::from_raw(data.dev()));
    let filesystem = device
        .ok()
        .and_then(|device| {
            mounts(&session.paths)
                .into_iter()
                .rev()
                .find(|m| m.device == device)
        })
        .map_or_else(|| "unknown".to_owned(), |mount| mount.filesystem);
    TargetError::NoDirectIo {
        path: shown.to_owned(),
        filesystem,
    }
}

/// The disk under a file or device.
fn disk_of(session: &Session, device: DeviceNumber) -> Option<String> {
    whole_disk(&session.paths, device)
}

/// The largest transfer must fit.
fn least_bytes(request: &TargetRequest) -> u64 {
    let largest = request.transfer_sizes_bytes.iter().copied().max();
    request.size_bytes.unwrap_or(0).max(largest.unwrap_or(1))
}

#[cfg(test)]
mod tests;
