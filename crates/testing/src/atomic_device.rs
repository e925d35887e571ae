//! A disk in memory whose writes can arrive whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

/// A disk of the kernel's `scsi_debug` that takes atomic writes and that
/// nobody uses otherwise: it keeps nothing, so tests may write to it.
///
/// # Errors
/// That there is none, with what makes one (Linux 6.11 and newer).
pub fn atomic_device() -> Result<PathBuf, String> {
    let none = "no disk of scsi_debug takes atomic writes: modprobe scsi_debug atomic_wr=1";
    let disks = fs::read_dir("/sys/block").map_err(|error| error.to_string())?;
    disks
        .flatten()
        .map(|disk| disk.path())
        .find(|disk| is_scsi_debug(disk) && takes_atomic_writes(disk))
        .and_then(|disk| Some(Path::new("/dev").join(disk.file_name()?)))
        .ok_or_else(|| none.to_owned())
}

fn is_scsi_debug(disk: &Path) -> bool {
    let model = fs::read_to_string(disk.join("device/model"));
    model.is_ok_and(|model| model.trim() == "scsi_debug")
}

fn takes_atomic_writes(disk: &Path) -> bool {
    let bytes = fs::read_to_string(disk.join("queue/atomic_write_unit_max_bytes"));
    bytes.is_ok_and(|bytes| !matches!(bytes.trim(), "" | "0"))
}
