//! A volume with a limit, as a cloud's: the kernel's throttle on one device for
//! one control group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

/// How long processes of the group may take to be gone before it is removed.
const EMPTY_WAIT_MAX: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// A control group whose processes may read so often per second from one
/// device. Removed when dropped.
#[derive(Debug)]
pub struct ReadLimit {
    group: PathBuf,
}

impl ReadLimit {
    /// Limits reads of the device `numbers` (`major:minor`).
    ///
    /// # Errors
    /// Why the machine gives none, in words.
    pub fn new(numbers: &str, reads_per_second: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(|error| error.to_string())?;
        let hierarchy = find(&mounts).ok_or("no control group hierarchy limits block I/O")?;
        let name = format!("iolane-test-{}", std::process::id());
        let group = hierarchy.path().join(name);
        fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let limit = Self { group };
        let (file, line) = match hierarchy {
            Hierarchy::V1(_) => (
                "blkio.throttle.read_iops_device",
                format!("{numbers} {reads_per_second}"),
            ),
            Hierarchy::V2(_) => ("io.max", format!("{numbers} riops={reads_per_second}")),
        };
        let path = limit.group.join(file);
        fs::write(&path, line).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(limit)
    }

    /// Puts a process under the limit.
    ///
    /// # Errors
    /// When the process is gone, or the kernel refuses.
    pub fn add(&self, process: &Child) -> io::Result<()> {
        fs::write(self.group.join("cgroup.procs"), process.id().to_string())
    }
}

impl Drop for ReadLimit {
    fn drop(&mut self) {
        let mut waited = Duration::ZERO;
        while fs::remove_dir(&self.group).is_err() && waited < EMPTY_WAIT_MAX {
            thread::sleep(POLL);
            waited += POLL;
        }
    }
}

/// Where block I/O can be limited.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    V1(PathBuf),
    V2(PathBuf),
}

impl Hierarchy {
    fn path(&self) -> &Path {
        match self {
            Self::V1(path) | Self::V2(path) => path,
        }
    }
}

fn find(mounts: &str) -> Option<Hierarchy> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (path, kind, options) = (words.next()?, words.next()?, words.next()?);
        let path = PathBuf::from(path);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "blkio") => {
                Some(Hierarchy::V1(path))
            }
            // Groups get the controllers that the one above hands down.
            "cgroup2" => {
                let handed_down = fs::read_to_string(path.join("cgroup.subtree_control")).ok()?;
                let has_io = handed_down.split_whitespace().any(|one| one == "io");
                has_io.then_some(Hierarchy::V2(path))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_the_controller_is_found() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n";
        let expected = Hierarchy::V1("/sys/fs/cgroup/blkio".into());
        assert_eq!(find(mounts), Some(expected));
        assert_eq!(find("tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"), None);
    }

    #[test]
    fn a_unified_hierarchy_must_hand_the_controller_down() {
        let root = tempfile::tempdir().unwrap();
        let control = root.path().join("cgroup.subtree_control");
        let mounts = format!(
            "cgroup2 {} cgroup2 rw,relatime 0 0\n",
            root.path().display()
        );
        for (handed_down, expected) in [
            ("cpu memory", None),
            ("cpu io memory", Some(Hierarchy::V2(root.path().to_owned()))),
        ] {
            fs::write(&control, handed_down).unwrap();
            assert_eq!(find(&mounts), expected);
        }
    }
}
