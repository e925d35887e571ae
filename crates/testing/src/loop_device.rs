//! A block device of our own.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A loop device with direct I/O on a file of its own. Both are gone when it is
/// dropped, also by a panic.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    // After the device in drop order: the file is still attached until then.
    _image: TempDir,
}

impl LoopDevice {
    /// Makes one of `size_bytes`, all zeros, with its file in `directory`.
    ///
    /// # Errors
    /// Why the machine gives none, in words: not root, no losetup, no room, no
    /// free loop device, no direct I/O in `directory`.
    pub fn new(directory: &Path, size_bytes: u64) -> Result<Self, String> {
        let image = TempDir::new_in(directory).map_err(|error| error.to_string())?;
        let file = image.path().join("disk");
        allocate(&file, size_bytes).map_err(|error| format!("no room for a disk: {error}"))?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(&file)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("no loop device: {}", said.trim()));
        }
        let path = String::from_utf8_lossy(&output.stdout).trim().into();
        Ok(Self {
            path,
            _image: image,
        })
    }

    /// Such as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Such as `loop0`.
    pub fn name(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.expect("losetup prints /dev/loopN")
    }

    /// Major and minor number, such as `7:0`.
    ///
    /// # Errors
    /// When sysfs is not there.
    pub fn numbers(&self) -> io::Result<String> {
        let text = fs::read_to_string(format!("/sys/block/{}/dev", self.name()))?;
        Ok(text.trim().to_owned())
    }
}

/// With blocks of its own: reads of holes would never reach the disk below.
fn allocate(path: &Path, size_bytes: u64) -> io::Result<()> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let mut file = File::create_new(path)?;
    let chunk = vec![0; CHUNK_BYTES as usize];
    let mut left = size_bytes;
    while left > 0 {
        let length = left.min(CHUNK_BYTES);
        io::Write::write_all(&mut file, &chunk[..length as usize])?;
        left -= length;
    }
    file.sync_data()
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Nothing can be done where this fails; a test that panics already
        // must not panic again.
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
    }
}
