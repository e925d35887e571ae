//! Which disk a device number belongs to, from `/sys/dev/block`.

use std::fs;
use std::path::PathBuf;

/// Name, such as `vda`, of the whole disk of a file's `st_dev`; `None` where no disk is below that could
/// be scheduled: memory, the network, and file systems over several devices.
pub fn disk_of(number: u64) -> Option<String> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let mut folder = fs::canonicalize(link).ok()?;
    // A partition's folder lies inside its disk's and has this file.
    if folder.join("partition").exists() {
        folder.pop();
    }
    Some(folder.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    #[test]
    fn every_block_device_leads_to_a_whole_disk_and_proc_to_none() {
        assert_eq!(disk_of(fs::metadata("/proc/self").unwrap().dev()), None);
        for entry in fs::read_dir("/sys/dev/block").unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let (major, minor) = name.split_once(':').unwrap();
            let number = libc::makedev(major.parse().unwrap(), minor.parse().unwrap());
            let found = disk_of(number).unwrap();
            assert!(Path::new("/sys/block").join(&found).exists(), "{name}");
        }
    }
}
