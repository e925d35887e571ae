//! Loop devices that stand on a served disk's file, and what the kernel knows
//! of their requests.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::served::correction::Accounted;

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Loop devices that stand on `file`, such as `/dev/loop0`.
pub fn loop_devices_on(file: &Path) -> Vec<PathBuf> {
    loop_devices_where(|backing| backing == file)
}

pub(super) fn loop_devices_where(is_one: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let Ok(blocks) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let on_file = |entry: &fs::DirEntry| {
        let backing = fs::read(entry.path().join("loop/backing_file")).unwrap_or_default();
        let backing = backing.strip_suffix(b"\n");
        backing.is_some_and(|backing| is_one(Path::new(OsStr::from_bytes(backing))))
    };
    let mut devices: Vec<PathBuf> = blocks
        .flatten()
        .filter(on_file)
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect();
    devices.sort();
    devices
}

/// What the kernel has accounted of a block device's reads and writes since it
/// was made, from when it had them to when it had their ends; to the
/// millisecond, but over all of them.
///
/// # Errors
/// When there is no such device, or it keeps no accounts
/// (`queue/iostats` of 0).
pub fn accounted(device: &Path) -> io::Result<Accounted> {
    let name = device.file_name().unwrap_or_default();
    let queue = Path::new("/sys/block").join(name);
    if fs::read_to_string(queue.join("queue/iostats"))?.trim() == "0" {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "queue/iostats is 0",
        ));
    }
    parse(&fs::read_to_string(queue.join("stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat has other columns"))
}

/// Columns as in the kernel's Documentation/block/stat.rst.
fn parse(stat: &str) -> Option<Accounted> {
    let columns: Vec<u64> = stat
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [reads, _, _, read_ms, writes, _, _, write_ms, ..] = columns[..] else {
        return None;
    };
    Some(Accounted {
        requests: reads + writes,
        took_ns: (read_ms + write_ms) * NANOSECONDS_PER_MILLISECOND,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_counted_and_flushes_are_not() {
        let stat = " 100 5 800 9 20 3 160 4 0 12 13 0 0 0 0 7 1\n";
        let expected = Accounted {
            requests: 120,
            took_ns: 13_000_000,
        };
        assert_eq!(parse(stat), Some(expected));
        assert_eq!(parse("1 2 3"), None);
        assert_eq!(parse("1 2 3 4 5 6 7 x"), None);
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        assert!(accounted(Path::new("/dev/no-such-device")).is_err());
    }
}
