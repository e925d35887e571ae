//! Whether a block device may be written to: nobody else may be using it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::TargetError;
use crate::session::Session;
use crate::system::{DeviceNumber, Mount, mounts, read_line, unescape};

/// Refuses a device that is mounted, swapped to or built upon, whole or in
/// one of its partitions.
pub fn check_unused(
    path: &Path,
    device: DeviceNumber,
    session: &Session,
) -> Result<(), TargetError> {
    let numbers = with_partitions(device, session);
    if let Some(mount) = mounts(&session.paths)
        .into_iter()
        .find(|mount| numbers.contains(&mounted_device(mount)))
    {
        return Err(TargetError::Mounted {
            path: path.to_owned(),
            mount_point: mount.mount_point,
        });
    }
    if swaps(session).iter().any(|swap| numbers.contains(swap)) {
        return Err(TargetError::Swap {
            path: path.to_owned(),
        });
    }
    match numbers.iter().find_map(|number| holder(*number, session)) {
        None => Ok(()),
        Some(holder) => Err(TargetError::Held {
            path: path.to_owned(),
            holder,
        }),
    }
}

/// Claims the device: with `O_EXCL` the kernel refuses to open one that is
/// mounted or part of something, and to mount it as long as this is open.
pub fn claim(path: &Path) -> Result<File, TargetError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(path)
        .map_err(|error| TargetError::from_open(path.to_owned(), true, error))
}

/// btrfs and overlay mounts carry a number of their own; their source names
/// the device.
fn mounted_device(mount: &Mount) -> DeviceNumber {
    if mount.device.major != 0 {
        return mount.device;
    }
    device_number(Path::new(&mount.source)).unwrap_or(mount.device)
}

fn device_number(path: &Path) -> Option<DeviceNumber> {
    use std::os::unix::fs::FileTypeExt;
    let metadata = fs::metadata(path).ok()?;
    metadata
        .file_type()
        .is_block_device()
        .then(|| DeviceNumber::from_raw(metadata.rdev()))
}

fn swaps(session: &Session) -> Vec<DeviceNumber> {
    let text = fs::read_to_string(session.paths.proc.join("swaps")).unwrap_or_default();
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .filter_map(|path| device_number(&PathBuf::from(unescape(path))))
        .collect()
}

fn directory(device: DeviceNumber, session: &Session) -> PathBuf {
    session.paths.sys.join("dev/block").join(device.to_string())
}

fn with_partitions(device: DeviceNumber, session: &Session) -> Vec<DeviceNumber> {
    let directory = directory(device, session);
    let partitions = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join("partition").exists())
        .filter_map(|entry| DeviceNumber::parse(&read_line(&entry.path().join("dev"))?));
    std::iter::once(device).chain(partitions).collect()
}

/// What stands on the device: a RAID, LVM, encryption.
fn holder(device: DeviceNumber, session: &Session) -> Option<String> {
    let holders = fs::read_dir(directory(device, session).join("holders")).ok()?;
    let name = holders.flatten().next()?.file_name();
    Some(name.to_string_lossy().into_owned())
}
