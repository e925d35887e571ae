//! Where the kernel's files are. Tests put a made-up tree in their place.

use std::fs;
use std::path::{Path, PathBuf};

/// The roots of the file systems in which the kernel shows its state.
#[derive(Clone, Debug)]
pub struct SystemPaths {
    pub sys: PathBuf,
    pub proc: PathBuf,
    /// For state that must not outlive a reboot.
    pub run: PathBuf,
}

impl Default for SystemPaths {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
            run: "/run".into(),
        }
    }
}

impl SystemPaths {
    /// A tree of its own below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            proc: root.join("proc"),
            run: root.join("run"),
        }
    }

    /// `/sys/block/NAME`.
    pub fn block(&self, device: &str) -> PathBuf {
        self.sys.join("block").join(device)
    }

    /// One line out of the queue directory of a whole disk.
    pub fn queue(&self, device: &str, attribute: &str) -> Option<String> {
        read_line(&self.block(device).join("queue").join(attribute))
    }
}

/// The file's text without surrounding white space; `None` when it cannot be
/// read or is empty, which for these files means the same: unknown.
pub fn read_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What `/proc/PID/stat` says behind the process's name, which may hold blanks and brackets:
/// field 3, its state, comes first. `None` when there is no such process.
pub fn stat_from_state(proc: &Path, process: u32) -> Option<String> {
    let stat = read_line(&proc.join(process.to_string()).join("stat"))?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(after_name.trim_start().to_owned())
}

/// A device number as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    /// From `st_dev` or `st_rdev`.
    pub fn from_raw(raw: u64) -> Self {
        Self {
            major: libc::major(raw),
            minor: libc::minor(raw),
        }
    }

    /// From `254:0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl std::fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub device: DeviceNumber,
    pub mount_point: PathBuf,
    pub options: String,
    pub filesystem: String,
    pub source: String,
    pub super_options: String,
}

/// What is mounted where, in the order of mounting.
pub fn mounts(paths: &SystemPaths) -> Vec<Mount> {
    let text = fs::read_to_string(paths.proc.join("self/mountinfo")).unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    // The number of optional fields varies; a lone dash ends them.
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.split(' ');
    Some(Mount {
        device: DeviceNumber::parse(left.get(2)?)?,
        mount_point: PathBuf::from(unescape(left.get(4)?)),
        options: (*left.get(5)?).to_owned(),
        filesystem: right.next()?.to_owned(),
        source: unescape(right.next()?),
        super_options: right.next().unwrap_or_default().to_owned(),
    })
}

/// Undoes the kernel's `\040` for blanks and the like.
pub fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes
            .get(at + 1..at + 4)
            .filter(|_| bytes[at] == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Name of the whole disk that a device number belongs to: a partition's
/// parent; a device-mapper, RAID or loop device itself. `None` for file systems
/// that have no block device (tmpfs, NFS, btrfs, overlay).
pub fn whole_disk(paths: &SystemPaths, number: DeviceNumber) -> Option<String> {
    let link = paths.sys.join("dev/block").join(number.to_string());
    let directory = fs::canonicalize(link).ok()?;
    let disk = if directory.join("partition").exists() {
        directory.parent()?
    } else {
        &directory
    };
    Some(disk.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_with_and_without_optional_fields() {
        let plain = parse_mount("27 1 254:0 / /a\\040b rw,relatime - ext4 /dev/vda rw,discard");
        let shared = parse_mount(
            "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue",
        );
        let plain = plain.unwrap();
        assert_eq!(plain.mount_point, Path::new("/a b"));
        assert_eq!(plain.device.to_string(), "254:0");
        assert_eq!(plain.super_options, "rw,discard");
        let shared = shared.unwrap();
        assert_eq!(
            (shared.filesystem.as_str(), shared.source.as_str()),
            ("ext3", "/dev/root")
        );
        assert_eq!(parse_mount("nonsense"), None);
    }

    #[test]
    fn unescape_leaves_other_backslashes() {
        assert_eq!(unescape("a\\040b\\134c\\x"), "a b\\c\\x");
        assert_eq!(unescape("end\\04"), "end\\04");
    }

    #[test]
    fn partitions_belong_to_their_disk() {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths::below(root.path());
        let disk = paths.sys.join("devices/pci/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        fs::create_dir_all(paths.sys.join("dev/block")).unwrap();
        for (number, target) in [("8:0", disk.clone()), ("8:1", disk.join("sda1"))] {
            std::os::unix::fs::symlink(target, paths.sys.join("dev/block").join(number)).unwrap();
        }
        for minor in [0, 1] {
            let number = DeviceNumber { major: 8, minor };
            assert_eq!(whole_disk(&paths, number).as_deref(), Some("sda"));
        }
        let unknown = DeviceNumber { major: 0, minor: 7 };
        assert_eq!(whole_disk(&paths, unknown), None);
    }
}
