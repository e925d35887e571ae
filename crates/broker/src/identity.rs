//! Which disk a device number belongs to, from `/sys/dev/block`.

use std::fs;
use std::path::{Path, PathBuf};

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Such as `vda`.
    pub name: String,
    /// It says that it has a head.
    pub rotational: bool,
}

/// The whole disk of a file's `st_dev`; `None` where no disk is below that could
/// be scheduled: memory, the network, and file systems over several devices.
pub fn disk_of(number: u64) -> Option<Found> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let mut folder = fs::canonicalize(link).ok()?;
    // A partition's folder lies inside its disk's and has this file.
    if folder.join("partition").exists() {
        folder.pop();
    }
    Some(Found {
        name: folder.file_name()?.to_str()?.to_owned(),
        rotational: is_rotational(&folder),
    })
}

fn is_rotational(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("queue/rotational"));
    text.is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn every_block_device_leads_to_a_whole_disk_and_proc_to_none() {
        assert_eq!(disk_of(fs::metadata("/proc/self").unwrap().dev()), None);
        for entry in fs::read_dir("/sys/dev/block").unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let (major, minor) = name.split_once(':').unwrap();
            let number = libc::makedev(major.parse().unwrap(), minor.parse().unwrap());
            let found = disk_of(number).unwrap();
            assert!(Path::new("/sys/block").join(&found.name).exists(), "{name}");
        }
    }
}
