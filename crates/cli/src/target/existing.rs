//! An existing file or block device, named by the user.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::{
    Target, TargetError, TargetKind, TargetRequest, check_direct, device, disk_of, least_bytes,
    open,
};
use crate::session::Session;
use crate::sys::file::{next_data, next_hole};
use crate::system::DeviceNumber;

/// Below this share of written blocks a read bench says that it measures holes.
const WRITTEN_SHARE_LEAST: f64 = 0.999;

/// Most stretches of data that are looked at: a heavily fragmented file tells
/// enough with these.
const STRETCHES_MAX: u32 = 100_000;

pub fn prepare(
    path: &Path,
    request: &TargetRequest,
    session: &Session,
) -> Result<Target, TargetError> {
    let metadata = fs::metadata(path)
        .map_err(|error| TargetError::from_open(path.to_owned(), request.writes, error))?;
    let kind = kind(path, &metadata)?;
    if request.writes && !request.destructive {
        return Err(TargetError::NotDestructive {
            path: path.to_owned(),
        });
    }
    let holder = hold(path, kind, &metadata, request, session)?;
    let found_bytes = size(&holder, path)?;
    let needed_bytes = least_bytes(request);
    if found_bytes < needed_bytes {
        return Err(TargetError::TooSmall {
            path: path.to_owned(),
            size_bytes: found_bytes,
            needed_bytes,
        });
    }
    let size_bytes = request.size_bytes.unwrap_or(found_bytes);
    let direct_alignment = check_direct(path, path, request, session)?;
    if request.reads && kind == TargetKind::ExistingFile {
        warn_of_holes(&holder, path, size_bytes, session);
    }
    let device = DeviceNumber::from_raw(match kind {
        TargetKind::BlockDevice => metadata.rdev(),
        _ => metadata.dev(),
    });
    Ok(Target {
        kind,
        path: path.to_owned(),
        open_path: path.to_owned(),
        size_bytes,
        device,
        disk: disk_of(session, device),
        direct_alignment,
        _holder: holder,
    })
}

fn kind(path: &Path, metadata: &fs::Metadata) -> Result<TargetKind, TargetError> {
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        Err(TargetError::Directory {
            path: path.to_owned(),
        })
    } else if file_type.is_file() {
        Ok(TargetKind::ExistingFile)
    } else if file_type.is_block_device() {
        Ok(TargetKind::BlockDevice)
    } else {
        Err(TargetError::WrongKind {
            path: path.to_owned(),
        })
    }
}

/// Opens it for as long as it is measured. A device that is written to is
/// claimed, so that nobody mounts it meanwhile.
fn hold(
    path: &Path,
    kind: TargetKind,
    metadata: &fs::Metadata,
    request: &TargetRequest,
    session: &Session,
) -> Result<File, TargetError> {
    if kind == TargetKind::BlockDevice && request.writes {
        device::check_unused(path, DeviceNumber::from_raw(metadata.rdev()), session)?;
        return device::claim(path);
    }
    open(path, false, request.writes)
        .map_err(|error| TargetError::from_open(path.to_owned(), request.writes, error))
}

/// A device's metadata gives no size; its end does.
fn size(mut file: &File, path: &Path) -> Result<u64, TargetError> {
    file.seek(SeekFrom::End(0))
        .map_err(|source| TargetError::Io {
            path: path.to_owned(),
            action: "find the size of",
            source,
        })
}

fn warn_of_holes(file: &File, path: &Path, size_bytes: u64, session: &Session) {
    let share = written_share(file, size_bytes);
    if share < WRITTEN_SHARE_LEAST {
        session.warn(format!(
            "{:.1} % of {} was never written: the kernel answers reads there without the disk, so the figures are too good; fill the file first, or leave out --file",
            (1.0 - share) * 100.0,
            path.display()
        ));
    }
}

/// Share of the first `size_bytes` that holds data. 1 where the file system
/// cannot tell.
pub fn written_share(file: &File, size_bytes: u64) -> f64 {
    let mut data_bytes = 0;
    let mut at = 0;
    for _ in 0..STRETCHES_MAX {
        match next_data(file, at) {
            Ok(Some(start)) if start < size_bytes => {
                let end = match next_hole(file, start) {
                    Ok(end) => end.unwrap_or(size_bytes).min(size_bytes),
                    Err(_) => return 1.0,
                };
                data_bytes += end - start;
                at = end;
            }
            Ok(_) => {
                at = size_bytes;
            }
            Err(_) => return 1.0,
        }
        if at >= size_bytes {
            break;
        }
    }
    // `at` is less than the size when the file has too many stretches.
    data_bytes as f64 / at.max(1) as f64
}
