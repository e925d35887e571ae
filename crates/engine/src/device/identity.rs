//! Which whole disk a file lies on, from `/sys/dev/block`.

use std::fs;
use std::path::{Path, PathBuf};

/// Used where the device does not tell.
const LOGICAL_BLOCK_BYTES: u32 = 512;

/// What the kernel says about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Kernel name of the whole disk (`sda`, `nvme0n1`), or `anonymous-MINOR`
    /// for filesystems without a block device (tmpfs, overlay, network).
    pub name: String,
    /// Device number of the whole disk.
    pub major: u32,
    /// Device number of the whole disk.
    pub minor: u32,
    /// It has a head that moves (`queue/rotational`).
    pub rotational: bool,
    /// Smallest addressable unit (`queue/logical_block_size`).
    pub logical_block_bytes: u32,
    /// Largest transfer the kernel sends in one piece (`queue/max_sectors_kb`);
    /// `None` for anonymous devices.
    pub transfer_bytes_max: Option<u32>,
}

/// Finds the whole disk of device number `dev` (`st_dev` of a file, `st_rdev`
/// of a block device).
pub(crate) fn identify(dev: u64) -> DeviceInfo {
    let (major, minor) = (libc::major(dev), libc::minor(dev));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let Ok(mut folder) = fs::canonicalize(link) else {
        return DeviceInfo {
            name: format!("anonymous-{minor}"),
            major,
            minor,
            rotational: false,
            logical_block_bytes: LOGICAL_BLOCK_BYTES,
            transfer_bytes_max: None,
        };
    };
    // A partition's folder lies inside its disk's and has this file.
    if folder.join("partition").exists() {
        folder.pop();
    }
    let (major, minor) = read(&folder, "dev")
        .and_then(|text| {
            let (major, minor) = text.split_once(':')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
        .unwrap_or((major, minor));
    DeviceInfo {
        name: folder
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        major,
        minor,
        rotational: number(&folder, "queue/rotational") == Some(1),
        logical_block_bytes: number(&folder, "queue/logical_block_size")
            .unwrap_or(LOGICAL_BLOCK_BYTES),
        transfer_bytes_max: number(&folder, "queue/max_sectors_kb")
            .map(|kib| kib.saturating_mul(1024)),
    }
}

fn read(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    Some(text.trim().to_owned())
}

fn number(folder: &Path, name: &str) -> Option<u32> {
    read(folder, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn filesystems_without_a_disk_are_devices_of_their_own() {
        let dev = fs::metadata("/proc/self").unwrap().dev();
        let info = identify(dev);
        assert_eq!(info.name, format!("anonymous-{}", libc::minor(dev)));
        assert_eq!(info.transfer_bytes_max, None);
    }

    #[test]
    fn every_block_device_leads_to_a_whole_disk() {
        for entry in fs::read_dir("/sys/dev/block").unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let (major, minor) = name.split_once(':').unwrap();
            let info = identify(libc::makedev(
                major.parse().unwrap(),
                minor.parse().unwrap(),
            ));
            assert!(
                Path::new("/sys/block").join(&info.name).exists(),
                "{name} led to {}",
                info.name
            );
            assert!(info.logical_block_bytes >= 512);
        }
    }
}
