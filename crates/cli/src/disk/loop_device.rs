//! Loop devices, made by losetup(8).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cleanup::{Cleanups, Registration};

/// What makes one: direct I/O, so that the page cache does not answer in the
/// disk's stead, and the sectors of the disk.
const OPTIONS: [&str; 5] = ["--direct-io=on", "--sector-size", "512", "--find", "--show"];

/// As it can be typed.
pub fn command(file: &Path) -> String {
    let file = file.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    let file = if file.chars().all(plain) {
        file
    } else {
        format!("'{}'", file.replace('\'', r"'\''"))
    };
    format!("losetup {} {file}", OPTIONS.join(" "))
}

/// A loop device. Detached when dropped.
pub struct LoopDevice {
    path: PathBuf,
    _detach: Registration,
}

impl LoopDevice {
    /// On `file`, the disk of a model that has a head if `rotating`: the kernel
    /// takes every loop device on a FUSE file for one without.
    ///
    /// # Errors
    /// What losetup says: not root, no free device.
    pub fn attach(file: &Path, rotating: bool, cleanups: &Cleanups) -> Result<Self, String> {
        let output = Command::new("losetup")
            .args(OPTIONS)
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.trim().to_owned());
        }
        let path: PathBuf = String::from_utf8_lossy(&output.stdout).trim().into();
        let device = path.clone();
        let detach = cleanups.register(move || {
            // Nothing can be done where this fails.
            let _ = Command::new("losetup")
                .arg("--detach")
                .arg(device)
                .stderr(Stdio::null())
                .status();
        });
        let attached = Self {
            path,
            _detach: detach,
        };
        let attribute = attached.attribute();
        fs::write(&attribute, if rotating { "1" } else { "0" })
            .map_err(|error| format!("{}: {error}", attribute.display()))?;
        Ok(attached)
    }

    fn attribute(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default();
        let block = Path::new("/sys/block").join(name);
        block.join("queue/rotational")
    }

    /// Such as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_typed() {
        assert_eq!(
            command(Path::new("/mnt/disk/disk")),
            "losetup --direct-io=on --sector-size 512 --find --show /mnt/disk/disk"
        );
        assert!(command(Path::new("/mnt/a b/it's")).ends_with(r"--show '/mnt/a b/it'\''s'"));
    }
    #[test]
    fn a_device_has_a_head_if_its_model_has() {
        if !crate::sys::file::is_root() {
            return iolane_testing::skipped("loop devices need root");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let cleanups = Cleanups::default();
        for (rotating, said) in [(true, "1"), (false, "0")] {
            let Ok(device) = LoopDevice::attach(file.path(), rotating, &cleanups) else {
                return iolane_testing::skipped("there are no loop devices here");
            };
            let attribute = fs::read_to_string(device.attribute()).unwrap();
            assert_eq!(attribute.trim(), said);
        }
    }
}
